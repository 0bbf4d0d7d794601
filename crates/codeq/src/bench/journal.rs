//! The ceiling: the bare journal writing the same bytes for the same number of callers.
//!
//! One thread gathers what is waiting, frames it, writes, syncs and answers; nothing is decided, indexed or
//! kept. Callers append the three entries of a cycle one after another, each waiting for its sync, so that
//! "in flight" means the same as for a store.

use super::drive;
use super::meter::{Reading, histogram, record};
use super::report::Row;
use codeq_store::local::files::DiskFiles;
use codeq_store::local::journal::{self, Appender, FRAME_HEADER, Journal};
use std::cell::RefCell;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

type Append = (usize, oneshot::Sender<()>);

#[derive(Default)]
struct Line {
    waiting: Mutex<(Vec<Append>, bool)>,
    signal: Condvar,
}

impl Line {
    fn append(&self, bytes: usize) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().expect("no one panics holding the line");
        waiting.0.push((bytes, done));
        let is_first = waiting.0.len() == 1;
        drop(waiting);
        if is_first {
            self.signal.notify_one();
        }
        answer
    }

    fn close(&self) {
        self.waiting.lock().expect("no one panics holding the line").1 = true;
        self.signal.notify_one();
    }

    /// Everything that waits; `None` once closed.
    fn take(&self) -> Option<Vec<Append>> {
        let mut waiting = self.waiting.lock().expect("no one panics holding the line");
        loop {
            if !waiting.0.is_empty() {
                return Some(std::mem::take(&mut waiting.0));
            }
            if waiting.1 {
                return None;
            }
            waiting = self.signal.wait(waiting).expect("no one panics holding the line");
        }
    }
}

fn write(line: &Line, journal: &Journal, mut appender: Appender) -> anyhow::Result<()> {
    let mut buffer = vec![0u8; FRAME_HEADER];
    while let Some(appends) = line.take() {
        for (bytes, _) in &appends {
            buffer.resize(buffer.len() + bytes, b'x');
        }
        let bytes = buffer.len();
        if appender.ensure_room(bytes).is_err() {
            while journal.prepare()? {}
            appender.wait_room(bytes, Duration::from_secs(5))?;
            appender.ensure_room(bytes)?;
        }
        let write = appender.frame(buffer, 0);
        write.perform(true)?;
        for (_, done) in appends {
            let _ = done.send(());
        }
        // Everything is released at once: the same few segments are recycled.
        journal.release(write.position);
        buffer = write.into_buffer();
    }
    Ok(())
}

/// Runs cycles for this long, `in_flight` at once.
pub fn run(directory: &Path, in_flight: usize, seconds: f64, cycle_bytes: [usize; 3]) -> anyhow::Result<Row> {
    let directory = directory.join("bare");
    std::fs::create_dir_all(&directory)?;
    let files = Arc::new(DiskFiles::new(&directory));
    let opened = journal::open(files, journal::Options::default(), 1, 1, 0, &mut |_, _| Ok(()))?;
    while opened.journal.prepare()? {}
    let line = Arc::new(Line::default());
    let writer = {
        let line = line.clone();
        std::thread::spawn(move || write(&line, &opened.journal, opened.appender))
    };
    let tally = Rc::new(RefCell::new((histogram(), 0u64)));
    let started = Reading::take();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let callers = (0..in_flight).map(|_| -> Pin<Box<dyn Future<Output = _>>> {
        let (line, tally) = (line.clone(), tally.clone());
        Box::pin(async move {
            while Instant::now() < end {
                for bytes in cycle_bytes {
                    let at = Instant::now();
                    line.append(bytes).await?;
                    record(&mut tally.borrow_mut().0, at.elapsed());
                }
                tally.borrow_mut().1 += 1;
            }
            Ok(())
        })
    });
    let driven = drive::drive(callers.collect());
    let used = started.used();
    line.close();
    writer.join().map_err(|_| anyhow::anyhow!("the writing thread has panicked"))??;
    driven?;
    std::fs::remove_dir_all(&directory)?;
    let tally = tally.borrow();
    Ok(Row { ratio: Some(1.0), ..Row::new("journal", in_flight, tally.1, &used, &tally.0) })
}
