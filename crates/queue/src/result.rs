//! Results: the write-once terminal record of a task.

use crate::limits;
use crate::refusal::Refusal;
use crate::time::Time;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether a task succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// A worker submitted a result.
    Completed,
    /// A worker failed it, or it was cancelled, expired, ran out of attempts, or what it waited for failed.
    Failed,
}

impl Status {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            Status::Completed => "COMPLETED",
            Status::Failed => "FAILED",
        }
    }
}

/// Why a task failed that no worker failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureReason {
    /// It ran out of attempts.
    MaxAttempts,
    /// Someone cancelled it.
    Cancelled,
    /// Nobody claimed it in time.
    Expired,
    /// Something that it waited for did not succeed.
    Dependency,
}

impl FailureReason {
    /// The word of the wire.
    pub fn word(self) -> &'static str {
        match self {
            FailureReason::MaxAttempts => crate::task::MAX_ATTEMPTS,
            FailureReason::Cancelled => crate::task::CANCELLED,
            FailureReason::Expired => crate::task::EXPIRED,
            FailureReason::Dependency => crate::dependency::DEPENDENCY,
        }
    }
}

/// A named file or link attached to a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Artifact {
    /// 1 to 255 bytes; once per result.
    pub name: String,
    /// Where its bytes can be fetched; at most 2,048 bytes for a link that passes through.
    pub url: String,
    /// Set for bytes that codeQ keeps; `None` for a link that passed through.
    pub stored: Option<StoredArtifact>,
}

/// Bytes that codeQ keeps for a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredArtifact {
    /// Where the artifact store keeps the bytes.
    pub key: String,
    /// Visible ASCII, at most 255 bytes; `None` if the worker named none.
    pub content_type: Option<String>,
}

/// How a task ended; written once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultRecord {
    /// COMPLETED comes with a result, FAILED with an error.
    pub status: Status,
    /// A JSON object, exact text.
    pub result: Option<Arc<str>>,
    /// Why it failed; `None` if it completed.
    pub error: Option<Arc<str>>,
    /// `None` if a worker ended the task.
    pub failure_reason: Option<FailureReason>,
    /// In the order in which they were submitted.
    pub artifacts: Vec<Artifact>,
    /// When the task ended.
    pub completed_at: Time,
}

/// What a worker reports. Its content is checked after the guards of the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// `COMPLETED` or `FAILED`; everything else is refused.
    pub status: Box<str>,
    /// Exact JSON text; required for COMPLETED.
    pub result: Option<Arc<str>>,
    /// Required for FAILED and not blank then; ignored for COMPLETED.
    pub error: Option<Box<str>>,
    /// At most 16.
    pub artifacts: Vec<Artifact>,
}

impl Outcome {
    /// A success with this JSON as its result.
    pub fn completed(result: &str) -> Outcome {
        Outcome {
            status: "COMPLETED".into(),
            result: Some(result.into()),
            error: None,
            artifacts: Vec::new(),
        }
    }

    /// A failure for good.
    pub fn failed(error: &str) -> Outcome {
        Outcome { status: "FAILED".into(), result: None, error: Some(error.into()), artifacts: Vec::new() }
    }

    /// The record to store, or the first rule broken: status, then its fields, then artifacts.
    pub fn record(&self, now: Time) -> Result<ResultRecord, Refusal> {
        let status = match &*self.status {
            "COMPLETED" => Status::Completed,
            "FAILED" => Status::Failed,
            _ => return Err(Refusal::InvalidStatus),
        };
        if self.result.as_ref().is_some_and(|text| text.len() > limits::RESULT_BYTES) {
            return Err(Refusal::PayloadTooLarge);
        }
        let error = match status {
            Status::Completed if self.result.is_none() => return Err(Refusal::ResultRequired),
            Status::Completed => None,
            Status::Failed => match crate::task::reason_text(self.error.as_deref()) {
                None => return Err(Refusal::ErrorRequired),
                given => given,
            },
        };
        check_artifacts(&self.artifacts)?;
        Ok(ResultRecord {
            status,
            result: self.result.clone(),
            error,
            failure_reason: None,
            artifacts: self.artifacts.clone(),
            completed_at: now,
        })
    }
}

