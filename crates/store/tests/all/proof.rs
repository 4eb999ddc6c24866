//! The proof that a store keeps what it must: a good one passes, and each way of being none is found.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;
use tenure_store::faulty::{Fault, Plan};
use tenure_store::{Bucket, Disk, FaultyBucket, Key, MemoryBucket, OpenError, Put, Requests, proof};

#[test]
fn a_bucket_that_keeps_what_it_must_is_proved_and_left_as_it_was() {
    let bucket = MemoryBucket::new();
    proof::prove(&bucket, 7).unwrap();
    assert_eq!(bucket.children(""), Ok(vec!["tenure-bucket".to_owned()]));
}

#[test]
fn a_proof_through_a_store_that_loses_replies_holds_or_leaves_the_question_open() {
    for call in 0..60 {
        for fault in [
            Fault::LoseReply,
            Fault::LoseRequest,
            Fault::Refuse,
            Fault::ClaimExists,
        ] {
            let bucket = FaultyBucket::new(Arc::new(MemoryBucket::new()), Plan::none().at(call, fault));
            // Said to exist when it does not, or to be created twice: neither is true of this store.
            let proved = proof::prove(&bucket, 1);
            let is_open = matches!(proved, Ok(()) | Err(OpenError::Failed(_)));
            assert!(is_open, "{fault:?} at call {call}: {proved:?}");
        }
    }
}

#[test]
fn every_way_in_which_a_store_is_none_is_named() {
    let ways = [
        (
            Way::Overwrites,
            "it puts an object over another, although it is told not to",
        ),
        (
            Way::DeniesAndOverwrites,
            "it says that it does not put an object over another, and does",
        ),
        (Way::Forgets, "an object that was put is not found"),
        (Way::LooksThenWrites, "writers at once create one object"),
        (Way::ListsLate, "what was put is not listed at once"),
        (Way::KeepsDeleted, "what was deleted is still there"),
    ];
    for (way, why) in ways {
        let bucket = BadBucket::new(way);
        let refused = proof::prove(&bucket, 1);
        let Err(OpenError::Refused(refusal)) = refused else {
            panic!("{way:?} was not refused: {refused:?}");
        };
        let refusal = refusal.to_string();
        assert!(
            refusal.starts_with("the bad bucket cannot hold drives: "),
            "{refusal}"
        );
        assert!(refusal.contains(why), "{way:?}: {refusal}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Overwrites,
    DeniesAndOverwrites,
    Forgets,
    LooksThenWrites,
    ListsLate,
    KeepsDeleted,
}

/// A store that does not keep something.
struct BadBucket {
    way: Way,
    objects: Mutex<BTreeMap<Key, Vec<u8>>>,
    /// Those who look at once all look before one of them writes.
    looked: std::sync::Barrier,
    requests: Requests,
}

impl BadBucket {
    fn new(way: Way) -> Self {
        Self {
            way,
            objects: Mutex::default(),
            looked: std::sync::Barrier::new(8),
            requests: Requests::default(),
        }
    }
}

impl Bucket for BadBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        let is_there = self.objects.lock().contains_key(key);
        if self.way == Way::LooksThenWrites && key.as_str().contains("race") {
            self.looked.wait();
        }
        let overwrites = matches!(self.way, Way::Overwrites | Way::DeniesAndOverwrites);
        if (!is_there || overwrites) && self.way != Way::Forgets {
            self.objects.lock().insert(key.clone(), bytes.to_vec());
        }
        let denies = is_there && self.way != Way::Overwrites || self.way == Way::Forgets && bytes.len() == 10;
        Ok(if denies { Put::Exists } else { Put::Created })
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.objects.lock().get(key).cloned())
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        let bytes = self.get(key)?.unwrap_or_default();
        let mut rest = &bytes[usize::try_from(offset).unwrap()..];
        for part in parts {
            let (front, behind) = rest.split_at(part.len());
            part.copy_from_slice(front);
            rest = behind;
        }
        Ok(())
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        Ok(self.get(key)?.map(|bytes| bytes.len() as u64))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        let objects = self.objects.lock();
        let keys = objects.keys().filter(|key| key.as_str().starts_with(under));
        let late = usize::from(self.way == Way::ListsLate);
        Ok(keys.skip(late).cloned().collect())
    }

    fn children(&self, _under: &str) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        if self.way != Way::KeepsDeleted {
            self.objects.lock().remove(key);
        }
        Ok(())
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        "the bad bucket".to_owned()
    }
}
