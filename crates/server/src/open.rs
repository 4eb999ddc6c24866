//! Making a drive, and taking one over: lock, claim, manifest, replay, packs that were left open, sessions that are dead.
//!
//! Invariant: nothing is served before everything that was acknowledged by earlier owners is there again, or is named
//! in the notices as lost.

use crate::decide::{after, touched};
use crate::drive::{Drive, Inner, Options};
use crate::fold::{RowPacks, not_a_state};
use crate::health::Health;
use crate::holder::Holder;
use crate::load::Loader;
use crate::order::{Live, Places};
use crate::place::Filling;
use crate::session::Silent;
use crate::state::{After, State};
use crate::trail::{self, Trails};
use crate::work::Work;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tenure_core::Tree;
use tenure_core::tree::Memory;
use tenure_journal::{Manifest, Opening};
use tenure_model::codec::Codec;
use tenure_model::{
    BranchName, ChunkPlace, Digest, DriveName, Failure, PackNumber, Record, Refusal, Seq,
    record::Record::DriveCreated,
};
use tenure_store::pack::{Missing, PackName, Packs};
use tenure_store::{Bucket, OpenError};
use tenure_wire::Error;

/// What a new drive begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Drawn by the caller: keys the hash of names in directories.
    pub hash_key: [u8; 16],
    /// The first branch.
    pub branch: BranchName,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
}

impl Drive {
    /// Makes a drive and opens it; refuses one that is there already.
    pub fn create(
        bucket: Arc<dyn Bucket>,
        name: &DriveName,
        beginning: &Beginning,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        if has_manifest(bucket.as_ref(), name)? {
            return Err(exists(name));
        }
        let (inner, found) = take_over(bucket, name, options)?;
        if found.has_begun {
            return Err(exists(name));
        }
        inner.accept(|_| {
            let record = DriveCreated {
                hash_key: beginning.hash_key,
                branch: beginning.branch.clone(),
                uid: beginning.uid,
                gid: beginning.gid,
                time: inner.options.clock.now(),
            };
            Ok((record, ()))
        })?;
        // From here on the drive has a manifest, which is what tells that it is there.
        inner.fold()?;
        Ok(Self::started(inner))
    }

    /// Opens a drive: this process owns it from then on.
    pub fn open(bucket: Arc<dyn Bucket>, name: &DriveName, options: Options) -> Result<Arc<Self>, Error> {
        if bucket.children(&format!("drives/{name}/"))?.is_empty() {
            return Err(no_such(bucket.as_ref(), name));
        }
        let (inner, found) = take_over(bucket, name, options)?;
        if !found.has_begun {
            return Err(Refusal::Because(format!(
                "the drive {name} was begun and never finished; make it with `tenure drive create {name}`"
            ))
            .into());
        }
        inner.end_dead_sessions()?;
        Ok(Self::started(inner))
    }
}

/// What taking a drive over found.
struct Found {
    has_begun: bool,
}

/// Everything that is recovered before a drive can be served.
struct Recovery {
    state: State,
    memory: Memory,
    loader: Loader,
    packs: Arc<Packs>,
    /// The chunks that the journal places in packs that were left open.
    left_open: BTreeMap<PackNumber, Vec<ChunkPlace>>,
    records: u64,
    record_bytes: u64,
    notices: Vec<String>,
}

fn take_over(
    bucket: Arc<dyn Bucket>,
    name: &DriveName,
    options: Options,
) -> Result<(Arc<Inner>, Found), Error> {
    let who = Holder {
        host: options.host.clone(),
        pid: options.pid,
        socket: options.socket.clone(),
    };
    let opening = Opening::begin(bucket.clone(), name, &who.to_string(), options.nonce).map_err(refused)?;
    let opening = opening.with_sizes(options.journal_sizes);
    let epoch = opening.claim().epoch;
    let packs = Packs::with_sizes(bucket.clone(), name.clone(), options.pack_sizes);
    let mut recovery = Recovery::from_manifest(bucket.as_ref(), packs, (name, opening.manifest()))?;
    recovery
        .notices
        .extend(opening.damaged_manifests().iter().map(|failure| {
            format!("a damaged manifest was passed over, and more of the journal was replayed: {failure}")
        }));
    let folded = opening.manifest().map(|manifest| manifest.at.seq);
    let journal = opening.replay(&mut |seq, record| recovery.replay(seq, record))?;
    recovery.recover_open_packs(bucket.as_ref(), name)?;
    let has_begun = recovery.state.head().is_some();
    let Recovery {
        state,
        memory,
        loader,
        packs,
        notices,
        records,
        record_bytes,
        ..
    } = recovery;
    if options.threads == crate::drive::Threads::Started {
        journal.start_threads()?;
        packs.start_thread()?;
    }
    let places = Arc::new(Places::new(journal.durable()));
    let health = Arc::new(Health::default());
    let folding = Mutex::new(folded.filter(|_| records == 0));
    let trails = Trails::new(name.clone(), bucket.as_ref());
    let inner = Arc::new(Inner {
        name: name.clone(),
        bucket,
        epoch,
        filling: Filling::new(packs.clone(), epoch, health.clone(), trails),
        packs,
        loader,
        memory,
        live: Mutex::new(Live {
            state,
            journal: Some(journal),
            sessions: 0,
            silent: Silent::default(),
        }),
        health,
        places,
        unfolded: AtomicU64::new(record_bytes),
        work: Arc::new(Work::new(options.fold_bytes, options.page_bytes_max)),
        folding,
        notices,
        options,
    });
    Ok((inner, Found { has_begun }))
}

