//! Messages on their way in.
//!
//! The library reserves what a message announces before a byte of it has come. So it is handed nothing but
//! whole messages: until then the pieces are kept as they came, and only what came is in memory. The first
//! message has to be a Hello and may be no larger than one; later ones count against the budget of the
//! caller, and a stream for which there is no room is not read until there is, for a while.

use super::handshake::hello_first;
use super::{HELLO_BYTES, MESSAGE_BYTES};
use crate::budget::Share;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;

/// Bytes in front of a message: a flag and the length.
const PREFIX: usize = 5;
/// How often a stream looks whether there is room again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a stream waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// Set once the caller is known: what its stream takes.
pub type Known = Arc<OnceLock<Arc<Share>>>;

pub struct Arriving<B = Incoming> {
    body: B,
    known: Known,
    /// Whole messages.
    whole: VecDeque<Bytes>,
    /// Pieces of a message that is not whole yet.
    pieces: VecDeque<Bytes>,
    /// Bytes of either that are counted.
    counted: usize,
    /// A piece for which there is no room yet.
    waiting: Option<Waiting>,
    place: Place,
    is_first: bool,
}

/// Where in a message the next byte belongs.
enum Place {
    Prefix([u8; PREFIX], usize),
    Message(usize),
}

struct Waiting {
    piece: Bytes,
    until: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl<B> Arriving<B> {
    pub fn new(body: B, known: Known) -> Arriving<B> {
        let (whole, pieces) = (VecDeque::new(), VecDeque::new());
        let place = Place::Prefix([0; PREFIX], 0);
        Arriving { body, known, whole, pieces, counted: 0, waiting: None, place, is_first: true }
    }

    /// A piece that there is room for.
    fn take(&mut self, mut piece: Bytes) -> Result<(), Status> {
        let end = self.scan(&piece)?;
        if end > 0 {
            self.whole.append(&mut self.pieces);
            self.whole.push_back(piece.split_to(end));
        }
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
        Ok(())
    }

    /// Where the last message ends that is whole with this piece; zero if there is none.
    fn scan(&mut self, piece: &[u8]) -> Result<usize, Status> {
        let (mut at, mut end) = (0, 0);
        while at < piece.len() {
            match &mut self.place {
                Place::Prefix(prefix, known) => {
                    prefix[*known] = piece[at];
                    (*known, at) = (*known + 1, at + 1);
                    if *known == PREFIX {
                        let [_, length @ ..] = *prefix;
                        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                        self.check(length)?;
                        self.place = Place::Message(length);
                    }
                }
                Place::Message(left) => {
                    let here = (*left).min(piece.len() - at);
                    (*left, at) = (*left - here, at + here);
                }
            }
            if matches!(self.place, Place::Message(0)) {
                end = at;
                self.place = Place::Prefix([0; PREFIX], 0);
            }
        }
        Ok(end)
    }

    /// Nothing is kept for a message that is too large.
    fn check(&mut self, length: usize) -> Result<(), Status> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_first && length > HELLO_BYTES {
            return Err(hello_first());
        }
        match length > MESSAGE_BYTES {
            true => Err(Status::resource_exhausted(format!(
                "message too large: {length} bytes, the limit is {MESSAGE_BYTES} bytes"
            ))),
            false => Ok(()),
        }
    }

    /// Counts a piece, or says that there is no room for it.
    fn count(&mut self, bytes: usize) -> bool {
        let Some(share) = self.known.get() else { return true };
        let has_room = share.grow(bytes).is_ok();
        self.counted += if has_room { bytes } else { 0 };
        has_room
    }

