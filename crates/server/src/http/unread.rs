//! Bodies that nobody reads to their end.
//!
//! A request can be refused before its body has come: too large, no token, no such route. To close the
//! connection with bytes of it still on their way would reset it, and a client that is busy sending would
//! never see the answer. So whatever is left is read and thrown away, for a while, beside the answer.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a client may go on sending what nobody wants.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Unread {
    /// None once it has come to its end.
    body: Option<Incoming>,
    /// The client sends nothing before it is told to.
    is_held_back: bool,
}

impl Unread {
    pub fn new(body: Incoming, is_held_back: bool) -> Unread {
        Unread { body: Some(body), is_held_back }
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if self.is_held_back {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(PATIENCE, async move {
                while let Some(Ok(_)) = body.frame().await {}
            }));
        }
    }
}