impl Recovery {
    /// Starts from the newest manifest: its rows, and the packs that it and the bucket know.
    fn from_manifest(
        bucket: &dyn Bucket,
        packs: Packs,
        (name, manifest): (&DriveName, Option<&Manifest>),
    ) -> Result<Self, Error> {
        let memory = Memory::new();
        let listing = Packs::list(bucket, name)?;
        add_all(&packs, listing.sealed);
        let packs = Arc::new(packs);
        let loader = Loader::new(packs.clone());
        let state = match manifest {
            None => State::new(memory.clone()),
            Some(manifest) => stored_state(manifest, &packs, &loader, &memory)?,
        };
        // The table names packs that are gone as well, so that what they held is refused by name.
        add_all(&packs, state.packs());
        let left_open = listing.open.into_iter().map(|pack| (pack, Vec::new())).collect();
        Ok(Self {
            state,
            memory,
            loader,
            packs,
            left_open,
            records: 0,
            record_bytes: 0,
            notices: Vec::new(),
        })
    }

    /// Applies one record of the journal.
    fn replay(&mut self, seq: Seq, bytes: &[u8]) -> Result<(), Failure> {
        let wrong =
            |why: &dyn std::fmt::Display| Failure::Corrupt(format!("record {seq} of the journal: {why}"));
        let record = Record::parsed(bytes).map_err(|error| wrong(&error))?;
        self.state.permits(&record).map_err(|refusal| wrong(&refusal))?;
        let branch = touched(&record).and_then(|id| self.state.opened(id));
        let after = match branch {
            None => After::Same,
            Some(open) => after(&record, open.branch, &self.loader).map_err(|error| match error {
                Error::Failed(failure) => failure,
                Error::Refused(refusal) => wrong(&refusal),
            })?,
        };
        if let Record::Batch(batch) = &record {
            self.note_chunks(&batch.chunks);
        }
        self.state.apply(&record, after);
        self.records += 1;
        self.record_bytes += bytes.len() as u64;
        Ok(())
    }

    fn note_chunks(&mut self, chunks: &[ChunkPlace]) {
        for chunk in chunks {
            if let Some(places) = self.left_open.get_mut(&chunk.at.pack) {
                places.push(chunk.clone());
            }
        }
    }

    /// Seals what was being filled when the last owner ended, and notes what was lost of it.
    fn recover_open_packs(&mut self, bucket: &dyn Bucket, name: &DriveName) -> Result<(), Error> {
        for (number, mut places) in std::mem::take(&mut self.left_open) {
            let acknowledged: BTreeSet<Digest> = places.iter().map(|place| place.at.digest).collect();
            places.extend(trail::left(bucket, name, number)?);
            if places.is_empty() {
                self.packs.discard_open(number)?;
                continue;
            }
            let recovered = self.packs.recover_open(number, &places)?;
            let is_lost = |missing: &&Missing| acknowledged.contains(&missing.place.at.digest);
            self.notices.extend(
                recovered.missing.iter().filter(is_lost).map(|missing| {
                    format!("{} bytes of a file are lost: {}", missing.place.len, missing.why)
                }),
            );
        }
        trail::remove_left(bucket, name)?;
        if self.records > 0 {
            self.notices.push(format!(
                "the last owner ended without closing the drive; {} were replayed",
                counted(self.records, "record")
            ));
        }
        Ok(())
    }
}

fn stored_state(
    manifest: &Manifest,
    packs: &Packs,
    loader: &Loader,
    memory: &Memory,
) -> Result<State, Error> {
    let RowPacks(names) = RowPacks::parsed(&manifest.state).map_err(|error| not_a_state(&error))?;
    add_all(packs, names);
    let root = manifest
        .root
        .ok_or_else(|| Failure::Corrupt("the manifest has no root".into()))?;
    // The rows have a count of their own: they are never evicted.
    let rows = Tree::stored(root, &Memory::new());
    loader.load_all(&rows)?;
    Ok(State::stored(rows, memory.clone()).map_err(|error| not_a_state(&error))?)
}

fn add_all(packs: &Packs, names: Vec<PackName>) {
    names.into_iter().for_each(|name| packs.add(name));
}

/// Tells whether a drive of that name is there.
pub(crate) fn has_manifest(bucket: &dyn Bucket, name: &DriveName) -> Result<bool, Failure> {
    Ok(!bucket.children(&format!("drives/{name}/manifests/"))?.is_empty())
}

fn exists(name: &DriveName) -> Error {
    Refusal::Because(format!(
        "there is a drive {name} already; choose another name, or mount it without `--create`"
    ))
    .into()
}

fn no_such(bucket: &dyn Bucket, name: &DriveName) -> Error {
    Refusal::Because(format!(
        "there is no drive {name} in {}; make it with `tenure drive create {name}`",
        bucket.describe()
    ))
    .into()
}

pub(crate) fn refused(error: OpenError) -> Error {
    match error {
        OpenError::Refused(refusal) => refusal.into(),
        OpenError::Failed(failure) => failure.into(),
    }
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
