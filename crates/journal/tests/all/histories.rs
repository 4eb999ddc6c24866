//! Histories of several owners on the bucket tier, drawn by seed: puts that arrive late or never, lost replies, deaths, takeovers
//! and folds in any order, held against the laws of the protocol's models.

use crate::world::{Bytes, Hand, SMALL, claimant_with, draw, manifest, open_by, record};
use parking_lot::Mutex;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::Duration;
use tenure_journal::{Journal, Position};
use tenure_model::{Failure, Seq};
use tenure_store::{Bucket, Disk, Key, MemoryBucket, Put, Requests};

/// Numbers that follow from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}

/// Puts that are on their way: they may arrive at any time, and again.
type Late = Arc<Mutex<Vec<(Key, Vec<u8>)>>>;

/// A network between owners and their bucket: requests are lost, late, or without a reply.
struct Network {
    inner: MemoryBucket,
    chance: Mutex<Chance>,
    /// Of so many calls about one goes wrong.
    one_in: usize,
    late: Late,
}

impl Network {
    fn fate(&self) -> usize {
        let mut chance = self.chance.lock();
        if chance.below(self.one_in) == 0 {
            chance.below(3)
        } else {
            3
        }
    }

    fn unknown<T>(key: &Key) -> Result<T, Failure> {
        Err(Failure::Unknown(format!("{key}: nothing was heard")))
    }

    fn ask<T>(&self, key: &Key, ask: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if self.fate() == 0 {
            Self::unknown(key)
        } else {
            ask()
        }
    }
}

impl Bucket for Network {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        self.late.lock().push((key.clone(), bytes.to_vec()));
        match self.fate() {
            0 => Self::unknown(key),
            1 => self
                .inner
                .put_if_absent(key, bytes)
                .and_then(|_| Self::unknown(key)),
            2 => self.inner.put_if_absent(key, bytes).map(|_| Put::Exists),
            _ => self.inner.put_if_absent(key, bytes),
        }
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        self.ask(key, || self.inner.get(key))
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        self.ask(key, || self.inner.get_parts(key, offset, parts))
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.ask(key, || self.inner.size(key))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        self.inner.list(under)
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        self.inner.children(under)
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.ask(key, || self.inner.delete(key))
    }

    fn requests(&self) -> &Requests {
        self.inner.requests()
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        None
    }

    fn tier(&self) -> &'static str {
        "bucket"
    }

    fn describe(&self) -> String {
        "a bucket behind a network".to_owned()
    }
}

/// The owners of one drive, the bucket, and what a witness knows.
struct World {
    memory: MemoryBucket,
    late: Late,
    chance: Chance,
    seed: u64,
    one_in: usize,
    hand: Arc<Hand>,
    owners: Vec<Arc<Journal>>,
    acknowledged: Arc<Mutex<Acknowledged>>,
    made: u64,
}

#[derive(Default)]
struct Acknowledged {
    records: Vec<(Position, Vec<u8>)>,
}