    /// Ready when there is room for the piece that waits.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        while let Some(mut waiting) = self.waiting.take() {
            if self.count(waiting.piece.len()) {
                return Poll::Ready(self.take(waiting.piece));
            }
            if Instant::now() >= waiting.until {
                return Poll::Ready(Err(Status::resource_exhausted("too many bytes in flight")));
            }
            let is_over = waiting.sleep.as_mut().poll(context).is_ready();
            if is_over {
                waiting.sleep = Box::pin(tokio::time::sleep(LOOK_AGAIN));
            }
            self.waiting = Some(waiting);
            if !is_over {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next piece of whole messages, which are no longer counted here.
    fn next_whole(&mut self) -> Option<Bytes> {
        let piece = self.whole.pop_front()?;
        self.give_back(piece.len());
        Some(piece)
    }

    fn give_back(&mut self, bytes: usize) {
        let counted = bytes.min(self.counted);
        self.counted -= counted;
        if let Some(share) = self.known.get() {
            share.less(counted);
        }
    }
}

impl<B> Drop for Arriving<B> {
    fn drop(&mut self) {
        self.give_back(self.counted);
    }
}

impl<B: Body<Data = Bytes, Error: Into<tonic::codegen::StdError>> + Unpin> Body for Arriving<B> {
    type Data = Bytes;
    type Error = tonic::codegen::StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(piece) = self.next_whole() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Err(status) = ready!(self.poll_room(context)) {
                return Poll::Ready(Some(Err(status.into())));
            }
            if !self.whole.is_empty() {
                continue;
            }
            let taken = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => match self.pieces.pop_front() {
                    // A message that has no end; the library says so.
                    Some(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                    None => return Poll::Ready(None),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    Ok(piece) => match self.count(piece.len()) {
                        true => self.take(piece),
                        false => {
                            let sleep = Box::pin(tokio::time::sleep(LOOK_AGAIN));
                            self.waiting = Some(Waiting { piece, until: Instant::now() + ROOM_WAIT, sleep });
                            Ok(())
                        }
                    },
                },
            };
            if let Err(status) = taken {
                return Poll::Ready(Some(Err(status.into())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, StreamBody};
    use std::convert::Infallible;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend(u32::try_from(bytes).unwrap().to_be_bytes());
        message.extend(vec![7; bytes]);
        message
    }

    async fn pieces(sent: Vec<Vec<u8>>) -> Vec<Result<usize, Status>> {
        let frames = sent.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
        let mut arriving = Arriving::new(StreamBody::new(tokio_stream::iter(frames)), Known::default());
        let mut seen = Vec::new();
        while let Some(frame) = arriving.frame().await {
            let piece = frame.map(|frame| frame.into_data().map_or(0, |data| data.len()));
            seen.push(piece.map_err(|error| *error.downcast::<Status>().expect("a status")));
        }
        seen
    }

    #[tokio::test]
    async fn only_whole_messages_are_handed_on() {
        let (first, second) = (message(10), message(300));
        let cut = [first.clone(), second[..100].to_vec()].concat();
        let seen = pieces(vec![
            first[..3].to_vec(),
            first[3..].to_vec(),
            second[..9].to_vec(),
            second[9..].to_vec(),
        ]);
        let seen: Vec<usize> = seen.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(seen, [3, 12, 9, 296]);
        let seen: Vec<usize> =
            pieces(vec![cut, second[100..].to_vec()]).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(seen, [15, 100, 205]);
        let many: Vec<u8> = (0..50).flat_map(|_| message(0)).collect();
        assert_eq!(pieces(vec![many]).await[0].as_ref().unwrap(), &250);
    }

    #[tokio::test]
    async fn a_first_message_that_announces_more_than_a_hello_is_refused_at_once() {
        let too_large = message(HELLO_BYTES + 1)[..PREFIX].to_vec();
        let refused = pieces(vec![too_large.clone()]).await.remove(0).expect_err("too large");
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        let later = pieces(vec![message(1), too_large]).await;
        assert!(later.iter().all(Result::is_ok), "later ones may have more");
        let mut huge = vec![0];
        huge.extend((MESSAGE_BYTES as u32 + 1).to_be_bytes());
        let refused = pieces(vec![message(1), huge]).await.remove(1).expect_err("too large");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    }
}
