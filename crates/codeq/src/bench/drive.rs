//! A very small executor: all clients of a bench on one thread, so that what is measured is the server
//! side and not a runtime's scheduling.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

type Client = Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

struct Line {
    woken: Mutex<Vec<usize>>,
    driver: Thread,
}

struct Bell {
    line: Arc<Line>,
    client: usize,
    is_rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = self.line.woken.lock().expect("no one panics holding the line");
        woken.push(self.client);
        let is_first = woken.len() == 1;
        drop(woken);
        if is_first {
            self.line.driver.unpark();
        }
    }
}

thread_local! {
    static SLEEPERS: RefCell<BTreeMap<(Instant, usize), Waker>> = const { RefCell::new(BTreeMap::new()) };
    static NEXT: RefCell<usize> = const { RefCell::new(0) };
}

/// Completes at `at`. Only inside [`drive`].
pub async fn sleep_until(at: Instant) {
    std::future::poll_fn(|context| {
        if Instant::now() >= at {
            return Poll::Ready(());
        }
        let number = NEXT.with_borrow_mut(|next| {
            *next += 1;
            *next
        });
        SLEEPERS.with_borrow_mut(|sleepers| sleepers.insert((at, number), context.waker().clone()));
        Poll::Pending
    })
    .await;
}

/// Runs all clients until each has ended, or one has failed.
pub fn drive(clients: Vec<Client>) -> anyhow::Result<()> {
    let line = Arc::new(Line { woken: Mutex::new(Vec::new()), driver: std::thread::current() });
    let bells: Vec<Arc<Bell>> = (0..clients.len())
        .map(|client| Arc::new(Bell { line: line.clone(), client, is_rung: AtomicBool::new(false) }))
        .collect();
    let wakers: Vec<Waker> = bells.iter().map(|bell| Waker::from(bell.clone())).collect();
    let mut clients: Vec<Option<Client>> = clients.into_iter().map(Some).collect();
    let mut left = clients.len();
    let mut woken: Vec<usize> = (0..left).collect();
    while left > 0 {
        for client in woken.drain(..) {
            bells[client].is_rung.store(false, Ordering::Release);
            let Some(future) = &mut clients[client] else { continue };
            if let Poll::Ready(ended) = future.as_mut().poll(&mut Context::from_waker(&wakers[client])) {
                ended?;
                clients[client] = None;
                left -= 1;
            }
        }
        if left > 0 {
            wait(&line, &mut woken);
        }
    }
    Ok(())
}

fn wait(line: &Line, woken: &mut Vec<usize>) {
    loop {
        let due = SLEEPERS.with_borrow_mut(|sleepers| {
            let now = Instant::now();
            while let Some(first) = sleepers.first_entry() {
                if first.key().0 > now {
                    return Some(first.key().0 - now);
                }
                first.remove().wake();
            }
            None
        });
        std::mem::swap(&mut *line.woken.lock().expect("no one panics holding the line"), woken);
        if !woken.is_empty() {
            return;
        }
        match due {
            Some(due) => std::thread::park_timeout(due),
            None => std::thread::park(),
        }
    }
}
