//! What the bucket says of a drive's epochs, looked at before anything is claimed or removed.
//!
//! Invariant: no epoch is claimed that was claimed before, and no history is begun that would leave out what was acknowledged.

use crate::epoch;
use crate::manifest::{self, Latest, Tier};
use crate::seal::{self, Seal};
use crate::tier::bucket::read::Names;
use crate::tier::bucket::segment;
use crate::tier::folder::mark::Mark;
use crate::tier::folder::read::{self, OfEpoch};
use std::collections::BTreeSet;
use tenure_model::limits::CLAIMS_MISSING_MAX;
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::key::{number_text, parse_number};
use tenure_store::{Bucket, Key};

/// Bits of a pack's number that count within its epoch.
const PACKS_OF_EPOCH_BITS: u32 = 24;

/// What to do about an object that is gone.
const RESTORE: &str = "restore it from a copy of the bucket; nothing was changed";

/// What is known of a drive before its journal is read.
pub(crate) struct Survey {
    pub(crate) latest: Latest,
    /// The newest epoch that is claimed; 0 where none is.
    pub(crate) newest: Epoch,
    /// The claimed epochs from that of the oldest manifest on, in order.
    pub(crate) past: Vec<Past>,
    /// The epochs whose claims are gone.
    gaps: Vec<Epoch>,
}

/// An epoch that was claimed, as it is found.
pub(crate) struct Past {
    pub(crate) epoch: Epoch,
    /// The tier on which its records are.
    pub(crate) tier: Tier,
    /// Its files, on the folder tier.
    pub(crate) found: OfEpoch,
    pub(crate) seal: Option<Seal>,
    /// Why its seal cannot be read; then its segments tell where it ended.
    pub(crate) damaged_seal: Option<Failure>,
}

impl Survey {
    /// Refuses a drive of which something is missing that may hold what was acknowledged. `own` is the tier that an epoch has
    /// that left nothing.
    pub(crate) fn make(bucket: &dyn Bucket, drive: &DriveName, own: Tier) -> Result<Self, Failure> {
        let latest = manifest::latest(bucket, drive)?;
        let seen = Seen::list(bucket, drive, &latest)?;
        let claimed = Claimed::list(bucket, drive)?;
        claimed.refuse_stray(drive)?;
        claimed.check(bucket, drive, seen)?;
        let past = claimed.past(bucket, (drive, own), &latest);
        let past = past.map_err(|failure| latest.blamed(failure))?;
        Ok(Self {
            gaps: claimed.gaps(),
            newest: claimed.newest(),
            latest,
            past,
        })
    }

    /// Looks at the seals of the epochs that are to be read now that an older manifest is begun with.
    pub(crate) fn look_at_seals(&mut self, bucket: &dyn Bucket, drive: &DriveName) -> Result<(), Failure> {
        let first = self.first_epoch();
        let is_unread = |past: &&mut Past| past.seal.is_none() && past.damaged_seal.is_none();
        let files = self.past.iter_mut().filter(|past| past.tier == Tier::Folder);
        for past in files.filter(|past| past.epoch >= first).filter(is_unread) {
            (past.seal, past.damaged_seal) = seal::look(bucket, drive, past.epoch)?;
        }
        Ok(())
    }

    /// Returns the epoch in which replaying begins.
    pub(crate) fn first_epoch(&self) -> Epoch {
        let manifest = self.latest.manifest.as_ref();
        manifest.map_or(Epoch(1), |manifest| manifest.epoch)
    }

    /// Tells whether all that is to be read can be read without ending an epoch meanwhile: files have their names, and of objects
    /// the first free one must be taken to find the end.
    pub(crate) fn is_read_by_name(&self) -> bool {
        self.past.iter().all(|past| past.tier == Tier::Folder)
    }

