//! Threads that read the tables, so that the owner never waits for a disk. Tenants take turns.

mod turns;

use std::sync::{Arc, Condvar, Mutex};
use turns::Turns;

type Reading = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Line {
    readings: Turns<Reading>,
    is_closed: bool,
}

/// The pools of a store, by who waits for them.
#[derive(Clone)]
pub struct Pools {
    /// A caller waits.
    pub lookups: Arc<Readers>,
    /// A caller waits, and knows that it takes its time: one page at a time.
    pub searches: Arc<Readers>,
    /// Nobody waits yet, but soon claims would. Reads a little at a time.
    pub ahead: Arc<Readers>,
}

impl Pools {
    pub fn start(shards: usize) -> std::io::Result<Pools> {
        Ok(Pools {
            lookups: Arc::new(Readers::start("read", 2, 0)?),
            searches: Arc::new(Readers::start("search", 1, 5)?),
            ahead: Arc::new(Readers::start("ahead", shards.clamp(1, 4), 0)?),
        })
    }

    pub fn close(&self) {
        [&self.lookups, &self.searches, &self.ahead].into_iter().for_each(|readers| readers.close());
    }
}

/// A small pool. What waits in it is bounded by the commands that may be under way.
pub struct Readers {
    line: Arc<(Mutex<Line>, Condvar)>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Readers {
    /// `name` tells the threads apart; `nice` is how far they step back behind others.
    fn start(name: &str, count: usize, nice: i32) -> std::io::Result<Readers> {
        let line = Arc::new((Mutex::new(Line::default()), Condvar::new()));
        let mut threads = Vec::new();
        for number in 0..count {
            let line = line.clone();
            let thread = std::thread::Builder::new().name(format!("codeq-{name}-{number}"));
            threads.push(thread.spawn(move || {
                let _ = rustix::process::nice(nice);
                read_on(&line);
            })?);
        }
        Ok(Readers { line, threads: Mutex::new(threads) })
    }

    /// Has something read on behalf of a tenant; an empty name stands for the store itself, and for all tenants.
    pub fn submit(&self, tenant: &Arc<str>, reading: impl FnOnce() + Send + 'static) {
        let (line, signal) = &*self.line;
        let mut line = line.lock().expect("no reader panics holding the line");
        if !line.is_closed {
            line.readings.push(tenant, Box::new(reading));
            signal.notify_one();
        }
    }

    /// Finishes what waits, then ends the threads.
    fn close(&self) {
        let (line, signal) = &*self.line;
        line.lock().expect("no reader panics holding the line").is_closed = true;
        signal.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().expect("no one panics holding the threads"));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

fn read_on(line: &(Mutex<Line>, Condvar)) {
    let (line, signal) = line;
    loop {
        let mut waiting = line.lock().expect("no reader panics holding the line");
        while waiting.readings.is_empty() && !waiting.is_closed {
            waiting = signal.wait(waiting).expect("no reader panics holding the line");
        }
        let Some(reading) = waiting.readings.pop() else { return };
        drop(waiting);
        // A reading that fails ends for its caller, not for those who wait behind it.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(reading)).is_err() {
            tracing::error!(op = "read", "a reading thread has met a fault and goes on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Two lines of an import made both reading threads panic, and nobody's lookups were answered any more.
    #[test]
    fn readings_that_panic_end_no_thread() {
        let readers = Readers::start("test", 2, 0).expect("threads");
        let tenant: Arc<str> = "acme".into();
        for _ in 0..8 {
            readers.submit(&tenant, || panic!("a row that nobody expected"));
        }
        let (told, hears) = mpsc::channel();
        for number in 0..4 {
            let told = told.clone();
            readers.submit(&tenant, move || told.send(number).expect("somebody hears"));
        }
        let mut heard: Vec<i32> = (0..4).map(|_| hears.recv().expect("a thread is there")).collect();
        heard.sort_unstable();
        assert_eq!(heard, [0, 1, 2, 3]);
        readers.close();
    }

    /// Four cleanups of one tenant made the keyed creates of all others wait for a third of a second.
    #[test]
    fn a_tenant_that_asks_for_much_keeps_no_other_waiting() {
        let readers = Readers::start("test", 1, 0).expect("a thread");
        let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
        let (open, gate) = mpsc::channel::<()>();
        readers.submit(&noisy, move || gate.recv().expect("it is opened"));
        let (told, hears) = mpsc::channel();
        for number in 0..100 {
            let told = told.clone();
            readers.submit(&noisy, move || told.send(("noisy", number)).expect("somebody hears"));
        }
        readers.submit(&quiet, move || told.send(("quiet", 0)).expect("somebody hears"));
        open.send(()).expect("the thread waits");
        let heard: Vec<_> = hears.iter().collect();
        assert_eq!(heard.len(), 101);
        assert!(heard[..2].contains(&("quiet", 0)), "{:?}", &heard[..3]);
        readers.close();
    }
}
