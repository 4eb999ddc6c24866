//! The `bucket` tier: a segment is an object, put once under the next name of its epoch, and names are all that fences.
//!
//! The first segment of an epoch is its opening and holds no record: it says on what history the epoch stands. Invariant: a
//! segment counts when it and every name before it hold what this owner has put there; a name that holds another's is the end.

pub(crate) mod read;
pub(crate) mod segment;

use super::{Keeping, Lack, Reserve};
use crate::chain::Position;
use crate::claimant::Means;
use crate::epoch::{self, Claim};
use crate::journal::Waiting;
use crate::manifest::Tier;
use crate::put::{self, Standing};
use crate::seal::{self, Seal};
use parking_lot::Mutex;
use segment::{Number, OPENING};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Failure, Seq};
use tenure_store::{Bucket, Key, Signal};

/// Groups that may be on their way at once. With one, what arrives right behind a put waits for nearly two; with more, many
/// clients are spread over more and smaller puts. Readers rely on it: a later program may lower it, not raise it.
pub(crate) const SENDS_MAX: usize = 2;
/// How old a proof may be for a look to ask for a newer claim only: looks come once a second.
const FRESH: Duration = Duration::from_secs(1);
/// Times that an opening is sent: whoever takes over waits for it, and can begin again.
const OPENINGS_MAX: usize = 3;
/// How long the journal's thread waits before what failed is tried again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The records of an owner's epoch, in objects.
pub(crate) struct Objects {
    bucket: Arc<dyn Bucket>,
    claim: Claim,
    means: Means,
    line: Mutex<Line>,
}

/// How far segments were formed, sent and found durable.
struct Line {
    /// The last record that was put into a segment.
    at: Position,
    next: Number,
    /// The segments that are not known to be durable with all before them, in order.
    sent: VecDeque<Sent>,
    /// Until when it is certain that nobody had ended the epoch, by the owner's clock.
    proved: Duration,
    /// Which segments begin with which record: those that a manifest may still need.
    firsts: VecDeque<(Seq, Number)>,
}

struct Sent {
    bytes: Arc<Vec<u8>>,
    /// When it was sent for the first time.
    sent: Option<Duration>,
    /// When the put was sent that is known to have found its name free.
    stood: Option<Duration>,
}

impl Objects {
    /// Opens the epoch behind `began`: from then on it has an owner.
    pub(crate) fn open(
        bucket: Arc<dyn Bucket>,
        (claim, means): (Claim, Means),
        began: Position,
    ) -> Result<Self, Failure> {
        let objects = Self {
            bucket,
            claim,
            line: Mutex::new(Line {
                at: began,
                next: OPENING,
                sent: VecDeque::new(),
                proved: means.clock.elapsed(),
                firsts: VecDeque::new(),
            }),
            means,
        };
        let (opening, _) = objects.form(&[]);
        let mut tries = 1;
        loop {
            match objects.send(opening) {
                Err(Failure::Unknown(_) | Failure::DidNotHappen(_)) if tries < OPENINGS_MAX => tries += 1,
                sent => return sent.map(|()| objects),
            }
        }
    }

    fn key(&self, number: Number) -> Key {
        segment::key(&self.claim.drive, self.claim.epoch, number)
    }

    fn is_whole(&self, number: Number, bytes: &[u8]) -> bool {
        segment::parsed((&self.claim.drive, self.claim.epoch, number), bytes).is_ok()
    }

    /// Says that the epoch is over.
    fn fenced(&self, key: &Key) -> Failure {
        let epoch = self.claim.epoch;
        Failure::Fenced(format!("epoch {epoch} has ended: {key} was put by another owner"))
    }

    /// Fails unless nobody has put anything under the name that comes next.
    fn look_at_next_name(&self) -> Result<(), Failure> {
        let number = self.line.lock().first_undurable();
        let key = self.key(number);
        let Some(found) = self.bucket.get(&key)? else {
            return Ok(());
        };
        let is_ours = self.line.lock().is_ours(number, &found);
        if is_ours {
            Ok(())
        } else if self.is_whole(number, &found) {
            Err(self.fenced(&key))
        } else {
            Err(Failure::Unknown(format!("{key} could not be read whole")))
        }
    }
}

impl Keeping for Objects {
    fn kind(&self) -> Tier {
        Tier::Bucket
    }

    fn sends_max(&self) -> usize {
        SENDS_MAX
    }

    /// A bucket has no end that anybody knows.
    fn take_room(&self, _record_len: usize, _reserve: Reserve) -> Result<(), Lack> {
        Ok(())
    }

    fn has_room(&self, _record_len: usize) -> Result<(), Lack> {
        Ok(())
    }

    fn make_room(&self, _record_len: usize, _lack: Lack) -> Result<(), Failure> {
        Ok(())
    }

    fn make_ready(&self, _record_len: usize) -> Result<usize, Failure> {
        Ok(usize::MAX)
    }

