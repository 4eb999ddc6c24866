//! Looking at every object of a drive's order for `tenure check`: claims, marks, seals, segments and manifests, needed or not.
//!
//! It changes nothing, and the drive may be in use meanwhile: what its owner writes at the moment is left out, and what it deletes is
//! no fault. Invariant: one fault does not hide those of other objects.

use crate::epoch;
use crate::evidence::{self, Claimed};
use crate::manifest;
use crate::seal;
use crate::tier::bucket::read::{self as objects, Names};
use crate::tier::bucket::segment;
use crate::tier::folder::mark::Mark;
use crate::tier::folder::read::{self, Segment};
use tenure_model::{DriveName, Epoch, Failure, Seq};
use tenure_store::disk::BLOCK_LEN;
use tenure_store::key::parse_number;
use tenure_store::{Bucket, Key};

/// What stands directly below a drive.
const FOLDERS: [&str; 6] = ["deleting", "epochs", "journal", "lock", "manifests", "packs"];

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The small objects: claims, marks, seals and manifests.
    Objects,
    /// Every record as well.
    Records,
}

/// Returns a sentence for each object of a drive's order that is damaged, missing, or none of the drive's.
pub fn audit(bucket: &dyn Bucket, drive: &DriveName, depth: Depth) -> Result<Vec<String>, Failure> {
    let mut audit = Audit {
        bucket,
        drive,
        depth,
        faults: Vec::new(),
    };
    for name in bucket.children(&format!("drives/{drive}/"))? {
        if !FOLDERS.contains(&name.as_str()) {
            audit.unknown(&[&name]);
        }
    }
    let newest = audit.claims()?;
    audit.journal(newest)?;
    audit.manifests()?;
    Ok(audit.faults)
}

struct Audit<'a> {
    bucket: &'a dyn Bucket,
    drive: &'a DriveName,
    depth: Depth,
    faults: Vec<String>,
}

