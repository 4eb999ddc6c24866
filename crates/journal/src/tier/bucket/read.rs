//! Reading an epoch back and ending it: its names in order up to the first free one, which the seal then takes.
//!
//! Invariant: whoever drains an epoch finds the same end, whatever its owner still sends.

use super::SENDS_MAX;
use super::segment::{Number, OPENING, Segment, Standing, key, parsed};
use crate::chain::Position;
use crate::put;
use crate::seal::{self, Seal};
use crate::tier::Apply;
use std::collections::VecDeque;
use tenure_model::{DriveName, Epoch, Failure};
use tenure_store::Bucket;

/// Times that an object is read which does not come whole: the next reply may be.
const READS_MAX: usize = 3;

/// Times that the owner of an epoch may take the name first at which it is to end: it stops when it next looks for claims.
const RACES_MAX: usize = 200;

/// Reads names of one epoch.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) bucket: &'a dyn Bucket,
    pub(crate) drive: &'a DriveName,
    pub(crate) epoch: Epoch,
}

/// Start where on an epoch is read.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// The last record that is known.
    pub(crate) at: Position,
    /// The segment that holds the one behind it, or a segment before that.
    pub(crate) number: Number,
}

impl Names<'_> {
    /// Returns what stands at a name.
    pub(crate) fn look_up(&self, number: Number) -> Result<Standing, Failure> {
        let key = key(self.drive, self.epoch, number);
        let mut damaged = None;
        for _ in 0..READS_MAX {
            let Some(bytes) = self.bucket.get(&key)? else {
                return Ok(Standing::Free);
            };
            match parsed((self.drive, self.epoch, number), &bytes) {
                Err(failure @ Failure::Corrupt(_)) => damaged = Some(failure),
                read => return read,
            }
        }
        Err(damaged.expect("each try that did not return has left a failure"))
    }

    /// Hands over the records of an epoch behind `from`, ends it if nobody has, and returns its seal.
    pub(crate) fn drain(
        &self,
        from: Start,
        (by, at_once): (Epoch, usize),
        apply: Apply<'_>,
    ) -> Result<Seal, Failure> {
        let mut ahead = Ahead::new(*self, at_once);
        let mut end = Walk::new(from);
        let mut races = 0;
        while races < RACES_MAX {
            let number = end.number;
            match ahead.look_up(number)? {
                Standing::Segment(segment) if end.is_next(&segment) => {
                    end.take(self, &segment, apply)?;
                }
                Standing::Segment(segment) if number == OPENING => return Err(self.strange(&segment, end.at)),
                // A twin of the owner sent it, and counted on others before it: it takes the place of a seal.
                Standing::Segment(_) => return Ok(self.seal(end.at, by)),
                Standing::Seal(seal) => return self.checked(number, seal, end.at),
                Standing::Free => {
                    self.refuse_gap(number)?;
                    if let Some(seal) = self.take_name(number, end.at, by)? {
                        return Ok(seal);
                    }
                    races += 1;
                }
            }
        }
        Err(Failure::DidNotHappen(format!(
            "the owner of epoch {} goes on appending, and has not looked for a newer claim; open the drive again",
            self.epoch
        )))
    }

    fn seal(&self, end: Position, by: Epoch) -> Seal {
        Seal {
            drive: self.drive.clone(),
            epoch: self.epoch,
            end,
            by,
        }
    }

    /// Occupies a name with the seal; none when something else stands there by now.
    fn take_name(&self, number: Number, end: Position, by: Epoch) -> Result<Option<Seal>, Failure> {
        let seal = self.seal(end, by);
        let is_whole = |bytes: &[u8]| parsed((self.drive, self.epoch, number), bytes).is_ok();
        let key = key(self.drive, self.epoch, number);
        match put::settled(self.bucket, &key, &seal::KIND.wrapped(&seal), is_whole)? {
            put::Standing::Put | put::Standing::Found => Ok(Some(seal)),
            put::Standing::Others(_) => Ok(None),
        }
    }

    fn checked(&self, number: Number, seal: Seal, end: Position) -> Result<Seal, Failure> {
        if seal.end == end {
            return Ok(seal);
        }
        let key = key(self.drive, self.epoch, number);
        Err(Failure::Corrupt(format!(
            "{key}: the epoch was sealed behind record {}, and can be read up to record {}",
            seal.end.seq, end.seq
        )))
    }

    /// A segment is sent only when all but the `SENDS_MAX` before it are durable, and a seal when all are. So one of those
    /// behind a free name proves that what stood there is gone.
    fn refuse_gap(&self, free: Number) -> Result<(), Failure> {
        let behind = free + SENDS_MAX as Number;
        let is_there = |number| self.bucket.size(&key(self.drive, self.epoch, number));
        let mut proof = is_there(behind)?.map(|_| behind);
        for number in free + 1..behind {
            match self.look_up(number) {
                Ok(Standing::Seal(_)) => proof = Some(number),
                // What is damaged there would count for nothing.
                Ok(Standing::Free | Standing::Segment(_)) | Err(Failure::Corrupt(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        match proof {
            // The owner may have gone on meanwhile.
            Some(proof) if is_there(free)?.is_none() => Err(Failure::Corrupt(format!(
                "{}: it is missing, and {} was put behind it",
                key(self.drive, self.epoch, free),
                key(self.drive, self.epoch, proof)
            ))),
            _ => Ok(()),
        }
    }

    fn strange(&self, opening: &Segment, end: Position) -> Failure {
        let key = key(self.drive, self.epoch, OPENING);
        Failure::Corrupt(format!(
            "{key}: the epoch begins behind record {}, and the epochs before it end with record {}, or hold others",
            opening.before.seq, end.seq
        ))
    }
}

/// How far an epoch was read.
struct Walk {
    from: Start,
    at: Position,
    number: Number,
}

impl Walk {
    fn new(from: Start) -> Self {
        Self {
            from,
            at: from.at,
            number: from.number,
        }
    }

    /// Tells whether a segment continues what was read. The first one that is read may reach back.
    fn is_next(&self, segment: &Segment) -> bool {
        let reaches_back =
            self.number == self.from.number && self.number > OPENING && segment.before.seq < self.from.at.seq;
        segment.before == self.at || reaches_back
    }

    /// Hands over the records of a segment that are not known yet.
    fn take(&mut self, names: &Names<'_>, segment: &Segment, apply: Apply<'_>) -> Result<(), Failure> {
        let known = self.from.at;
        let mut at = segment.before;
        for record in &segment.records {
            at = at.after(names.epoch, record);
            if at.seq == known.seq && at != known {
                break;
            }
            if at.seq > known.seq {
                apply(at.seq, record)?;
            }
        }
        if at.seq < known.seq || at.seq == known.seq && at != known {
            let key = key(names.drive, names.epoch, self.number);
            let seq = known.seq;
            return Err(Failure::Corrupt(format!(
                "{key}: it does not lead up to record {seq}, which the manifest follows"
            )));
        }
        self.at = at;
        self.number += 1;
        Ok(())
    }
}

/// Looks up names in order, several at once once there are many.
struct Ahead<'a> {
    names: Names<'a>,
    at_once_max: usize,
    at_once: usize,
    found: VecDeque<(Number, Result<Standing, Failure>)>,
}

impl<'a> Ahead<'a> {
    fn new(names: Names<'a>, at_once_max: usize) -> Self {
        Self {
            names,
            at_once_max,
            at_once: 1,
            found: VecDeque::new(),
        }
    }

    fn look_up(&mut self, number: Number) -> Result<Standing, Failure> {
        if self.found.front().is_none_or(|(found, _)| *found != number) {
            self.fetch(number);
        }
        let (_, standing) = self.found.pop_front().expect("it was fetched just now");
        if matches!(standing, Ok(Standing::Free)) {
            // What was looked up behind it may be another by the time this name is taken.
            self.found.clear();
        }
        standing
    }

    fn fetch(&mut self, from: Number) {
        let numbers = from..from + self.at_once as Number;
        self.at_once = (self.at_once * 2).min(self.at_once_max);
        let names = self.names;
        if numbers.end - numbers.start == 1 {
            self.found = VecDeque::from([(from, names.look_up(from))]);
            return;
        }
        self.found = std::thread::scope(|threads| {
            let started: Vec<_> = numbers
                .map(|number| (number, threads.spawn(move || names.look_up(number))))
                .collect();
            let joined = started.into_iter().map(|(number, thread)| {
                let found = thread.join();
                (number, found.expect("a look-up does not panic"))
            });
            joined.collect()
        });
    }
}

/// Says of an epoch's names what is wrong with them, one fault for each; nothing is changed.
pub(crate) fn audit(names: &Names<'_>) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let mut at: Option<Position> = None;
    let mut number = OPENING;
    loop {
        let standing = match names.look_up(number) {
            Err(Failure::Corrupt(why) | Failure::Newer(why)) => {
                faults.push(why);
                return Ok(faults);
            }
            standing => standing?,
        };
        match standing {
            Standing::Segment(segment) if at.is_none_or(|at| segment.before == at) => {
                let behind = |at: Position, record: &Vec<u8>| at.after(names.epoch, record);
                at = Some(segment.records.iter().fold(segment.before, behind));
            }
            Standing::Segment(_) => return Ok(faults),
            Standing::Seal(seal) => {
                if let Some(end) = at
                    && let Err(Failure::Corrupt(why)) = names.checked(number, seal, end)
                {
                    faults.push(why);
                }
                return Ok(faults);
            }
            Standing::Free => {
                faults.push(format!(
                    "{}: it is missing: a segment, or the seal of the epoch",
                    key(names.drive, names.epoch, number)
                ));
                return Ok(faults);
            }
        }
        number += 1;
    }
}
