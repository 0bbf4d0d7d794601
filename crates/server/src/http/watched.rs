//! A connection with a clock: senders that do not come to the point are cut off.
//!
//! The head of a request has to arrive within [`HEAD_TIME`] of its first byte, or of the connection being
//! made. A body then has [`BODY_GRACE`], and more for every byte that comes, so that only a trickle is
//! ended. Between requests a connection may idle for [`IDLE_TIME`]: a client that keeps connections in a
//! pool must not find them closed after seconds. While a request is served there is no limit here; waits
//! have their own. An answer that is not taken for [`WRITE_TIME`] ends the connection too.
//!
//! Tasks on their way to a worker ride along ([`Pace::carry`]) until bytes of their answer are written, and
//! are not written at all if the worker has closed its side: then they go back.
//!
//! One timer per connection does all of this, and it is moved only when it has fired.

use super::unread::Unread;
use crate::broker::Lent;
use crate::seats::Seat;
use crate::tls::Transport;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

const HEAD_TIME: Duration = Duration::from_secs(5);
const IDLE_TIME: Duration = Duration::from_secs(120);
const BODY_GRACE: Duration = Duration::from_secs(10);
/// Longest stretch in which a peer takes nothing of an answer.
const WRITE_TIME: Duration = Duration::from_secs(15);
/// Bytes that earn a body another second.
const BODY_RATE: u64 = 16 * 1024;

/// No limit at the moment.
const NONE: u64 = u64::MAX;

/// What the next byte belongs to.
const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BODY: u8 = 2;
const SERVED: u8 = 3;
/// An answer whose end is not known is being told; afterwards it is as good as idle.
const TOLD: u8 = 4;

/// Shared between a connection and the service on it.
pub struct Pace {
    seat: Arc<Seat>,
    start: Instant,
    phase: AtomicU8,
    /// Milliseconds after `start` at which patience ends.
    deadline: AtomicU64,
    /// Whether there is a load; asked at every write.
    is_loaded: AtomicBool,
    load: Mutex<Option<Lent>>,
}

impl Pace {
    /// Takes tasks along whose answer is the next to be written.
    pub fn carry(&self, lent: Lent) {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner) = Some(lent);
        self.is_loaded.store(true, Ordering::Release);
    }

    fn unload(&self) -> Option<Lent> {
        self.is_loaded.store(false, Ordering::Relaxed);
        self.load.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn enter(&self, phase: u8, patience: Option<Duration>) {
        let deadline = patience.map_or(NONE, |patience| millis(self.start.elapsed() + patience));
        self.phase.store(phase, Ordering::Relaxed);
        self.seat.is_waiting(matches!(phase, IDLE | HEAD));
        self.deadline.store(deadline, Ordering::Relaxed);
    }

    /// A token was accepted on the connection.
    pub fn is_known(&self) {
        self.seat.is_known();
    }

    /// There is an answer, either all of it or one that is told piece by piece.
    pub fn is_answered(&self, is_whole: bool) {
        self.enter(if is_whole { IDLE } else { TOLD }, Some(IDLE_TIME));
    }

    fn has_bytes(&self, count: usize) {
        match self.phase.load(Ordering::Relaxed) {
            IDLE | TOLD => self.enter(HEAD, Some(HEAD_TIME)),
            BODY => drop(self.deadline.fetch_add(count as u64 * 1000 / BODY_RATE, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.deadline.load(Ordering::Relaxed) {
            NONE => None,
            millis => Some(self.start + Duration::from_millis(millis)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NONE)
}

/// The body of a request; tells when it is complete.
pub struct PacedBody {
    body: Unread,
    pace: Arc<Pace>,
}

impl PacedBody {
    /// To be made when the head is complete.
    pub fn new(body: Unread, pace: Arc<Pace>) -> PacedBody {
        match body.is_end_stream() {
            true => pace.enter(SERVED, None),
            false => pace.enter(BODY, Some(BODY_GRACE)),
        }
        PacedBody { body, pace }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if self.body.is_end_stream() || frame.is_none() {
            self.pace.enter(SERVED, None);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub struct TimedConnection {
    stream: Transport,
    pace: Arc<Pace>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Runs while a write waits for the peer.
    stall: Option<Pin<Box<Sleep>>>,
}

impl TimedConnection {
    pub fn new(stream: Transport, seat: Arc<Seat>) -> (TimedConnection, Arc<Pace>) {
        let pace = Pace {
            seat,
            start: Instant::now(),
            phase: AtomicU8::new(HEAD),
            deadline: AtomicU64::new(NONE),
            is_loaded: AtomicBool::new(false),
            load: Mutex::default(),
        };
        pace.enter(HEAD, Some(HEAD_TIME));
        let pace = Arc::new(pace);
        (TimedConnection { stream, pace: pace.clone(), alarm: None, stall: None }, pace)
    }

    /// Writes; a load has arrived when something of it was taken, and never goes to one who has closed.
    fn poll_out(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Transport>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let is_loaded = self.pace.is_loaded.load(Ordering::Acquire);
        if is_loaded && self.stream.is_closed_there() {
            drop(self.pace.unload());
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) else {
            return self.poll_stall(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
        };
        self.stall = None;
        // An answer that is still being told, event by event, is not idle.
        let phase = self.pace.phase.load(Ordering::Relaxed);
        if matches!(phase, IDLE | TOLD) {
            self.pace.is_answered(phase == IDLE);
        }
        if is_loaded
            && written.is_ok()
            && let Some(mut lent) = self.pace.unload()
        {
            lent.hand_over();
        }
        Poll::Ready(written)
    }

    /// Ready when the peer has taken nothing for too long.
    fn poll_stall(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let stall = self.stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIME)));
        stall.as_mut().poll(context)
    }

    /// Ready when patience has ended.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(deadline) = self.pace.deadline() else { return Poll::Pending };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if alarm.deadline() > deadline {
                alarm.as_mut().reset(deadline);
            }
            ready!(alarm.as_mut().poll(context));
            self.alarm = None;
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
        }
    }
}

impl AsyncRead for TimedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.pace.has_bytes(buffer.filled().len() - before);
            return Poll::Ready(read);
        }
        // Nothing read is the end of the stream: the connection is closed without a word.
        self.poll_patience(context).map(Ok)
    }
}

impl AsyncWrite for TimedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_out(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_out(context, |stream, context| stream.poll_write_vectored(context, parts))
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
