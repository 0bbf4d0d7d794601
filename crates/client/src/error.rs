//! What can go wrong, by what a caller can do about it.

use std::time::Duration;
use thiserror::Error;

/// Why a call did not succeed.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server works and the answer is no. The codes are listed in `docs/errors.md`.
    #[error("refused with {status} {code}: {message}")]
    Refused {
        /// As over HTTP, whatever the transport.
        status: u16,
        /// For programs; stable.
        code: String,
        /// For people; stable.
        message: String,
        /// What the server's log has about it, over HTTP.
        request_id: Option<String>,
    },
    /// The token is not accepted. Retrying with the same one does not help.
    #[error("unauthorized: {message}")]
    Unauthorized {
        /// What the server says is wrong with it.
        message: String,
    },
    /// There was no answer, or one that says to try again: the outcome is unknown.
    #[error("unavailable: {message}")]
    Unavailable {
        /// What the server said, or what broke on the way.
        message: String,
        /// What the server asked for.
        retry_after: Option<Duration>,
    },
    /// The task had no result when the time was up.
    #[error("the task has not finished yet")]
    NotFinished,
    /// Reads go over HTTP, and this producer knows stream addresses only.
    #[error("reading tasks and results needs the base URL of the HTTP API: set it with Connection::http")]
    NeedsHttp,
    /// The settings cannot work.
    #[error("settings: {0}")]
    Settings(String),
    /// A value cannot be turned into JSON, or JSON not into the value asked for.
    #[error("JSON: {0}")]
    Json(String),
}

impl Error {
    /// Whether the same call may succeed later. The outcome of this one is unknown.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Unavailable { .. })
    }

    /// The code of a refusal; empty for anything else.
    pub fn code(&self) -> &str {
        match self {
            Error::Refused { code, .. } => code,
            _ => "",
        }
    }

    pub(crate) fn refused(status: u16, code: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Refused { status, code: code.into(), message: message.into(), request_id: None }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Error {
        Error::Unavailable { message: message.into(), retry_after: None }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// An error with its causes in one line; transports hide what matters in them.
    pub(crate) fn broken(error: &dyn std::error::Error) -> Error {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        Error::unavailable(text)
    }
}