impl Audit<'_> {
    fn children(&self, folder: &str) -> Result<Vec<String>, Failure> {
        self.bucket.children(&format!("drives/{}/{folder}/", self.drive))
    }

    fn unknown(&mut self, names: &[&str]) {
        self.faults.push(format!(
            "{}: it is no object of a drive",
            Key::in_drive(self.drive, names)
        ));
    }

    fn missing(&mut self, key: &Key, why: &str) {
        self.faults.push(format!("{key}: it is missing{why}"));
    }

    /// Notes why an object cannot be read; what only cannot be reached now ends the audit.
    fn note<T>(&mut self, read: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(Failure::Corrupt(why) | Failure::Newer(why)) => {
                self.faults.push(why);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Looks at the claims and the marks, and returns the newest epoch.
    fn claims(&mut self) -> Result<Epoch, Failure> {
        let claimed = Claimed::list(self.bucket, self.drive)?;
        let stray = claimed.stray();
        let newest = stray.map_or(claimed.newest(), |(before, _)| before);
        self.faults
            .extend(stray.map(|(before, stray)| evidence::stray_claim(self.drive, before, stray)));
        for number in 1..=newest.0 {
            let key = epoch::key(self.drive, Epoch(number));
            let read = epoch::read(self.bucket, self.drive, Epoch(number));
            match self.note(read)? {
                Some(Some(claim)) if claim.previous != Epoch(number - 1) => {
                    let previous = claim.previous;
                    self.faults.push(format!(
                        "{key}: it follows on epoch {previous}, not on the one before"
                    ));
                }
                Some(None) => self.missing(&key, ""),
                _ => {}
            }
        }
        for name in self.children("epochs")? {
            match Mark::parse(&name) {
                Some(mark) => self.mark(mark)?,
                None if parse_number(&name).is_none() => self.unknown(&["epochs", &name]),
                None => {}
            }
        }
        Ok(newest)
    }

    fn mark(&mut self, mark: Mark) -> Result<(), Failure> {
        let segment = mark.segment(self.drive);
        // A fold deletes the mark first: only one that is still there then misses its segment.
        if self.bucket.size(&segment)?.is_none() && self.bucket.size(&mark.key(self.drive))?.is_some() {
            self.missing(&segment, ", and was taken into use");
        }
        Ok(())
    }

    fn journal(&mut self, newest: Epoch) -> Result<(), Failure> {
        for name in self.children("journal")? {
            if parse_number(&name).is_none_or(|epoch| epoch > newest.0) {
                self.unknown(&["journal", &name]);
            }
        }
        let first_needed = manifest::latest(self.bucket, self.drive)?.oldest_epoch;
        for epoch in (1..newest.0).map(Epoch) {
            let opening = segment::key(self.drive, epoch, segment::OPENING);
            if self.bucket.size(&opening)?.is_some() {
                self.past_objects(epoch, first_needed)?;
            } else {
                self.past_files(epoch)?;
            }
        }
        Ok(())
    }

    /// Looks at an epoch that is over and whose segments are objects, while they are needed: those before may be gone.
    fn past_objects(&mut self, epoch: Epoch, first_needed: Epoch) -> Result<(), Failure> {
        if epoch >= first_needed && self.depth == Depth::Records {
            let names = Names {
                bucket: self.bucket,
                drive: self.drive,
                epoch,
            };
            self.faults.extend(objects::audit(&names)?);
        }
        Ok(())
    }

    /// Looks at an epoch that is over and whose segments are files: its seal, and the segments that are left of it.
    fn past_files(&mut self, epoch: Epoch) -> Result<(), Failure> {
        let read = seal::read(self.bucket, self.drive, epoch);
        let seal = self.note(read)?;
        if seal == Some(None) {
            self.missing(&seal::key(self.drive, epoch), "");
        }
        if self.depth == Depth::Objects {
            return Ok(());
        }
        let found = read::list(self.bucket, self.drive, epoch)?;
        let Some(first) = found.segments.first() else {
            return Ok(());
        };
        let seal = seal.flatten();
        let read = before(self.bucket, first).and_then(|before| match before {
            // Segments that hold nothing up to the seal are not looked into.
            Some(before) if seal.as_ref().is_none_or(|seal| seal.end.seq >= before.seq) => {
                let mut apply = |_: Seq, _: &[u8]| Ok(());
                read::read_epoch(
                    self.bucket,
                    epoch,
                    &found.segments,
                    before,
                    seal.as_ref(),
                    &mut apply,
                )
                .map(drop)
            }
            _ => Ok(()),
        });
        let is_there = |segment: &Segment| self.bucket.size(&segment.key).map(|size| size.is_some());
        let mut gone = false;
        for segment in &found.segments {
            gone |= !is_there(segment)?;
        }
        // What a fold has deleted meanwhile is no fault.
        if !gone {
            self.note(read)?;
        }
        Ok(())
    }

    fn manifests(&mut self) -> Result<(), Failure> {
        for name in self.children("manifests")? {
            let Some(seq) = parse_number(&name).map(Seq) else {
                self.unknown(&["manifests", &name]);
                continue;
            };
            let read = manifest::read(self.bucket, self.drive, seq);
            if self.bucket.size(&manifest::key(self.drive, seq))?.is_some() {
                self.note(read)?;
            }
        }
        Ok(())
    }
}

/// Returns the place before a segment's first record; none when the segment is gone.
fn before(bucket: &dyn Bucket, segment: &Segment) -> Result<Option<crate::Position>, Failure> {
    let Some(len) = bucket.size(&segment.key)? else {
        return Ok(None);
    };
    let mut block = vec![0; BLOCK_LEN.min(usize::try_from(len).unwrap_or(BLOCK_LEN))];
    bucket.get_range(&segment.key, 0, &mut block)?;
    read::parsed_header(&segment.key, &block).map(|header| Some(header.before))
}
