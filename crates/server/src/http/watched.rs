//! A connection with a clock: heads that do not come, and clients that only sit there, are cut off.
//!
//! The head of a request has to arrive within [`HEAD_TIME`] of its first byte, or of the connection being
//! made. Between requests a connection may idle for [`IDLE_TIME`]: a client that keeps connections in a
//! pool must not find them closed after seconds. While a request is served there is no limit here; bodies
//! and waits have their own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

pub const HEAD_TIME: Duration = Duration::from_secs(5);
pub const IDLE_TIME: Duration = Duration::from_secs(120);

/// No limit at the moment.
const NONE: u64 = u64::MAX;

/// Shared between a connection and the service on it.
pub struct Pace {
    start: Instant,
    /// Milliseconds after `start` at which patience ends.
    deadline: AtomicU64,
    /// Whether the next byte begins a head.
    is_idle: std::sync::atomic::AtomicBool,
}

impl Pace {
    fn set(&self, patience: Duration) {
        let millis = (self.start.elapsed() + patience).as_millis();
        self.deadline.store(u64::try_from(millis).unwrap_or(NONE), Ordering::Relaxed);
    }

    pub fn head_is_complete(&self) {
        self.is_idle.store(false, Ordering::Relaxed);
        self.deadline.store(NONE, Ordering::Relaxed);
    }

    pub fn is_answered(&self) {
        self.set(IDLE_TIME);
        self.is_idle.store(true, Ordering::Relaxed);
    }

    fn has_bytes(&self) {
        if self.is_idle.swap(false, Ordering::Relaxed) {
            self.set(HEAD_TIME);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.deadline.load(Ordering::Relaxed) {
            NONE => None,
            millis => Some(self.start + Duration::from_millis(millis)),
        }
    }
}

pub struct Watched {
    stream: TcpStream,
    pace: Arc<Pace>,
    /// Moved only when it has fired: most deadlines are replaced long before.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    pub fn new(stream: TcpStream) -> (Watched, Arc<Pace>) {
        let pace =
            Arc::new(Pace { start: Instant::now(), deadline: AtomicU64::new(NONE), is_idle: false.into() });
        pace.set(HEAD_TIME);
        (Watched { stream, pace: pace.clone(), alarm: None }, pace)
    }

    /// Ready when patience has ended.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(deadline) = self.pace.deadline() else {
                self.alarm = None;
                return Poll::Pending;
            };
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if alarm.deadline() > deadline || alarm.is_elapsed() {
                alarm.as_mut().reset(deadline);
            }
            ready!(alarm.as_mut().poll(context));
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.pace.has_bytes();
            return Poll::Ready(read);
        }
        // Nothing read is the end of the stream: the connection is closed without a word.
        self.poll_patience(context).map(Ok)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
