//! What is accepted and not durable yet: records that wait, and the groups of them that were sent.
//!
//! Invariant: groups and records are in order; a group leaves only as the first one, and durable or for good.

use super::Done;
use super::progress::Waiters;
use crate::chain::Position;
use std::collections::VecDeque;
use tenure_model::{Failure, Seq};

/// Bytes of records in one group: bounds what the first of them waits for.
pub(crate) const GROUP_LEN_MAX: usize = 4 << 20;

/// What is accepted, and how far it is durable.
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    sent: VecDeque<Group>,
    pub(super) last: Seq,
    pub(super) durable: Position,
    /// How many threads commit at the moment.
    pub(super) committers: usize,
    /// Whether one of them runs callbacks.
    telling: bool,
    /// Why nothing succeeds any more.
    pub(super) stopped: Option<Failure>,
    /// Why the last write failed, if it did: what waits is tried again when somebody commits.
    pub(super) failed: Option<Failure>,
    /// Writes that have failed so far.
    pub(super) failures: u64,
    /// Set when nothing more is accepted.
    closed: bool,
    pub(super) waiters: Waiters,
}

/// A record that is in order.
pub(crate) struct Waiting {
    pub(crate) record: Vec<u8>,
    pub(crate) done: Done,
}

/// Records that are sent together.
pub(super) struct Group {
    pub(super) number: u64,
    pub(super) records: Vec<Waiting>,
    pub(super) places: Vec<Position>,
    fate: Fate,
}

/// What became of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Somebody sends it.
    Sending,
    /// It was not made durable, as far as is known: it is sent again.
    Failed,
    Durable,
}

impl Queue {
    pub(super) fn new(at: Position) -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            last: at.seq,
            durable: at,
            committers: 0,
            telling: false,
            stopped: None,
            failed: None,
            failures: 0,
            closed: false,
            waiters: Waiters::default(),
        }
    }

    pub(super) fn check_open(&self) -> Result<(), Failure> {
        match &self.stopped {
            Some(failure) => Err(failure.clone()),
            None if self.closed => Err(closed()),
            None => Ok(()),
        }
    }

    /// Accepts nothing more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Puts a record in order.
    pub(super) fn push(&mut self, waiting: Waiting) -> Seq {
        self.last = self.last.next();
        self.waiting.push_back(waiting);
        self.last
    }

    /// Tells whether there is something to commit, when so many groups may be formed and not durable yet.
    pub(super) fn has_work(&self, sends_max: usize) -> bool {
        let may_form = self.sent.len() < sends_max && !self.waiting.is_empty();
        may_form || self.stopped.is_some() && !self.waiting.is_empty() || self.has_failed_group()
    }

    pub(super) fn has_failed_group(&self) -> bool {
        self.sent.iter().any(|group| group.fate == Fate::Failed)
    }

    /// Returns the length of the record with which the next group begins, when one may be formed.
    pub(super) fn first_len(&self, sends_max: usize) -> Option<usize> {
        let first = self.waiting.front().filter(|_| self.sent.len() < sends_max);
        first.map(|waiting| waiting.record.len())
    }

    /// Takes the records that go together: at least the first one, and no more than `room` bytes with their frames.
    pub(super) fn take_group(&mut self, room: usize, frame_len: usize) -> Vec<Waiting> {
        let room = room.min(GROUP_LEN_MAX);
        let mut sum = 0;
        let mut count = 0;
        for waiting in &self.waiting {
            sum += frame_len + waiting.record.len();
            if count > 0 && sum > room {
                break;
            }
            count += 1;
        }
        self.waiting.drain(..count).collect()
    }

    /// Notes a group that somebody sends now.
    pub(super) fn note_sent(&mut self, number: u64, records: Vec<Waiting>, places: Vec<Position>) {
        self.sent.push_back(Group {
            number,
            records,
            places,
            fate: Fate::Sending,
        });
    }

    /// Takes up the first group that has failed: the caller sends it again.
    pub(super) fn take_up_failed(&mut self) -> Option<u64> {
        let group = self.sent.iter_mut().find(|group| group.fate == Fate::Failed)?;
        group.fate = Fate::Sending;
        Some(group.number)
    }

    /// Notes what became of a group that was sent.
    pub(super) fn note_outcome(&mut self, number: u64, outcome: Result<(), Failure>) {
        let fate = match outcome {
            Ok(()) => Fate::Durable,
            Err(failure) => {
                self.note_failure(failure);
                Fate::Failed
            }
        };
        if let Some(group) = self.sent.iter_mut().find(|group| group.number == number) {
            group.fate = fate;
        }
        if !self.has_failed_group() {
            self.failed = None;
        }
    }

    /// Notes that something could not be written. What cannot ever be stops everything.
    pub(super) fn note_failure(&mut self, failure: Failure) {
        self.failures += 1;
        if matches!(failure, Failure::Fenced(_)) {
            self.stop(failure.clone());
        }
        self.failed = Some(failure);
    }

    /// Lets nothing succeed any more.
    pub(super) fn stop(&mut self, failure: Failure) {
        self.stopped.get_or_insert(failure);
    }

    /// Takes the first group if it is durable, to be told by the caller until `end_telling`; none while another tells.
    pub(super) fn begin_telling(&mut self) -> Option<Group> {
        if self.telling || self.stopped.is_some() {
            return None;
        }
        let is_durable = self.sent.front().is_some_and(|group| group.fate == Fate::Durable);
        let group = if is_durable { self.sent.pop_front() } else { None };
        self.telling = group.is_some();
        group
    }

    pub(super) fn end_telling(&mut self) {
        self.telling = false;
    }

    /// Takes everything that nobody was told of and nobody sends.
    pub(super) fn take_untold(&mut self) -> Vec<Waiting> {
        let (sending, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|group| group.fate == Fate::Sending);
        self.sent = sending;
        let groups = others.into_iter().flat_map(|group| group.records);
        groups.chain(std::mem::take(&mut self.waiting)).collect()
    }
}

pub(crate) fn closed() -> Failure {
    Failure::DidNotHappen("the journal was closed".to_owned())
}
