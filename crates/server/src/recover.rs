//! Recovering a drive: its newest manifest, the records since, and the packs that were left open.
//!
//! Invariant: everything that was acknowledged is there again, or is named in the notices as lost.

use crate::decide::after;
use crate::load::Loader;
use crate::outset::{row_packs, stored_state};
use crate::place::NUMBER_BITS;
use crate::reclaim::Doomed;
use crate::state::{After, State};
use crate::trail;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_core::tree::Memory;
use tenure_journal::{Journal, Opening, Replayed};
use tenure_model::codec::Codec;
use tenure_model::{Act, Batch, ChunkPlace, DriveName, Epoch, Failure, PackNumber, Record, Seq};
use tenure_store::Bucket;
use tenure_store::pack::{PackName, Packs, open_key};
use tenure_wire::Error;

/// A drive as it was recovered.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) memory: Memory,
    pub(crate) loader: Loader,
    pub(crate) packs: Arc<Packs>,
    pub(crate) journal: Arc<Journal>,
    /// The record that the newest manifest follows, when nothing came behind it.
    pub(crate) folded: Option<Seq>,
    /// What was given up and is still there.
    pub(crate) doomed: Doomed,
    /// The records since: how many.
    pub(crate) records: u64,
    /// The epochs that were read for them, at most.
    pub(crate) epochs: u64,
    /// Bytes of the records since.
    pub(crate) record_bytes: u64,
    /// What a person should know, in sentences.
    pub(crate) notices: Vec<String>,
}

/// A drive that is being recovered.
struct Recovery<'a> {
    bucket: &'a dyn Bucket,
    name: DriveName,
    state: State,
    memory: Memory,
    loader: Loader,
    packs: Arc<Packs>,
    /// The chunks that the journal places in packs that were left open.
    left_open: BTreeMap<PackNumber, Vec<ChunkPlace>>,
    /// The packs that are sealed, also those that are known from the rows alone.
    sealed: BTreeSet<PackNumber>,
    /// The epoch of the manifest that was begun with: what earlier owners were filling may be named before the records that are replayed.
    folded_in: Epoch,
    /// The page of the manifest's state that replaying has met and is damaged.
    damaged_page: Option<Failure>,
    /// Whether anything was given up since the manifest.
    has_condemned: bool,
    records: u64,
    record_bytes: u64,
    notices: Vec<String>,
}

/// Recovers the drive that `opening` has claimed.
pub(crate) fn recover(
    bucket: &dyn Bucket,
    name: &DriveName,
    (mut opening, packs): (Opening, Packs),
) -> Result<Recovered, Error> {
    let of = (bucket, name, Arc::new(packs));
    let (mut recovery, mut replayed) = replay(&of, &mut opening)?;
    // What a large tree's last pack takes to read is left to the openings that follow a crash.
    if !replayed.has_ended_by_itself()
        && let Some(why) = recovery.damage_of_newest(&opening)?
        && let Some(before) = opening.try_before(why, |opening| replay(&of, opening))
    {
        (recovery, replayed) = before;
    }
    recovery
        .notices
        .extend(opening.damaged_manifests().iter().map(|failure| {
            format!("a damaged manifest was passed over, and more of the journal was replayed: {failure}")
        }));
    recovery
        .notices
        .extend(opening.notices().iter().map(|failure| {
            format!("an object that nothing needs now is missing or damaged; restore it from a copy of the bucket: {failure}")
        }));
    let folded = opening.manifest().map(|manifest| manifest.at.seq);
    let epochs = opening.epoch().0 - recovery.folded_in.0;
    let journal = opening.go_on(replayed)?;
    recovery.recover_open_packs()?;
    let doomed = recovery.forget_condemned()?;
    let Recovery {
        state,
        memory,
        loader,
        packs,
        records,
        record_bytes,
        notices,
        ..
    } = recovery;
    let folded = folded.filter(|_| records == 0);
    Ok(Recovered {
        state,
        memory,
        loader,
        packs,
        journal,
        folded,
        doomed,
        records,
        epochs,
        record_bytes,
        notices,
    })
}

/// A drive of a bucket, and its packs.
type Of<'a> = (&'a dyn Bucket, &'a DriveName, Arc<Packs>);