/// Artifacts that are few, and have names of their own.
pub fn check_artifacts(artifacts: &[Artifact]) -> Result<(), Refusal> {
    if artifacts.len() > limits::ARTIFACTS {
        return Err(Refusal::InvalidArtifact("too many artifacts (max 16)".into()));
    }
    let mut names = HashSet::new();
    for artifact in artifacts {
        check_artifact_name(&artifact.name)?;
        let kind = artifact.stored.as_ref().and_then(|stored| stored.content_type.as_deref()).unwrap_or("");
        let visible = kind.bytes().all(|c| (0x20..0x7f).contains(&c));
        if kind.len() > limits::ARTIFACT_TYPE_BYTES || !visible {
            return Err(Refusal::InvalidArtifact(format!("invalid artifact contentType: {}", artifact.name)));
        }
        if artifact.stored.is_none() && artifact.url.len() > limits::ARTIFACT_URL_BYTES {
            return Err(Refusal::InvalidArtifact(format!("invalid artifact url: {}", artifact.name)));
        }
        if !names.insert(artifact.name.as_str()) {
            return Err(Refusal::InvalidArtifact(format!("duplicate artifact name: {}", artifact.name)));
        }
    }
    Ok(())
}

/// 1 to 255 bytes, no separator, no control character, no `..`.
pub fn check_artifact_name(name: &str) -> Result<(), Refusal> {
    let fits = (1..=limits::ARTIFACT_NAME_BYTES).contains(&name.len());
    let legal = !name.contains(['/', '\\']) && !name.contains("..") && !name.chars().any(char::is_control);
    match fits && legal {
        true => Ok(()),
        false => Err(Refusal::InvalidArtifact(format!("invalid artifact name: {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str) -> Artifact {
        Artifact { name: name.into(), url: "https://x/".into(), stored: None }
    }

    #[test]
    fn content_rules_are_checked_in_order() {
        let now = Time::ZERO;
        let outcome = |status: &str, result: Option<&str>, error: Option<&str>| Outcome {
            status: status.into(),
            result: result.map(Into::into),
            error: error.map(Into::into),
            artifacts: vec![artifact("..")],
        };
        assert_eq!(outcome("DONE", None, None).record(now), Err(Refusal::InvalidStatus));
        assert_eq!(outcome("COMPLETED", None, None).record(now), Err(Refusal::ResultRequired));
        assert_eq!(outcome("FAILED", None, Some(" ")).record(now), Err(Refusal::ErrorRequired));
        assert_eq!(
            outcome("COMPLETED", Some("{}"), None).record(now),
            Err(Refusal::InvalidArtifact("invalid artifact name: ..".into()))
        );
        let ignored = Outcome { error: Some("x".into()), ..Outcome::completed("{}") };
        assert_eq!(ignored.record(now).unwrap().error, None);
        let kept = Outcome { result: Some("{\"a\":1}".into()), ..Outcome::failed("boom") };
        assert_eq!(kept.record(now).unwrap().result.as_deref(), Some("{\"a\":1}"));
    }

    #[test]
    fn artifact_names_are_checked() {
        for good in ["log.txt", "é", "a b", &"n".repeat(255)] {
            assert_eq!(check_artifact_name(good), Ok(()), "{good}");
        }
        for bad in ["", "a/b", "a\\b", "..", "a..b", "a\nb", &"n".repeat(256)] {
            assert!(check_artifact_name(bad).is_err(), "{bad:?}");
        }
        let twice = Outcome { artifacts: vec![artifact("a"), artifact("a")], ..Outcome::completed("{}") };
        assert_eq!(
            twice.record(Time::ZERO),
            Err(Refusal::InvalidArtifact("duplicate artifact name: a".into()))
        );
        let many = (0..17).map(|i| artifact(&i.to_string())).collect();
        let many = Outcome { artifacts: many, ..Outcome::completed("{}") };
        assert_eq!(
            many.record(Time::ZERO),
            Err(Refusal::InvalidArtifact("too many artifacts (max 16)".into()))
        );
    }
}
