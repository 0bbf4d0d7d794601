//! Answers that count against the budget of bytes in flight until they are written.
//!
//! Whoever asks for much and reads nothing would otherwise fill the memory with answers.

use super::error::Error;
use super::routes::Route;
use crate::auth::Caller;
use crate::budget::{Budget, Share};
use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Smaller answers fit what a connection may hold anyway.
const LARGE_BYTES: u64 = 64 * 1024;

/// Counts an answer if it is large. One that changed nothing, or can be taken back, is refused if there is no
/// room for it; any other has to be told.
pub fn counted(
    response: Response,
    route: &Route,
    caller: &Caller,
    budget: &Arc<Budget>,
) -> Result<Response, Error> {
    let bytes = response.body().size_hint().exact().filter(|bytes| *bytes > LARGE_BYTES);
    let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else { return Ok(response) };
    let share = budget.share(caller);
    match route.method == Method::GET || route.lends {
        true => share.grow(bytes).map_err(|_| Error::overfull())?,
        false => share.hold(bytes),
    }
    Ok(response.map(|body| Body::new(CountedBody { body, _share: share })))
}

struct CountedBody {
    body: Body,
    _share: Share,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