/// Replays what came behind the newest manifest of which no page that this needs is damaged.
fn replay<'a>(of: &Of<'a>, opening: &mut Opening) -> Result<(Recovery<'a>, Replayed), Error> {
    loop {
        let mut recovery = Recovery::begin(of, opening)?;
        let replayed = opening.replay(&mut |seq, record| recovery.replay(seq, record));
        match replayed {
            Ok(replayed) => return Ok((recovery, replayed)),
            Err(failure) => match recovery.damaged_page {
                Some(page) => opening.pass_over(page)?,
                None => return Err(failure.into()),
            },
        }
    }
}

impl<'a> Recovery<'a> {
    /// Starts from the newest manifest whose rows are whole, and the packs that it and the bucket know.
    fn begin((bucket, name, packs): &Of<'a>, opening: &mut Opening) -> Result<Self, Error> {
        let (bucket, packs) = (*bucket, packs.clone());
        let memory = Memory::new();
        let listing = Packs::list(bucket, name)?;
        add_all(&packs, listing.sealed);
        let lists = listing.lost.into_iter().map(|list| packs.add_lost(list));
        let notices = damaged_lists(lists)?;
        let loader = Loader::new(packs.clone());
        let state = loop {
            let stored = match opening.manifest() {
                None => break State::new(memory.clone()),
                Some(manifest) => row_packs(manifest).map_err(Error::from).and_then(|names| {
                    add_all(&packs, names);
                    stored_state(manifest, &loader, &memory)
                }),
            };
            match stored {
                Ok(state) => break state,
                Err(Error::Failed(Failure::Corrupt(why))) => {
                    let why = format!("{why}; the drive's own state is in it");
                    opening.pass_over(Failure::Corrupt(why))?;
                }
                Err(error) => return Err(error),
            }
        };
        // The table names packs that are gone as well, so that what they held is refused by name.
        add_all(&packs, state.packs());
        let sealed = packs.table().into_iter().map(|pack| pack.number).collect();
        // Without a disk none of what was being filled can be had: what the journal brings of it makes it anew.
        let open = listing.open.into_iter().filter(|_| !packs.are_held());
        let left_open = open.map(|pack| (pack, Vec::new())).collect();
        Ok(Self {
            bucket,
            name: (*name).clone(),
            folded_in: opening.manifest().map_or(Epoch(0), |manifest| manifest.epoch),
            state,
            memory,
            loader,
            packs,
            left_open,
            sealed,
            damaged_page: None,
            has_condemned: false,
            records: 0,
            record_bytes: 0,
            notices,
        })
    }

