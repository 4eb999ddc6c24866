//! The bucket that a URL names: a folder of this machine, or one that a service keeps.

use crate::bucket::{Bucket, OpenError};
use crate::folder::FolderBucket;
use crate::remote::{RemoteBucket, RemoteConfig};
use std::path::Path;
use std::sync::Arc;

/// Makes a bucket of what the URL names: `file://FOLDER`, or what [`RemoteConfig`] knows. Opens it when it is one already.
pub fn create(config: &RemoteConfig) -> Result<Arc<dyn Bucket>, OpenError> {
    Ok(match folder(config) {
        Some(path) => Arc::new(FolderBucket::create(path)?),
        None => Arc::new(RemoteBucket::create(config)?),
    })
}

/// Opens the bucket that the URL names; refuses what is none, and one in a newer format.
pub fn open(config: &RemoteConfig) -> Result<Arc<dyn Bucket>, OpenError> {
    Ok(match folder(config) {
        Some(path) => Arc::new(FolderBucket::open(path)?),
        None => Arc::new(RemoteBucket::open(config)?),
    })
}

fn folder(config: &RemoteConfig) -> Option<&Path> {
    config.url.strip_prefix("file://").map(Path::new)
}
