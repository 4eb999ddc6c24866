//! Asking the service: each call of a bucket as requests, and what to make of the replies.
//!
//! Invariant: only a put cannot simply be asked again; every other call changes nothing, or nothing more the second time.

use super::config::{Client, Reach, RemoteConfig};
use super::reply::Reply;
use super::tries::Tries;
use crate::bucket::{Put, RequestKind, Requests, whole_len};
use crate::key::Key;
use bytes::Bytes;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::sync::Arc;
use tenure_model::{Failure, Refusal};

/// What is needed to ask a service for the objects of one bucket.
pub(super) struct Asking {
    client: Arc<dyn Client>,
    prefix: String,
    pub(super) described: String,
    /// Whether the service reads an object's end without being told where it begins.
    pub(super) reads_ends: bool,
    pub(super) requests: Requests,
    tries: Tries,
}

/// What the service answered.
pub(super) enum Asked<T> {
    Done(T),
    Absent,
    Beyond,
}

/// What was read of an object.
pub(super) struct Found {
    pub(super) bytes: Bytes,
    /// Bytes of the whole object.
    pub(super) size: u64,
}

/// Names below a prefix, without it.
pub(super) struct Page {
    pub(super) names: Vec<String>,
    pub(super) next: Option<String>,
}

/// One call, for its count and its words.
struct Ask<'a> {
    doing: &'static str,
    what: &'a str,
    kind: RequestKind,
    /// Bytes that it moves, as far as that is known.
    bytes: u64,
}

impl Asking {
    pub(super) fn new(config: &RemoteConfig) -> Result<Self, Refusal> {
        let Reach {
            client,
            prefix,
            described,
            reads_ends,
        } = config.reach()?;
        Ok(Self {
            client,
            prefix,
            described,
            reads_ends,
            requests: Requests::default(),
            tries: Tries::new(config.bounds, config.seed),
        })
    }

    fn path(&self, key: &Key) -> Path {
        Path::parse(format!("{}{key}", self.prefix)).expect("a prefix and a key make a path")
    }

    /// Puts an object, unless its key is taken. After a try of which nobody knows, a taken key may be ours.
    pub(super) async fn put(&self, key: &Key, bytes: Bytes) -> Result<Put, Failure> {
        let (path, len) = (self.path(key), bytes.len());
        let _turn = self.tries.turn().await;
        let (mut doubt, mut why) = (false, String::new());
        for number in 0..self.tries.max() {
            self.tries.wait_before(number).await;
            self.requests.count_bytes(RequestKind::Put, len);
            let payload = PutPayload::from_bytes(bytes.clone());
            let put = self
                .client
                .put_opts(&path, payload, PutOptions::from(PutMode::Create));
            let miss = match self.tries.once(len as u64, put).await {
                Ok(_) => return Ok(Put::Created),
                Err(miss) => miss,
            };
            doubt |= miss.may_have_happened;
            let is_final = !matches!(miss.reply, Reply::Again(_));
            why = match miss.reply {
                Reply::Taken => return Ok(Put::Exists),
                Reply::Again(said) | Reply::Refused(said) => said,
                Reply::Absent | Reply::Beyond => "it was answered as if it were a read".to_owned(),
            };
            if is_final {
                break;
            }
        }
        let why = self.says("put", key.as_str(), &why);
        Err(if doubt {
            Failure::Unknown(why)
        } else {
            Failure::DidNotHappen(why)
        })
    }

