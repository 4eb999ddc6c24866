//! What the bucket says of a drive's epochs, looked at under the lock and before anything is claimed or removed.
//!
//! Invariant: no epoch is claimed that was claimed before, and no history is begun that would leave out what was acknowledged.

use crate::manifest::Latest;
use crate::mark::Mark;
use crate::replay::{self, OfEpoch};
use crate::seal::{self, Seal};
use std::collections::BTreeSet;
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Key};

/// Bits of a pack's number that count within its epoch.
const PACKS_OF_EPOCH_BITS: u32 = 24;

/// What to do about an object that is gone.
const RESTORE: &str = "restore it from a copy of the bucket; nothing was changed";

/// An epoch that is over, as it is found.
pub(crate) struct Past {
    pub(crate) epoch: Epoch,
    pub(crate) found: OfEpoch,
    pub(crate) seal: Option<Seal>,
    /// Why its seal cannot be read; then its segments tell where it ended.
    pub(crate) damaged_seal: Option<Failure>,
}

/// The claims of a drive, and the marks of its segments.
pub(crate) struct Claimed {
    epochs: BTreeSet<Epoch>,
    marks: Vec<Mark>,
}

impl Claimed {
    pub(crate) fn list(bucket: &dyn Bucket, drive: &DriveName) -> Result<Self, Failure> {
        let names = bucket.children(&format!("drives/{drive}/epochs/"))?;
        let epochs = names.iter().filter_map(|name| parse_number(name)).map(Epoch);
        Ok(Self {
            epochs: epochs.collect(),
            marks: names.iter().filter_map(|name| Mark::parse(name)).collect(),
        })
    }

    pub(crate) fn newest(&self) -> Epoch {
        self.epochs.last().copied().unwrap_or(Epoch(0))
    }

    /// Returns the epochs before the newest one that have no claim: they began with 1, and none was left out.
    pub(crate) fn gaps(&self) -> Vec<Epoch> {
        let all = (1..self.newest().0).map(Epoch);
        all.filter(|epoch| !self.epochs.contains(epoch)).collect()
    }

    /// Refuses a drive in which something is newer than the newest claim: that was lost, and would be given out again.
    pub(crate) fn check(
        &self,
        bucket: &dyn Bucket,
        drive: &DriveName,
        latest: &Latest,
    ) -> Result<(), Failure> {
        let list = |folder: &str| bucket.children(&format!("drives/{drive}/{folder}/"));
        let mut seen: Vec<(Epoch, String)> = Vec::new();
        seen.extend(
            self.marks
                .iter()
                .map(|mark| (mark.epoch, mark.key(drive).to_string())),
        );
        for name in list("journal")? {
            seen.extend(
                parse_number(&name).map(|epoch| (Epoch(epoch), format!("drives/{drive}/journal/{name}"))),
            );
        }
        for name in list("packs")? {
            let number = name.split('.').next().and_then(parse_number);
            seen.extend(number.map(|number| {
                (
                    Epoch(number >> PACKS_OF_EPOCH_BITS),
                    format!("drives/{drive}/packs/{name}"),
                )
            }));
        }
        seen.extend(latest.manifest.as_ref().map(|manifest| {
            (
                manifest.epoch,
                format!("the manifest at record {}", manifest.at.seq),
            )
        }));
        match seen.into_iter().find(|(epoch, _)| *epoch > self.newest()) {
            Some((epoch, what)) => Err(Failure::Corrupt(format!(
                "{}: it is missing, and {what} was made under it: {RESTORE}",
                crate::epoch::key(drive, epoch)
            ))),
            None => Ok(()),
        }
    }

    /// Reads what there is of every epoch from the one of the oldest manifest on.
    pub(crate) fn past(
        &self,
        bucket: &dyn Bucket,
        drive: &DriveName,
        latest: &Latest,
    ) -> Result<Vec<Past>, Failure> {
        let first = latest
            .manifest
            .as_ref()
            .map_or(Epoch(1), |manifest| manifest.epoch);
        let mut past = Vec::new();
        let mut epoch = latest.oldest_epoch.min(first);
        while epoch <= self.newest() {
            let found = replay::list(bucket, drive, epoch)?;
            let (seal, damaged_seal) = if epoch >= first {
                seal::look(bucket, drive, epoch)?
            } else {
                (None, None)
            };
            past.push(Past {
                epoch,
                found,
                seal,
                damaged_seal,
            });
            epoch = epoch.next();
        }
        self.check_segments(drive, latest, &past)?;
        check_unmarked(bucket, drive, latest, &past)?;
        Ok(past)
    }

    /// Refuses a drive of which a segment is gone that may hold records behind the newest manifest.
    fn check_segments(&self, drive: &DriveName, latest: &Latest, past: &[Past]) -> Result<(), Failure> {
        let (first, from) = latest
            .manifest
            .as_ref()
            .map_or((Epoch(1), Seq(0)), |manifest| (manifest.epoch, manifest.at.seq));
        for one in past.iter().filter(|one| one.epoch >= first) {
            let segments = &one.found.segments;
            let of_epoch = self.marks.iter().filter(|mark| mark.epoch == one.epoch);
            for mark in of_epoch {
                let is_there = segments.iter().any(|segment| segment.first == mark.first);
                let is_before = segments
                    .iter()
                    .any(|segment| segment.first > mark.first && segment.first <= from.next());
                let is_past = one
                    .seal
                    .as_ref()
                    .is_some_and(|seal| seal.end.seq < mark.first || seal.end.seq <= from);
                if !(is_there || is_before || is_past) {
                    return Err(Failure::Corrupt(format!(
                        "{}: it is missing, and was in use for the records from {} on: {RESTORE}",
                        mark.segment(drive),
                        mark.first
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Refuses an epoch without any segment whose manifest counts records of it: owners keep the segment in use, also those
/// that did not mark it.
fn check_unmarked(
    bucket: &dyn Bucket,
    drive: &DriveName,
    latest: &Latest,
    past: &[Past],
) -> Result<(), Failure> {
    let Some(manifest) = &latest.manifest else {
        return Ok(());
    };
    let empty =
        |one: &&Past| one.epoch == manifest.epoch && one.seal.is_none() && one.found.segments.is_empty();
    if !past.iter().any(|one| empty(&one)) {
        return Ok(());
    }
    let before = match manifest.epoch {
        Epoch(0 | 1) => Seq(0),
        Epoch(epoch) => match seal::look(bucket, drive, Epoch(epoch - 1))? {
            (Some(seal), _) => seal.end.seq,
            (None, _) => return Ok(()),
        },
    };
    if manifest.at.seq > before {
        let folder = number_text(manifest.epoch.0);
        let first = Key::in_drive(drive, &["journal", &folder, &number_text(before.next().0)]);
        return Err(Failure::Corrupt(format!(
            "{first}, or one that followed it: it is missing, and the manifest at record {} was made behind it: {RESTORE}",
            manifest.at.seq
        )));
    }
    Ok(())
}
