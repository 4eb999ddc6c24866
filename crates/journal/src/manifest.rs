//! Manifests: the root of a drive's state at a place in its order.
//!
//! Invariant: a manifest that was read is whole, belongs to the drive, and stands under its own seq.

use crate::chain::Position;
use crate::envelope::Kind;
use crate::epoch::drive_name;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_option, put_varint};
use tenure_model::{Address, DriveName, Epoch, Failure, Seq};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Key, Put};

/// The version of a drive on the folder tier; a program that knows no other reads it.
const KIND: Kind = Kind {
    magic: b"TNMANIF1",
    version: 1,
    what: "manifest",
};

/// The version of a drive on the bucket tier: it also says in which segment to go on.
const KIND_2: Kind = Kind { version: 2, ..KIND };

/// Where a sync must be before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In journal files inside the bucket's folder.
    Folder,
    /// In the bucket, as an object.
    Bucket,
}

/// A drive's whole state at a place in its order, by its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The drive.
    pub drive: DriveName,
    /// Who wrote it.
    pub epoch: Epoch,
    /// The place in the order: the state is that after this record.
    pub at: Position,
    /// Where the journal's records are that follow.
    pub tier: Tier,
    /// On the bucket tier, the number of the segment with which reading them begins; else 0.
    pub segment: u64,
    /// The root page of the drive's state; every pack it names is sealed.
    pub root: Option<Address>,
    /// What else the server needs to go on: opaque here.
    pub state: Vec<u8>,
}

impl Codec for Manifest {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.drive.as_str().as_bytes());
        put_varint(out, self.epoch.0);
        put_varint(out, self.at.seq.0);
        out.extend_from_slice(&self.at.chain.0);
        match self.tier {
            Tier::Folder => out.push(1),
            Tier::Bucket => {
                out.push(2);
                put_varint(out, self.segment);
            }
        }
        put_option(out, self.root.as_ref());
        put_bytes(out, &self.state);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (drive, epoch) = (drive_name(input)?, Epoch(input.varint()?));
        let at = Position {
            seq: Seq(input.varint()?),
            chain: input.digest()?,
        };
        let (tier, segment) = match input.byte()? {
            1 => (Tier::Folder, 0),
            2 => (Tier::Bucket, input.varint()?),
            _ => return Err(malformed("tier")),
        };
        Ok(Self {
            drive,
            epoch,
            at,
            tier,
            segment,
            root: input.option()?,
            state: input.bytes()?.to_vec(),
        })
    }
}

/// What the bucket says about a drive's newest manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The newest one that is whole.
    pub manifest: Option<Manifest>,
    /// The seqs of all that there are, in order.
    pub seqs: Vec<Seq>,
    /// Newer ones that are damaged: the journal must reach back behind them.
    pub damaged: Vec<Failure>,
    /// The epoch of the oldest one, or 1: no earlier epoch has anything left to be deleted.
    pub oldest_epoch: Epoch,
}