    /// Reads a range of an object, or all of it; so many bytes, as far as that is known.
    pub(super) async fn get(&self, key: &Key, range: Option<GetRange>) -> Result<Asked<Found>, Failure> {
        let path = self.path(key);
        let bytes = match &range {
            Some(GetRange::Bounded(range)) => range.end - range.start,
            Some(GetRange::Suffix(len)) => *len,
            Some(GetRange::Offset(_)) | None => 0,
        };
        let get = || async {
            let options = GetOptions {
                range: range.clone(),
                ..GetOptions::default()
            };
            let reply = self.client.get_opts(&path, options).await?;
            let (size, announced) = (reply.meta.size, reply.range.end - reply.range.start);
            match whole_len(key, announced) {
                Ok(_) => {}
                // Whoever asked for all of it refuses it by its size.
                Err(_) if range.is_none() => {
                    let bytes = Bytes::new();
                    return Ok(Found { bytes, size });
                }
                Err(_) => return Err(odd(format!("{announced} bytes are more than were asked for"))),
            }
            let bytes = reply.bytes().await?;
            if bytes.len() as u64 != announced {
                return Err(odd(format!("{} bytes came of {announced}", bytes.len())));
            }
            Ok(Found { bytes, size })
        };
        let ask = Ask {
            doing: "get",
            what: key.as_str(),
            kind: RequestKind::Get,
            bytes,
        };
        self.ask(ask, get).await
    }

    /// Lists one page of what is below `under`.
    pub(super) async fn page(
        &self,
        under: &str,
        delimiter: Option<&'static str>,
        token: Option<String>,
        max: Option<usize>,
    ) -> Result<Page, Failure> {
        let prefix = format!("{}{under}", self.prefix);
        let list = || {
            let options = PaginatedListOptions {
                delimiter: delimiter.map(Into::into),
                max_keys: max,
                page_token: token.clone(),
                ..PaginatedListOptions::default()
            };
            let prefix = Some(prefix.as_str()).filter(|prefix| !prefix.is_empty());
            self.client.list_paginated(prefix, options)
        };
        let ask = Ask {
            doing: "list",
            what: under,
            kind: RequestKind::List,
            bytes: 0,
        };
        let Asked::Done(page) = self.ask(ask, list).await? else {
            let why = self.says("list", under, "it was answered as if it were a read");
            return Err(Failure::DidNotHappen(why));
        };
        let objects = page.result.objects.iter().map(|object| &object.location);
        let paths = objects.chain(&page.result.common_prefixes);
        let names = paths.filter_map(|path| path.as_ref().strip_prefix(&prefix));
        Ok(Page {
            names: names.map(str::to_owned).collect(),
            next: page.page_token,
        })
    }

    /// Deletes an object; one that is not there is no failure.
    pub(super) async fn delete(&self, key: &Key) -> Result<(), Failure> {
        let path = self.path(key);
        let ask = Ask {
            doing: "delete",
            what: key.as_str(),
            kind: RequestKind::Delete,
            bytes: 0,
        };
        self.ask(ask, || self.client.delete(&path)).await.map(|_| ())
    }

    async fn ask<T, F>(&self, ask: Ask<'_>, mut tried: impl FnMut() -> F) -> Result<Asked<T>, Failure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let _turn = self.tries.turn().await;
        let mut why = String::new();
        for number in 0..self.tries.max() {
            self.tries.wait_before(number).await;
            self.requests.count(ask.kind);
            let miss = match self.tries.once(ask.bytes, tried()).await {
                Ok(done) => return Ok(Asked::Done(done)),
                Err(miss) => miss,
            };
            why = match miss.reply {
                Reply::Absent => return Ok(Asked::Absent),
                Reply::Beyond => return Ok(Asked::Beyond),
                Reply::Refused(said) => {
                    return Err(Failure::DidNotHappen(self.says(ask.doing, ask.what, &said)));
                }
                Reply::Taken => "it was answered as if it were a put".to_owned(),
                Reply::Again(said) => said,
            };
        }
        let why = self.says(ask.doing, ask.what, &why);
        Err(if ask.kind == RequestKind::Delete {
            Failure::Unknown(why)
        } else {
            Failure::DidNotHappen(why)
        })
    }

    fn says(&self, doing: &str, what: &str, why: &str) -> String {
        format!("{}: {doing} {what}: {why}", self.described)
    }
}

fn odd(why: String) -> object_store::Error {
    object_store::Error::Generic {
        store: "bucket",
        source: why.into(),
    }
}
