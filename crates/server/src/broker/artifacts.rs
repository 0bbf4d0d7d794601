//! Files on their way in and out.

use super::work::{ArtifactGiven, SubmitRequest};
use super::{Broker, Error};
use crate::artifacts::Artifacts;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use codeq_queue::result::StoredArtifact;
use codeq_queue::store::{Report, ResultLookup, Wait};
use codeq_queue::{Artifact, Outcome, Refusal, TaskId, Time, task};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::GetResult;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

/// Uploads of one submit at a time.
const UPLOADS: usize = 5;

/// Everything but what RFC 3986 leaves alone.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A stored file.
pub struct Download {
    pub content_type: Option<String>,
    pub file: GetResult,
}

impl Broker {
    /// The outcome to commit, with every given file stored. The guards and the content rules are checked
    /// first: nothing is stored for a result that would be refused.
    pub(super) async fn store_artifacts(
        &self,
        report: &Report,
        request: SubmitRequest,
    ) -> Result<Outcome, Error> {
        let now = self.now();
        let expires = now.plus(match &*request.status {
            "FAILED" => self.settings.failed_retention,
            _ => self.settings.retention,
        });
        let (outcome, files) = draft(&self.settings.public_base_url, report.id, expires, request);
        if files.is_empty() {
            return Ok(outcome);
        }
        self.would_accept(report, &outcome, now).await?;
        let decoded = files.into_iter().map(|(name, key, content)| Ok((decode(&name, &content)?, name, key)));
        let decoded: Vec<_> = decoded.collect::<Result<_, Refusal>>()?;
        let uploads = stream::iter(decoded).map(async |(content, name, key)| {
            self.artifacts.put(&key, content).await.map_err(|error| {
                tracing::error!(op = "artifact upload", err = %error, "storage error");
                Error::Upload(name)
            })
        });
        let uploaded: Result<Vec<()>, Error> = uploads.buffer_unordered(UPLOADS).try_collect().await;
        if let Err(error) = uploaded {
            self.discard(&keys(&outcome)).await;
            return Err(error);
        }
        Ok(outcome)
    }

    async fn would_accept(&self, report: &Report, outcome: &Outcome, now: Time) -> Result<(), Error> {
        let named = codeq_queue::store::TaskRef { tenant: report.tenant.clone(), id: report.id };
        let found = self.store.get(vec![named]).await?.pop().flatten().ok_or(Refusal::NotFound)?;
        task::guard(&found.state, found.attempts, &report.owner, report.attempt)?;
        outcome.record(now)?;
        Ok(())
    }

    /// Removes the files of a result that was not committed. What cannot be removed now goes with its hour.
    pub(super) async fn discard(&self, keys: &[String]) {
        for key in keys {
            if let Err(error) = self.artifacts.remove(key).await {
                tracing::warn!(err = %error, "an artifact of a refused result stays until it expires");
            }
        }
    }

    /// A stored file of a finished task; links that passed through are not ours to give.
    pub async fn artifact(&self, tenant: &Arc<str>, id: &str, name: &str) -> Result<Download, Error> {
        let named = super::produce::reference(tenant, id)?;
        let record = match self.store.result(named, Wait::No).await? {
            ResultLookup::NotFound => return Err(Refusal::NotFound.into()),
            ResultLookup::Pending => return Err(Refusal::ArtifactNotFound.into()),
            ResultLookup::Done { record, .. } => record,
        };
        let artifact = record.artifacts.into_iter().find(|artifact| artifact.name == name);
        let stored = artifact.and_then(|artifact| artifact.stored).ok_or(Refusal::ArtifactNotFound)?;
        let file = self.artifacts.get(&stored.key).await.map_err(|error| {
            tracing::error!(op = "artifact download", err = %error, "storage error");
            codeq_queue::Failure::unavailable("artifact storage")
        })?;
        Ok(Download { content_type: stored.content_type, file: file.ok_or(Refusal::ArtifactNotFound)? })
    }
}

/// Where the files of a result are kept.
pub(super) fn keys(outcome: &Outcome) -> Vec<String> {
    let stored = outcome.artifacts.iter().filter_map(|artifact| artifact.stored.as_ref());
    stored.map(|stored| stored.key.clone()).collect()
}

/// A file to store: its name, its key, and its content in base64.
type File = (String, String, Bytes);

/// The outcome as it will be committed, and the files that it names.
fn draft(base_url: &str, id: TaskId, expires: Time, request: SubmitRequest) -> (Outcome, Vec<File>) {
    let mut files = Vec::new();
    let mut artifacts = Vec::new();
    for ArtifactGiven { name, url, content, content_type } in request.artifacts {
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            artifacts.push(Artifact { name, url, stored: None });
        } else if let Some(content) = content {
            let key = Artifacts::key(id, expires);
            let encoded = utf8_percent_encode(&name, &ENCODED);
            let url = format!("{base_url}/v1/codeq/tasks/{id}/artifacts/{encoded}");
            files.push((name.clone(), key.clone(), content));
            artifacts.push(Artifact { name, url, stored: Some(StoredArtifact { key, content_type }) });
        }
    }
    let outcome = Outcome {
        status: request.status.into(),
        result: request.result,
        error: request.error.map(Into::into),
        artifacts,
    };
    (outcome, files)
}

fn decode(name: &str, content: &[u8]) -> Result<Bytes, Refusal> {
    let decoded = BASE64.decode(content).map(Bytes::from);
    decoded.map_err(|reason| Refusal::InvalidArtifact(format!("artifact {name} base64 decode: {reason}")))
}