    /// Applies one record of the journal.
    fn replay(&mut self, seq: Seq, bytes: &[u8]) -> Result<(), Failure> {
        let wrong =
            |why: &dyn std::fmt::Display| Failure::Corrupt(format!("record {seq} of the journal: {why}"));
        // The chain has proved its bytes.
        let newer = |error| {
            Failure::newer(format_args!(
                "record {seq} of the journal of {}: {error}",
                self.name
            ))
        };
        let record = Record::parsed(bytes).map_err(newer)?;
        self.state.permits(&record).map_err(|refusal| wrong(&refusal))?;
        let touched = self.state.touched(&record);
        let branch = touched.and_then(|id| self.state.opened(id));
        let after = match branch {
            None => After::Same,
            Some(open) => after(&record, open.branch, &self.loader).map_err(|error| match error {
                Error::Failed(failure) => {
                    let is_damage = matches!(failure, Failure::Corrupt(_));
                    self.damaged_page = is_damage.then(|| failure.clone());
                    failure
                }
                Error::Refused(refusal) => wrong(&refusal),
            })?,
        };
        if let Record::Batch(Batch { chunks, .. }) | Record::Act(Act { chunks, .. }) = &record {
            self.note_chunks(chunks)?;
        }
        self.has_condemned |= matches!(record, Record::Condemned(_));
        self.state.apply(&record, seq, after);
        self.records += 1;
        self.record_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Returns what is damaged of the pages that the newest fold has written last, which the manifest before it and the journal make
    /// up for. On a disk alone: elsewhere reading all of them takes its time, and what is damaged fails when it is read.
    fn damage_of_newest(&self, opening: &Opening) -> Result<Option<Failure>, Failure> {
        let root = opening.manifest().and_then(|manifest| manifest.root);
        let Some(root) = root.filter(|_| !self.packs.are_held()) else {
            return Ok(None);
        };
        match self.packs.verify(root.pack, &|_| ()) {
            Ok(_) => Ok(None),
            Err(failure @ Failure::Corrupt(_)) => Ok(Some(failure)),
            Err(failure) => Err(failure),
        }
    }

    /// Notes which chunks a pack that was left open must have, also one that is gone.
    fn note_chunks(&mut self, chunks: &[ChunkPlace]) -> Result<(), Failure> {
        for chunk in chunks {
            let pack = chunk.at.pack;
            let was_put = |place: &ChunkPlace| place.inline.is_none();
            let is_gone = || {
                self.left_open
                    .get(&pack)
                    .is_some_and(|places| places.iter().any(was_put))
            };
            if self.packs.are_held() && was_put(chunk) && !self.sealed.contains(&pack) && !is_gone() {
                // It was put before this record was, and perhaps after the packs were listed.
                self.list_again()?;
            }
            if self.left_open.contains_key(&pack) || !self.sealed.contains(&pack) {
                self.left_open.entry(pack).or_default().push(chunk.clone());
            }
        }
        Ok(())
    }

    /// Finds the packs that the last owner has put since they were listed. Those have all that the journal places in them.
    fn list_again(&mut self) -> Result<(), Failure> {
        for pack in Packs::list(self.bucket, &self.name)?.sealed {
            if self.sealed.insert(pack.number) {
                self.packs.add(pack);
                self.left_open.remove(&pack.number);
            }
        }
        Ok(())
    }

    /// Reads no more what was given up, now that replaying needs it no more; returns what of it is still there.
    fn forget_condemned(&self) -> Result<Doomed, Failure> {
        if self.has_condemned && self.packs.are_held() {
            // The last owner may have put what is needed of a pack as another object since they were listed.
            add_all(&self.packs, Packs::list(self.bucket, &self.name)?.sealed);
        }
        let known: BTreeSet<PackName> = self.packs.table().into_iter().collect();
        let condemned = self.state.condemned();
        let left: Vec<_> = condemned
            .into_iter()
            .filter(|(name, _)| known.contains(name))
            .collect();
        left.iter().for_each(|(name, _)| self.packs.forget(*name));
        Ok(Doomed::left(left))
    }

    /// Tells whether nothing can name what an open pack holds of which the records since the manifest name nothing. Whatever names
    /// it came in its own epoch or later, and a manifest of that epoch names sealed packs alone.
    fn is_needless(&self, number: PackNumber) -> bool {
        let filled_in = Epoch(number.0 >> NUMBER_BITS);
        filled_in >= self.folded_in && !self.sealed.contains(&number) && !self.packs.is_lost(number)
    }

    /// Seals what was being filled when the last owner ended, and notes what was lost of it.
    fn recover_open_packs(&mut self) -> Result<(), Error> {
        if self.packs.are_held() && !self.left_open.is_empty() {
            self.list_again()?;
        }
        let (bucket, name) = (self.bucket, &self.name);
        for (number, places) in std::mem::take(&mut self.left_open) {
            let hints = trail::left(bucket, name, number)?;
            if !places.is_empty() || !hints.is_empty() {
                let recovered = self.packs.recover_open(number, &places, &hints)?;
                self.packs.lose(number, &recovered.missing)?;
            } else if self.is_needless(number) {
                match self.packs.discard_open(number) {
                    Err(Failure::Corrupt(why)) => self.notices.push(why),
                    discarded => discarded?,
                }
            } else if !self.packs.is_lost(number) {
                self.notices.push(format!(
                    "{} is left as it is: files may need what it holds, and the list beside it (`.lost`) that says what belongs there is \
                     gone; restore the list too from a copy of the bucket, or remove the file if `tenure check {name} --deep` finds \
                     nothing missing",
                    open_key(name, number)
                ));
            }
        }
        trail::remove_left(bucket, name)?;
        if self.records > 0 {
            self.notices.push(format!(
                "the last owner ended without closing the drive; {} of its records had to be replayed",
                self.records
            ));
        }
        Ok(())
    }
}

/// Says which lists of what is missing are damaged: what they name is known as missing, and not where it belongs.
fn damaged_lists(read: impl Iterator<Item = Result<(), Failure>>) -> Result<Vec<String>, Failure> {
    let damaged = read.filter_map(Result::err).map(|failure| {
        if let Failure::Corrupt(why) = failure {
            return Ok(format!("a list of what is missing cannot be read: {why}"));
        }
        Err(failure)
    });
    damaged.collect()
}

fn add_all(packs: &Packs, names: Vec<PackName>) {
    names.into_iter().for_each(|name| packs.add(name));
}
