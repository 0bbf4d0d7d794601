//! What callers may take before their token is known.
//!
//! A connection is read up to [`STRANGER_BYTES`] while streams on it have not said Hello; what is beyond stays
//! with the system until one of them was let in or all of them have gone. Streams without a Hello are counted
//! over the whole server: when there are too many, the one that has been silent longest ends.

use crate::seats::Seat;
use crate::tls::Transport;
use futures_util::task::AtomicWaker;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// What is read of a connection on which nobody is known: a Hello, and what HTTP puts around it.
const STRANGER_BYTES: usize = super::HELLO_BYTES + 16 * 1024;
/// Read at once from a stranger.
const PIECE_BYTES: usize = 8 * 1024;
/// Streams without a Hello on one connection.
const CONNECTION_GUESTS: usize = 1024;
/// Streams without a Hello, over all connections.
const STRANGER_STREAMS_MAX: usize = 2048;

/// Everyone who has not said Hello.
#[derive(Default)]
pub struct Lobby {
    guests: Mutex<(u64, BTreeMap<u64, CancellationToken>)>,
}

/// A place in the lobby.
pub struct Waiting<'a> {
    lobby: &'a Lobby,
    number: u64,
    pub dismissed: CancellationToken,
}

impl Lobby {
    pub fn enter(&self) -> Waiting<'_> {
        let dismissed = CancellationToken::new();
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.0 += 1;
        let number = guests.0;
        guests.1.insert(number, dismissed.clone());
        if guests.1.len() > STRANGER_STREAMS_MAX
            && let Some((_, longest)) = guests.1.pop_first()
        {
            longest.cancel();
        }
        Waiting { lobby: self, number, dismissed }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.lobby.guests.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.number);
    }
}

/// One connection as long as nobody on it is known, and afterwards.
pub struct Doorstep {
    seat: Arc<Seat>,
    is_known: AtomicBool,
    /// Streams that have not said Hello.
    guests: AtomicUsize,
    /// Streams, greeted or not.
    streams: AtomicUsize,
    /// Bytes that may be read.
    left: AtomicUsize,
    /// Nothing was left when it was read last.
    is_stopped: AtomicBool,
    reader: AtomicWaker,
}

impl Doorstep {
    pub fn new(seat: Arc<Seat>) -> Arc<Doorstep> {
        Arc::new(Doorstep {
            seat,
            is_known: AtomicBool::new(false),
            guests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            left: AtomicUsize::new(STRANGER_BYTES),
            is_stopped: AtomicBool::new(false),
            reader: AtomicWaker::new(),
        })
    }

    /// A stream has begun; none if there are too many that have not said Hello.
    pub fn enter(self: &Arc<Self>) -> Option<Guest> {
        self.seat.is_waiting(!self.is_known.load(Ordering::Relaxed));
        self.streams.fetch_add(1, Ordering::Relaxed);
        let guest = Guest { doorstep: self.clone(), is_greeted: AtomicBool::new(false) };
        (self.guests.fetch_add(1, Ordering::Relaxed) < CONNECTION_GUESTS).then_some(guest)
    }

    /// How much may be read now.
    fn room(&self, context: &Context<'_>) -> Option<usize> {
        if self.is_known.load(Ordering::Acquire) {
            return Some(usize::MAX);
        }
        self.reader.register(context.waker());
        let left = self.left.load(Ordering::Acquire);
        if left > 0 {
            return Some(left);
        }
        // What was read may hold streams that nobody has seen yet: only after those were counted does it mean
        // something that there are none.
        if self.is_stopped.swap(true, Ordering::Relaxed) && self.guests.load(Ordering::Acquire) == 0 {
            self.is_stopped.store(false, Ordering::Relaxed);
            self.left.store(STRANGER_BYTES, Ordering::Release);
            return Some(STRANGER_BYTES);
        }
        if self.guests.load(Ordering::Acquire) == 0 {
            context.waker().wake_by_ref();
        }
        None
    }

    fn is_left(&self) {
        if self.guests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.left.store(STRANGER_BYTES, Ordering::Release);
            self.is_stopped.store(false, Ordering::Relaxed);
            self.reader.wake();
        }
    }
}

/// One stream, a guest until it is greeted.
pub struct Guest {
    doorstep: Arc<Doorstep>,
    is_greeted: AtomicBool,
}

impl Guest {
    /// Its token was accepted.
    pub fn is_greeted(&self) {
        self.is_greeted.store(true, Ordering::Relaxed);
        self.doorstep.seat.is_known();
        self.doorstep.seat.is_waiting(false);
        self.doorstep.is_known.store(true, Ordering::Release);
        self.doorstep.is_left();
        self.doorstep.reader.wake();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !*self.is_greeted.get_mut() {
            self.doorstep.is_left();
        }
        if self.doorstep.streams.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.doorstep.seat.is_waiting(true);
        }
    }
}

/// A connection of which strangers see only so much read.
pub struct Restrained {
    pub stream: Transport,
    pub doorstep: Arc<Doorstep>,
}

impl AsyncRead for Restrained {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = match self.doorstep.room(context) {
            None => return Poll::Pending,
            Some(usize::MAX) => return Pin::new(&mut self.stream).poll_read(context, buffer),
            Some(room) => room.min(buffer.remaining()).min(PIECE_BYTES),
        };
        let mut piece = [0; PIECE_BYTES];
        let mut part = ReadBuf::new(&mut piece[..room]);
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        buffer.put_slice(part.filled());
        self.doorstep.left.fetch_sub(part.filled().len(), Ordering::AcqRel);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Restrained {
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
