//! Files that belong to results, in a directory or in an S3-compatible bucket.
//!
//! A file is written before its result is committed and named by nothing but that result: if the commit
//! fails nobody can reach it. Files lie in buckets by the hour in which their task expires, and a bucket is
//! removed whole when that hour is over, so whatever was left behind goes the same way.

use crate::config;
use bytes::Bytes;
use codeq_queue::{TaskId, Time};
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt, PutPayload};
use std::sync::Arc;
use thiserror::Error;

const HOUR: i64 = 3_600_000;

/// The storage did not do it. Where it is stays in the log.
#[derive(Debug, Error)]
#[error("artifact storage: {0}")]
pub struct ArtifactError(#[from] object_store::Error);

pub struct Artifacts {
    storage: Arc<dyn ObjectStore>,
    /// In front of every key; may be empty.
    prefix: Path,
}

impl Artifacts {
    /// The error is the text of `init app`.
    pub fn open(config: &config::Artifacts) -> Result<Artifacts, String> {
        match &config.s3 {
            Some(s3) => Ok(Artifacts { storage: Arc::new(open_s3(s3)?), prefix: Path::from(&*s3.prefix) }),
            None => {
                let directory = config.local_dir.display();
                let failed = |error: &dyn std::fmt::Display| format!("artifacts in {directory}: {error}");
                std::fs::create_dir_all(&config.local_dir).map_err(|error| failed(&error))?;
                let files =
                    LocalFileSystem::new_with_prefix(&config.local_dir).map_err(|error| failed(&error))?;
                let files = files.with_fsync(true).with_automatic_cleanup(true);
                Ok(Artifacts { storage: Arc::new(files), prefix: Path::default() })
            }
        }
    }

    /// A key for one file of a task that will be kept until `expires`.
    pub fn key(task: TaskId, expires: Time) -> String {
        let hour = expires.millis().div_euclid(HOUR);
        format!("{hour:010}/{task}-{:032x}", rand::random::<u128>())
    }

    fn path(&self, key: &str) -> Path {
        Path::from_iter(self.prefix.parts().chain(Path::from(key).parts()))
    }

    /// On the disk, or in the bucket, when it returns.
    pub async fn put(&self, key: &str, content: Bytes) -> Result<(), ArtifactError> {
        self.storage.put(&self.path(key), PutPayload::from_bytes(content)).await?;
        Ok(())
    }

    /// `None` if there is no such file.
    pub async fn get(&self, key: &str) -> Result<Option<GetResult>, ArtifactError> {
        match self.storage.get(&self.path(key)).await {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removing what is not there is fine.
    pub async fn remove(&self, key: &str) -> Result<(), ArtifactError> {
        match self.storage.delete(&self.path(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the files of every hour that is over; how many.
    pub async fn expire(&self, now: Time) -> Result<u64, ArtifactError> {
        let current = now.millis().div_euclid(HOUR);
        let listed = self.storage.list_with_delimiter(Some(&self.prefix)).await?;
        let mut removed = 0;
        for bucket in listed.common_prefixes {
            let hour = bucket.parts().next_back().and_then(|part| part.as_ref().parse::<i64>().ok());
            if hour.is_some_and(|hour| hour < current) {
                removed += self.remove_all(&bucket).await?;
            }
        }
        Ok(removed)
    }

    async fn remove_all(&self, bucket: &Path) -> Result<u64, ArtifactError> {
        let files = self.storage.list(Some(bucket)).map_ok(|file| file.location).boxed();
        let removed = self.storage.delete_stream(files).try_fold(0, async |count, _| Ok(count + 1)).await?;
        Ok(removed)
    }
}

fn open_s3(s3: &config::S3) -> Result<impl ObjectStore, String> {
    let keys = (s3.access_key_id.expose(), s3.secret_access_key.expose());
    let mut builder = match keys {
        ("", "") => AmazonS3Builder::from_env(),
        (id, secret) => AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret),
    };
    builder = builder.with_bucket_name(&s3.bucket).with_virtual_hosted_style_request(!s3.path_style);
    if !s3.region.is_empty() {
        builder = builder.with_region(&s3.region);
    }
    if !s3.endpoint.is_empty() {
        builder = builder.with_endpoint(&s3.endpoint).with_allow_http(s3.endpoint.starts_with("http://"));
    }
    builder.build().map_err(|error| format!("artifacts.s3: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_directory(directory: &std::path::Path) -> Artifacts {
        let config = config::Artifacts { local_dir: directory.join("artifacts"), s3: None };
        Artifacts::open(&config).unwrap()
    }

    #[tokio::test]
    async fn files_are_kept_and_removed_by_key() {
        let directory = tempfile::tempdir().unwrap();
        let artifacts = in_directory(directory.path());
        let key = Artifacts::key(TaskId::from_bits(7), Time::from_millis(5 * HOUR));
        artifacts.put(&key, Bytes::from_static(b"hello")).await.unwrap();
        let found = artifacts.get(&key).await.unwrap().unwrap();
        assert_eq!(found.bytes().await.unwrap(), "hello");
        artifacts.remove(&key).await.unwrap();
        artifacts.remove(&key).await.unwrap();
        assert!(artifacts.get(&key).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_hour_that_is_over_is_removed_whole() {
        let directory = tempfile::tempdir().unwrap();
        let artifacts = in_directory(directory.path());
        let id = TaskId::from_bits(7);
        let [old, new] = [2, 3].map(|hour| Artifacts::key(id, Time::from_millis(hour * HOUR + 5)));
        for key in [&old, &new, &Artifacts::key(id, Time::from_millis(2 * HOUR))] {
            artifacts.put(key, Bytes::from_static(b"x")).await.unwrap();
        }
        assert_eq!(artifacts.expire(Time::from_millis(3 * HOUR - 1)).await.unwrap(), 0);
        assert_eq!(artifacts.expire(Time::from_millis(3 * HOUR)).await.unwrap(), 2);
        assert!(artifacts.get(&old).await.unwrap().is_none());
        assert!(artifacts.get(&new).await.unwrap().is_some());
        let left = std::fs::read_dir(directory.path().join("artifacts")).unwrap().count();
        assert_eq!(left, 1, "the directory of the hour is gone too");
    }
}