    fn form(&self, records: &[Waiting]) -> (u64, Vec<Position>) {
        let mut line = self.line.lock();
        let (number, before) = (line.next, line.at);
        let mut places = Vec::with_capacity(records.len());
        for waiting in records {
            line.at = line.at.after(self.claim.epoch, &waiting.record);
            places.push(line.at);
        }
        let records = records.iter().map(|waiting| waiting.record.as_slice());
        let bytes = segment::bytes(&self.claim, number, (self.means.draw)(), before, records);
        line.next += 1;
        line.sent.push_back(Sent {
            bytes: Arc::new(bytes),
            sent: None,
            stood: None,
        });
        if !places.is_empty() {
            line.firsts.push_back((before.seq.next(), number));
        }
        (number, places)
    }

    fn send(&self, number: u64) -> Result<(), Failure> {
        let now = self.means.clock.elapsed();
        let (bytes, first) = self.line.lock().note_sending(number, now);
        let key = self.key(number);
        let standing = put::settled(&*self.bucket, &key, &bytes, |found| self.is_whole(number, found))?;
        let stood = match standing {
            Standing::Put => now,
            // Which of the sendings has put it there nobody knows.
            Standing::Found => first,
            Standing::Others(_) => return Err(self.fenced(&key)),
        };
        self.line.lock().note_standing(number, stood);
        Ok(())
    }

    fn seal(&self, end: Position) -> Result<(), Failure> {
        let seal = Seal {
            drive: self.claim.drive.clone(),
            epoch: self.claim.epoch,
            end,
            by: self.claim.epoch,
        };
        let number = self.line.lock().next;
        let (key, bytes) = (self.key(number), seal::KIND.wrapped(&seal));
        match put::settled(&*self.bucket, &key, &bytes, |found| self.is_whole(number, found))? {
            Standing::Put | Standing::Found => Ok(()),
            Standing::Others(_) => Err(self.fenced(&key)),
        }
    }

    fn segment_of(&self, seq: Seq) -> u64 {
        let line = self.line.lock();
        let holds = |(first, _): &&(Seq, Number)| *first <= seq.next();
        // Behind the opening comes the first segment with records.
        line.firsts
            .iter()
            .rev()
            .find(holds)
            .map_or(OPENING + 1, |(_, number)| *number)
    }

    fn segments(&self) -> u64 {
        self.line.lock().next
    }

    /// Segments of an owner's own epoch stay: a name that is free again could be taken by a put that comes late.
    fn forget(&self, reached: Seq) -> Result<(), Failure> {
        let mut line = self.line.lock();
        while line.firsts.get(1).is_some_and(|(next, _)| *next <= reached) {
            line.firsts.pop_front();
        }
        Ok(())
    }

    fn ahead_signal(&self) -> Option<&Signal> {
        None
    }

    fn work_ahead(&self) {}

    fn pauses(&self) -> Option<(Duration, Duration)> {
        Some(PAUSES)
    }

    /// An owner that appends has proved itself by that. It still looks for a claim: who claims cannot end an epoch whose next
    /// name is always taken first.
    fn look(&self) -> Result<(), Failure> {
        let now = self.means.clock.elapsed();
        let is_proved = self.proof_age() < FRESH;
        if !is_proved {
            self.look_at_next_name()?;
        }
        let newer = epoch::key(&self.claim.drive, self.claim.epoch.next());
        if self.bucket.size(&newer)?.is_some() {
            return Err(self.fenced(&newer));
        }
        if !is_proved {
            self.line.lock().prove(now);
        }
        Ok(())
    }

    fn proof_age(&self) -> Duration {
        let proved = self.line.lock().proved;
        self.means.clock.elapsed().saturating_sub(proved)
    }
}

impl Line {
    /// Returns the first name that is not known to be taken by a durable segment.
    fn first_undurable(&self) -> Number {
        self.next - self.sent.len() as Number
    }

    fn sent(&mut self, number: Number) -> Option<&mut Sent> {
        let place = number.checked_sub(self.first_undurable())?;
        self.sent.get_mut(usize::try_from(place).ok()?)
    }

    /// Tells whether what was found under a name is this owner's.
    fn is_ours(&mut self, number: Number, found: &[u8]) -> bool {
        let is_durable = number < self.first_undurable();
        is_durable || self.sent(number).is_some_and(|sent| *sent.bytes == found)
    }

    /// Returns a segment's bytes, and when they were sent first.
    fn note_sending(&mut self, number: Number, now: Duration) -> (Arc<Vec<u8>>, Duration) {
        let sent = self.sent(number).expect("a group is sent until it is durable");
        let first = *sent.sent.get_or_insert(now);
        (sent.bytes.clone(), first)
    }

    /// Notes that a segment stands at its name, which was free at the time or later.
    fn note_standing(&mut self, number: Number, stood: Duration) {
        if let Some(sent) = self.sent(number) {
            sent.stood = Some(stood);
        }
        while let Some(stood) = self.sent.front().and_then(|sent| sent.stood) {
            self.sent.pop_front();
            self.prove(stood);
        }
    }

    fn prove(&mut self, since: Duration) {
        self.proved = self.proved.max(since);
    }
}