    /// Fails where the owner before was a newer program, as the first of what it has put says: claiming would depose it, for
    /// somebody who cannot read what it wrote.
    pub(crate) fn refuse_newer(&self, bucket: &dyn Bucket, drive: &DriveName) -> Result<(), Failure> {
        let Some(last) = self.past.last().filter(|last| last.tier == Tier::Bucket) else {
            return Ok(());
        };
        let names = Names {
            bucket,
            drive,
            epoch: last.epoch,
        };
        match names.look_up(segment::OPENING) {
            Err(failure @ Failure::Newer(_)) => Err(failure),
            // What else is wrong there is found when it is read.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Returns what is missing or damaged and stops nothing.
pub(crate) fn notices(drive: &DriveName, survey: &Survey) -> Vec<Failure> {
    let missing = |epoch: &Epoch| Failure::Corrupt(format!("{}: it is missing", epoch::key(drive, *epoch)));
    let damaged = survey.past.iter().filter_map(|past| past.damaged_seal.clone());
    survey.gaps.iter().map(missing).chain(damaged).collect()
}

/// What was made under which epoch, in words: none of them is newer than the newest claim.
struct Seen {
    objects: Vec<(Epoch, String)>,
    /// Groups of the journal: some services name one for a while after its last object is gone.
    groups: Vec<(Epoch, String)>,
}

impl Seen {
    /// Lists what there is. Claims are to be listed afterwards: others may claim meanwhile, and go on.
    fn list(bucket: &dyn Bucket, drive: &DriveName, latest: &Latest) -> Result<Self, Failure> {
        let list = |folder: &str| bucket.children(&format!("drives/{drive}/{folder}/"));
        let mut groups = Vec::new();
        for name in list("journal")? {
            let epoch = parse_number(&name).map(Epoch);
            groups.extend(epoch.map(|epoch| (epoch, format!("drives/{drive}/journal/{name}"))));
        }
        let mut objects = Vec::new();
        for name in list("packs")? {
            let number = name.split('.').next().and_then(parse_number);
            let epoch = number.map(|number| Epoch(number >> PACKS_OF_EPOCH_BITS));
            objects.extend(epoch.map(|epoch| (epoch, format!("drives/{drive}/packs/{name}"))));
        }
        let manifest = latest.manifest.as_ref();
        objects.extend(manifest.map(|manifest| {
            let seq = manifest.at.seq;
            (manifest.epoch, format!("the manifest at record {seq}"))
        }));
        Ok(Self { objects, groups })
    }
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
        let epochs = epochs.filter(|epoch| *epoch > Epoch(0));
        Ok(Self {
            epochs: epochs.collect(),
            marks: names.iter().filter_map(|name| Mark::parse(name)).collect(),
        })
    }

    pub(crate) fn newest(&self) -> Epoch {
        self.epochs.last().copied().unwrap_or(Epoch(0))
    }

    /// Returns the last claim before a stray one, and that: of the claims before it more are missing than are ever lost.
    pub(crate) fn stray(&self) -> Option<(Epoch, Epoch)> {
        let (mut missing, mut before) = (0, Epoch(0));
        for epoch in &self.epochs {
            missing += epoch.0 - before.next().0;
            if missing > CLAIMS_MISSING_MAX {
                return Some((before, *epoch));
            }
            before = *epoch;
        }
        None
    }

    /// Refuses a drive with a claim that no owner can have made; without it there are as many epochs as there are claims, and
    /// some.
    fn refuse_stray(&self, drive: &DriveName) -> Result<(), Failure> {
        let Some((before, stray)) = self.stray() else {
            return Ok(());
        };
        Err(Failure::Corrupt(stray_claim(drive, before, stray)))
    }

    /// Returns the epochs before the newest one that have no claim: they began with 1, and none was left out.
    pub(crate) fn gaps(&self) -> Vec<Epoch> {
        let all = (1..self.newest().0).map(Epoch);
        all.filter(|epoch| !self.epochs.contains(epoch)).collect()
    }

    /// Refuses a drive in which something is newer than the newest claim: that was lost, and would be given out again.
    fn check(&self, bucket: &dyn Bucket, drive: &DriveName, seen: Seen) -> Result<(), Failure> {
        let is_newer = |(epoch, _): &(Epoch, String)| *epoch > self.newest();
        let marks = self.marks.iter();
        let marks = marks.map(|mark| (mark.epoch, mark.key(drive).to_string()));
        let mut newer = marks.chain(seen.objects).find(is_newer);
        for group in seen.groups.into_iter().filter(is_newer) {
            if newer.is_none() && !bucket.list(&format!("{}/", group.1))?.is_empty() {
                newer = Some(group);
            }
        }
        match newer {
            Some((epoch, what)) => Err(Failure::Corrupt(format!(
                "{}: it is missing, and {what} was made under it: remove that if it is none of the drive's; else {RESTORE}",
                epoch::key(drive, epoch)
            ))),
            None => Ok(()),
        }
    }

    /// Reads what there is of every epoch from the one of the oldest manifest on.
    fn past(
        &self,
        bucket: &dyn Bucket,
        (drive, own): (&DriveName, Tier),
        latest: &Latest,
    ) -> Result<Vec<Past>, Failure> {
        let first = latest
            .manifest
            .as_ref()
            .map_or(Epoch(1), |manifest| manifest.epoch);
        let mut past = Vec::new();
        let mut epoch = latest.oldest_epoch.min(first);
        while epoch <= self.newest() {
            past.push(match tier_of(bucket, (drive, epoch), latest, own)? {
                Tier::Folder => Past::of_files(bucket, (drive, epoch), epoch >= first)?,
                Tier::Bucket => Past::of_objects(epoch),
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

impl Past {
    /// An epoch whose segments are files, and whether its end is asked for.
    fn of_files(
        bucket: &dyn Bucket,
        (drive, epoch): (&DriveName, Epoch),
        is_wanted: bool,
    ) -> Result<Self, Failure> {
        let found = read::list(bucket, drive, epoch)?;
        let (seal, damaged_seal) = if is_wanted {
            seal::look(bucket, drive, epoch)?
        } else {
            (None, None)
        };
        Ok(Self {
            epoch,
            tier: Tier::Folder,
            found,
            seal,
            damaged_seal,
        })
    }

    /// An epoch whose segments are objects: they are found when they are read.
    fn of_objects(epoch: Epoch) -> Self {
        Self {
            epoch,
            tier: Tier::Bucket,
            found: OfEpoch::default(),
            seal: None,
            damaged_seal: None,
        }
    }
}

/// Says of a claim that it is a stray one.
pub(crate) fn stray_claim(drive: &DriveName, before: Epoch, stray: Epoch) -> String {
    format!(
        "{}: it is missing, and more than {CLAIMS_MISSING_MAX} claims are before {}: remove that if it is none of the drive's, or restore the claims from a copy of the bucket; nothing was changed",
        epoch::key(drive, before.next()),
        epoch::key(drive, stray)
    )
}

/// Returns on which tier the records of an epoch are: its opening tells. One that left nothing has the tier `own`.
fn tier_of(
    bucket: &dyn Bucket,
    (drive, epoch): (&DriveName, Epoch),
    latest: &Latest,
    own: Tier,
) -> Result<Tier, Failure> {
    if let Some(manifest) = latest
        .manifest
        .as_ref()
        .filter(|manifest| manifest.epoch == epoch)
    {
        return Ok(manifest.tier);
    }
    if bucket
        .size(&segment::key(drive, epoch, segment::OPENING))?
        .is_some()
    {
        return Ok(Tier::Bucket);
    }
    if own == Tier::Folder {
        return Ok(Tier::Folder);
    }
    // The names of an epoch that has lost its opening tell it as well: of files there are some that are no numbers.
    let folder = format!("drives/{drive}/journal/{}/", number_text(epoch.0));
    let names = bucket.children(&folder)?;
    let Some(first) = names.iter().find_map(|name| parse_number(name)) else {
        return Ok(if names.is_empty() { own } else { Tier::Folder });
    };
    let holds_object = segment::is_object(bucket, &segment::key(drive, epoch, first))?;
    Ok(if holds_object { Tier::Bucket } else { Tier::Folder })
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
    let empty = |one: &&Past| {
        let is_left_out = one.seal.is_none() && one.found.segments.is_empty();
        one.epoch == manifest.epoch && one.tier == Tier::Folder && is_left_out
    };
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
