//! One request on its way to a handler.

use super::App;
use super::error::Error;
use super::watched::Pace;
use crate::auth::Caller;
use crate::broker::Broker;
use crate::budget::Share;
use crate::lengthy;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use codeq_api::json;
use codeq_queue::Refusal;
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;

pub struct Call {
    pub app: Arc<App>,
    pub head: Parts,
    pub body: Body,
    /// The path of the route, parameters in braces.
    pub template: &'static str,
    /// Most bytes the body may have.
    pub limit: usize,
    /// What the request takes of the budget; none while the caller is not known.
    pub share: Option<Share>,
}

impl Call {
    pub fn broker(&self) -> Result<&Arc<Broker>, Error> {
        self.app.broker().ok_or_else(Error::starting)
    }

    /// A parameter of the path, decoded; empty if it is not UTF-8.
    pub fn param(&self, name: &str) -> String {
        let segments = self.template.split('/').zip(self.head.uri.path().split('/'));
        let is_named =
            |template: &str| template.strip_prefix('{').and_then(|t| t.strip_suffix('}')) == Some(name);
        let value = segments.filter(|(template, _)| is_named(template)).map(|(_, value)| value).next();
        let decoded = percent_decode_str(value.unwrap_or_default()).decode_utf8();
        decoded.map(Cow::into_owned).unwrap_or_default()
    }

    /// `None` if there is no such header; an error if it is not UTF-8.
    pub fn header(&self, name: &str) -> Result<Option<&str>, std::str::Utf8Error> {
        self.head.headers.get(name).map(|value| std::str::from_utf8(value.as_bytes())).transpose()
    }

    /// The first value of a query parameter, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let query = self.head.uri.query()?;
        url::form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, v)| v.into_owned())
    }

    /// The clock of the connection; none if there is no connection.
    pub fn pace(&self) -> Option<Arc<Pace>> {
        self.head.extensions.get().cloned()
    }

    /// The token was accepted. Refuses if its bearer has too much in flight already.
    pub fn is_from(&mut self, caller: &Caller) -> Result<(), Error> {
        if let Some(pace) = self.head.extensions.get::<Arc<Pace>>() {
            pace.is_known();
        }
        let share = self.app.budget.share(caller);
        let has_room = share.has_room();
        self.share = Some(share);
        if has_room { Ok(()) } else { Err(Error::overfull()) }
    }

    /// Lets go of the request before a long wait. The pieces of its head lie in the buffer that the connection
    /// read it into, and keep all of that alive; its body was read and is gone.
    pub fn forget(&mut self) {
        self.head = Request::new(()).into_parts().0;
        if let Some(share) = &self.share {
            share.clear();
        }
    }

    /// Counts bytes that have arrived.
    fn count(&self, bytes: usize) -> Result<(), Error> {
        self.share.as_ref().map_or(Ok(()), |share| share.grow(bytes)).map_err(|_| Error::overfull())
    }

    /// Counts what is kept of a body that is read piece by piece.
    pub fn hold(&self, bytes: usize) -> Result<(), Error> {
        if let Some(share) = &self.share {
            share.clear();
        }
        self.count(bytes)
    }

    /// Whether the body is known to be too large before it is read.
    pub fn check_length(&self) -> Result<(), Error> {
        let declared =
            self.head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        match declared.is_some_and(|declared: u64| declared > self.limit as u64) {
            true => Err(Error::body_too_large()),
            false => Ok(()),
        }
    }

    /// The whole body, within its limit. One that came in one piece is not copied.
    pub async fn read(&mut self) -> Result<Bytes, Error> {
        let mut body = std::mem::take(&mut self.body);
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::InvalidBody)?.into_data() else { continue };
            if first.len().max(all.len()) + data.len() > self.limit {
                return Err(Error::body_too_large());
            }
            self.count(data.len())?;
            if first.is_empty() {
                first = data;
                continue;
            }
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }
}

/// Reads a body that has to be there.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    lengthy::of(body.len(), || json::read(body)).map_err(|_| Refusal::InvalidBody.into())
}

/// Reads a body that may be left out.
pub fn parse_or_empty<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    lengthy::of(body.len(), || json::read_or_empty(body)).map_err(|_| Refusal::InvalidBody.into())
}