impl Acknowledged {
    fn last(&self) -> Option<Position> {
        self.records.iter().map(|(at, _)| *at).max_by_key(|at| at.seq)
    }
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            memory: MemoryBucket::new(),
            late: Arc::default(),
            chance: Chance(seed),
            seed,
            one_in: 6 + seed as usize % 20,
            hand: Arc::default(),
            owners: Vec::new(),
            acknowledged: Arc::default(),
            made: 0,
        }
    }

    fn bucket(&mut self, one_in: usize) -> Arc<dyn Bucket> {
        Arc::new(Network {
            inner: self.memory.without_disk(),
            chance: Mutex::new(Chance(self.chance.below(usize::MAX) as u64)),
            one_in,
            late: self.late.clone(),
        })
    }

    /// Lets somebody take over, and holds what it finds against what was acknowledged.
    fn take_over(&mut self, one_in: usize) -> bool {
        let bucket = self.bucket(one_in);
        let claimant = claimant_with("somebody", draw(), self.hand.clone());
        let Ok((journal, replayed)) = open_by(&bucket, claimant, SMALL) else {
            return false;
        };
        let seed = self.seed;
        let acknowledged = self.acknowledged.lock();
        for (at, record) in &acknowledged.records {
            assert!(
                at.seq <= journal.began().seq,
                "seed {seed}: record {} is lost",
                at.seq
            );
            let found = replayed.iter().find(|(seq, _)| *seq == at.seq);
            // What lies before the manifest is in the state.
            let is_folded = replayed.first().is_none_or(|(first, _)| at.seq < *first);
            match found {
                Some((_, Bytes(found))) => assert_eq!(found, record, "seed {seed}: {}", at.seq),
                None => assert!(is_folded, "seed {seed}: record {} is left out", at.seq),
            }
        }
        drop(acknowledged);
        self.owners.push(journal);
        true
    }

    fn step(&mut self) {
        let owner = (!self.owners.is_empty()).then(|| self.chance.below(self.owners.len()));
        match (self.chance.below(20), owner) {
            (0..2, _) | (_, None) => {
                self.take_over(self.one_in);
            }
            (2, Some(at)) => drop(self.owners.swap_remove(at)),
            (3, Some(at)) => {
                let _ = self.owners[at].close();
            }
            (4..6, Some(at)) => {
                let owner = &self.owners[at];
                let _ = owner.publish(&manifest(owner, owner.durable()));
            }
            (6..9, Some(at)) => self.look(at),
            (9..12, _) => self.deliver(),
            (_, Some(at)) => self.append(at),
        }
    }

    /// An owner whose look is good knows all that is acknowledged.
    fn look(&self, at: usize) {
        let owner = &self.owners[at];
        self.hand.advance(Duration::from_secs(1));
        if owner.look().is_ok() {
            let last = self.acknowledged.lock().last();
            let knows = last.is_none_or(|last| owner.durable().seq >= last.seq);
            assert!(knows, "seed {}: {last:?}, {:?}", self.seed, owner.durable());
        }
    }

    /// A put that was on its way arrives, maybe not for the first time.
    fn deliver(&mut self) {
        let late = self.late.lock();
        if !late.is_empty() {
            let (key, bytes) = &late[self.chance.below(late.len())];
            let is_of_journal = key.as_str().contains("/journal/");
            // Manifests that were deleted are no part of the protocol's promises.
            if is_of_journal || key.as_str().contains("/epochs/") {
                self.memory.put_if_absent(key, bytes).unwrap();
            }
        }
    }

    fn append(&mut self, at: usize) {
        let owner = self.owners[at].clone();
        let count = 1 + self.chance.below(3);
        for _ in 0..count {
            self.made += 1;
            let bytes = [&self.made.to_le_bytes()[..], &record(self.made)].concat();
            let (acknowledged, kept, seed) = (self.acknowledged.clone(), bytes.clone(), self.seed);
            let done = Box::new(move |outcome: Result<Position, Failure>| {
                let Ok(at) = outcome else { return };
                let mut acknowledged = acknowledged.lock();
                let other = acknowledged.records.iter().find(|(other, _)| other.seq == at.seq);
                assert!(other.is_none(), "seed {seed}: {} is acknowledged twice", at.seq);
                acknowledged.records.push((at, kept));
            });
            if owner.enqueue(bytes, done).is_err() {
                return;
            }
        }
        let _ = owner.commit_through(owner.last());
    }
}

#[test]
fn whatever_several_owners_do_nothing_acknowledged_is_lost_or_doubled() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.step();
        }
        // When the network is well again, somebody can take over at once, and go on.
        assert!(world.take_over(usize::MAX), "seed {seed}");
        let owner = world.owners.last().unwrap();
        owner.append_now(record(1)).unwrap();
        assert!(owner.last() > Seq(0));
    }
}