impl Latest {
    /// Finds the newest one that is whole among those before `end`, or among all.
    fn find_whole(
        &mut self,
        bucket: &dyn Bucket,
        drive: &DriveName,
        end: Option<Seq>,
    ) -> Result<(), Failure> {
        let is_before = |seq: &&Seq| end.is_none_or(|end| **seq < end);
        for seq in self.seqs.iter().rev().filter(is_before) {
            match read(bucket, drive, *seq) {
                Ok(manifest) => {
                    self.manifest = Some(manifest);
                    break;
                }
                Err(failure @ Failure::Corrupt(_)) => self.damaged.push(failure),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Counts the newest one for damaged, because of what it names, and finds the one before.
    pub(crate) fn pass_over(
        &mut self,
        bucket: &dyn Bucket,
        drive: &DriveName,
        why: Failure,
    ) -> Result<(), Failure> {
        let Some(passed) = self.manifest.take() else {
            return Err(why);
        };
        self.damaged.push(why);
        self.find_whole(bucket, drive, Some(passed.at.seq))
    }

    /// Adds to what cannot be read of the journal that a newer manifest is damaged, with which it would not be needed.
    pub(crate) fn blamed(&self, failure: Failure) -> Failure {
        match (failure, self.damaged.first()) {
            (Failure::Corrupt(why), Some(Failure::Corrupt(damaged))) => Failure::Corrupt(format!(
                "{damaged}: restore it from a copy of the bucket; without it more of the journal is needed: {why}"
            )),
            (failure, _) => failure,
        }
    }

    /// Returns the seqs of those that are not known to be damaged, in order.
    pub(crate) fn whole_seqs(&self) -> Vec<Seq> {
        let newest = self.manifest.as_ref().map(|manifest| manifest.at.seq);
        let whole = self
            .seqs
            .iter()
            .filter(|seq| newest.is_some_and(|newest| **seq <= newest));
        whole.copied().collect()
    }
}

/// Returns the seqs of all manifests that there are, in order.
pub fn list(bucket: &dyn Bucket, drive: &DriveName) -> Result<Vec<Seq>, Failure> {
    let names = bucket.children(&format!("drives/{drive}/manifests/"))?;
    // Names come in byte order, which is number order.
    Ok(names
        .iter()
        .filter_map(|name| parse_number(name))
        .map(Seq)
        .collect())
}

/// Finds the newest manifest that is whole.
pub fn latest(bucket: &dyn Bucket, drive: &DriveName) -> Result<Latest, Failure> {
    let mut latest = Latest {
        manifest: None,
        seqs: list(bucket, drive)?,
        damaged: Vec::new(),
        oldest_epoch: Epoch(1),
    };
    latest.find_whole(bucket, drive, None)?;
    if let Some(oldest) = latest.seqs.first() {
        // One that is damaged tells nothing; then every epoch is looked at.
        latest.oldest_epoch = read(bucket, drive, *oldest).map_or(Epoch(1), |oldest| oldest.epoch);
    }
    Ok(latest)
}

/// Reads the manifest at a seq.
pub fn read(bucket: &dyn Bucket, drive: &DriveName, seq: Seq) -> Result<Manifest, Failure> {
    let missing = || Failure::Corrupt(format!("{}: it is missing", key(drive, seq)));
    find(bucket, drive, seq)?.ok_or_else(missing)
}

fn find(bucket: &dyn Bucket, drive: &DriveName, seq: Seq) -> Result<Option<Manifest>, Failure> {
    let key = key(drive, seq);
    let Some(bytes) = bucket.get(&key)? else {
        return Ok(None);
    };
    let manifest: Manifest = if KIND_2.is_version_of(&bytes) {
        KIND_2.opened(&key, &bytes)?
    } else {
        KIND.opened(&key, &bytes)?
    };
    if manifest.at.seq == seq && manifest.drive == *drive {
        Ok(Some(manifest))
    } else {
        Err(Failure::Corrupt(format!(
            "{key}: it is the manifest of another place or drive"
        )))
    }
}

/// Makes a manifest durable. One that this owner has put there already serves as well; a damaged one, and one of an owner before, whose pages
/// this one may not have, is replaced.
pub(crate) fn put(bucket: &dyn Bucket, manifest: &Manifest) -> Result<(), Failure> {
    let key = key(&manifest.drive, manifest.at.seq);
    let kind = match manifest.tier {
        Tier::Folder => &KIND,
        Tier::Bucket => &KIND_2,
    };
    let unclear = match bucket.put_if_absent(&key, &kind.wrapped(manifest)) {
        Ok(Put::Created) => return Ok(()),
        Ok(Put::Exists) => Failure::Unknown(format!("{key} was put and cannot be found")),
        Err(failure @ Failure::Unknown(_)) => failure,
        Err(failure) => return Err(failure),
    };
    let is_damaged = match bucket.get(&key) {
        Ok(found) => found.is_some_and(|bytes| !kind.is_whole(&bytes)),
        Err(Failure::Corrupt(_)) => true,
        Err(failure) => return Err(failure),
    };
    let serves = |found: &Manifest| found.epoch == manifest.epoch;
    // Everything it said is known again: the state was recovered without it.
    if is_damaged || found_of_before(bucket, manifest)?.is_some_and(|found| !serves(&found)) {
        bucket.delete(&key)?;
        bucket.put_if_absent(&key, &kind.wrapped(manifest))?;
    }
    match found_of_before(bucket, manifest)? {
        Some(found) if serves(&found) => Ok(()),
        Some(_) | None => Err(unclear),
    }
}

/// Returns what is there at the place of a manifest; refuses what another history or a later owner has put there.
fn found_of_before(bucket: &dyn Bucket, manifest: &Manifest) -> Result<Option<Manifest>, Failure> {
    let key = || key(&manifest.drive, manifest.at.seq);
    let found = find(bucket, &manifest.drive, manifest.at.seq)?;
    match &found {
        Some(found) if found.at != manifest.at => Err(Failure::Corrupt(format!(
            "{}: it belongs to another history",
            key()
        ))),
        Some(found) if found.epoch > manifest.epoch => Err(Failure::Fenced(format!(
            "{}: the owner of epoch {} has put it, which has taken the drive over",
            key(),
            found.epoch
        ))),
        Some(_) | None => Ok(found),
    }
}

/// Returns the key of the manifest at a seq.
pub(crate) fn key(drive: &DriveName, seq: Seq) -> Key {
    Key::in_drive(drive, &["manifests", &number_text(seq.0)])
}
