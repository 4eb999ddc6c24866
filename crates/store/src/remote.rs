//! A bucket that a service keeps: S3, or what speaks like it, Google's, or Azure's.
//!
//! Calls block; what they wait for is done by threads of its own. Every call is tried a bounded number of times,
//! and every try has a bounded time. Invariants: a put that may have happened is never said to have failed; `Exists`
//! is said only when the service says that an object is there; bytes that are returned are all that were announced.

mod asking;
mod client;
mod config;
mod reply;
mod tries;

use crate::bucket::{Bucket, OpenError, Put, Requests, end_by_length, missing_or_short, whole_len};
use crate::disk::Disk;
use crate::key::Key;
use crate::marker;
use asking::{Asked, Asking, Found};
use bytes::Bytes;
pub use config::{AccessKeys, Bounds, RemoteConfig};
use object_store::GetRange;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tenure_model::{Failure, Refusal};
use tokio::runtime::Runtime;

/// Threads that send and receive, for all calls: their work is hashing and TLS. One more than packs are put at once, so that a segment of
/// the journal does not wait for a pack to be hashed.
const THREADS: usize = 4;
/// Threads that look names up.
const LOOKUP_THREADS_MAX: usize = 4;
/// Pages of a listing, of a thousand keys each: more than a drive has, and an end for a service that repeats itself.
const PAGES_MAX: usize = 10_000;

/// A bucket that a service keeps. Clones share it.
#[derive(Clone)]
pub struct RemoteBucket {
    asking: Arc<Asking>,
    threads: Arc<Threads>,
}

/// The threads of a bucket: asleep while nobody calls, and ended with its last clone.
struct Threads(Option<Runtime>);

impl RemoteBucket {
    /// Makes a bucket of a place that holds nothing; opens it when it is a bucket already.
    pub fn create(config: &RemoteConfig) -> Result<Self, OpenError> {
        let bucket = Self::attach(config)?;
        if bucket.get(&marker::key())?.is_none() {
            if let Some(name) = bucket.first_name()? {
                return Err(Refusal::Because(format!(
                    "{} holds other things, such as `{name}`: give an empty bucket, or a prefix of its own in it",
                    bucket.describe()
                ))
                .into());
            }
            marker::write(&bucket)?;
        }
        marker::check(&bucket)?;
        Ok(bucket)
    }

    /// Opens a place that is a bucket; refuses any other, and one in a newer format.
    pub fn open(config: &RemoteConfig) -> Result<Self, OpenError> {
        let bucket = Self::attach(config)?;
        marker::check(&bucket)?;
        Ok(bucket)
    }

    /// Returns the place as it is, whether it is a bucket of ours or not; asks nothing of it yet.
    pub fn attach(config: &RemoteConfig) -> Result<Self, OpenError> {
        let asking = Asking::new(config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(LOOKUP_THREADS_MAX)
            .thread_name("bucket")
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| Failure::DidNotHappen(format!("cannot start the bucket's threads: {error}")))?;
        Ok(Self {
            asking: Arc::new(asking),
            threads: Arc::new(Threads(Some(runtime))),
        })
    }

    /// Has a call made by the bucket's threads, and waits for what it comes to.
    fn call<T, F>(&self, make: impl FnOnce(Arc<Asking>) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (answer, answers) = sync_channel(1);
        let made = make(self.asking.clone());
        if let Some(runtime) = &self.threads.0 {
            runtime.spawn(async move {
                // Whoever asked waits for it.
                let _ = answer.send(made.await);
            });
        }
        answers.recv().unwrap_or_else(|_| {
            Err(Failure::Unknown(format!(
                "{}: a call ended without an answer",
                self.describe()
            )))
        })
    }

    fn read(&self, key: &Key, range: Option<GetRange>) -> Result<Asked<Found>, Failure> {
        let key = key.clone();
        self.call(|asking| async move { asking.get(&key, range).await })
    }

    fn first_name(&self) -> Result<Option<String>, Failure> {
        let page = self.call(|asking| async move { asking.page("", None, None, Some(1)).await })?;
        Ok(page.names.into_iter().next())
    }

    /// Lists what is below `under`, page by page, in byte order.
    fn listed(&self, under: &str, delimiter: Option<&'static str>) -> Result<Vec<String>, Failure> {
        let (mut names, mut next) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let (under, token) = (under.to_owned(), next.take());
            let page =
                self.call(|asking| async move { asking.page(&under, delimiter, token, None).await })?;
            names.extend(page.names);
            next = page.next;
            if next.is_none() {
                names.sort_unstable();
                names.dedup();
                return Ok(names);
            }
        }
        Err(Failure::DidNotHappen(format!(
            "{}: list {under}: it has no end after {PAGES_MAX} pages",
            self.describe()
        )))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Nobody waits for an answer any more. Whoever drops it last may be a thread that may not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Bucket for RemoteBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        let (key, bytes) = (key.clone(), Bytes::copy_from_slice(bytes));
        self.call(|asking| async move { asking.put(&key, bytes).await })
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        match self.read(key, None)? {
            Asked::Done(found) => {
                whole_len(key, found.size)?;
                Ok(Some(found.bytes.into()))
            }
            Asked::Absent => Ok(None),
            Asked::Beyond => Err(missing_or_short(key)),
        }
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let end = offset
            .checked_add(len as u64)
            .ok_or_else(|| missing_or_short(key))?;
        if len == 0 {
            let size = self.size(key)?;
            return if size >= Some(end) {
                Ok(())
            } else {
                Err(missing_or_short(key))
            };
        }
        let Asked::Done(found) = self.read(key, Some(GetRange::Bounded(offset..end)))? else {
            return Err(missing_or_short(key));
        };
        if found.bytes.len() != len {
            return Err(missing_or_short(key));
        }
        let mut rest = &found.bytes[..];
        for part in parts {
            let (front, behind) = rest.split_at(part.len());
            part.copy_from_slice(front);
            rest = behind;
        }
        Ok(())
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        // Not by a request for the head alone: a reply to that cannot say whether it is the bucket that is missing.
        Ok(match self.read(key, Some(GetRange::Bounded(0..1)))? {
            Asked::Done(found) => Some(found.size),
            Asked::Absent => None,
            Asked::Beyond => Some(0),
        })
    }

    fn get_end(&self, key: &Key, len: usize) -> Result<Option<(Vec<u8>, u64)>, Failure> {
        if !self.asking.reads_ends || len == 0 {
            return end_by_length(self, key, len);
        }
        Ok(match self.read(key, Some(GetRange::Suffix(len as u64)))? {
            Asked::Done(found) => Some((found.bytes.into(), found.size)),
            Asked::Absent => None,
            Asked::Beyond => Some((Vec::new(), 0)),
        })
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        let names = self.listed(under, None)?;
        // What is no key is not ours.
        let keys = names
            .iter()
            .filter_map(|name| Key::parse(&format!("{under}{name}")).ok());
        Ok(keys.collect())
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        let mut names = self.listed(under, Some("/"))?;
        names.retain(|name| Key::parse(name).is_ok());
        Ok(names)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        let key = key.clone();
        self.call(|asking| async move { asking.delete(&key).await })
    }

    fn requests(&self) -> &Requests {
        &self.asking.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        self.asking.described.clone()
    }
}
