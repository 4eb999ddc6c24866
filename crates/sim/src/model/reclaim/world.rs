//! What the world of `reclaim` is made of: two owners, a journal, a reader and a writer.

use super::Step;

/// From this age on a proof counts for nothing: `owner_ttl` of one tick, and the drift of clocks of another.
const PROOF_AGE_MAX: u8 = 2;
/// From this age on a lease is over: `session_ttl` of two ticks, and the drift.
pub(super) const LEASE_AGE_MAX: u8 = 3;

/// What the old owner knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Old {
    pub(super) is_alive: bool,
    /// How long ago its last proof was sent.
    pub(super) proof_age: u8,
    pub(super) value: u8,
    pub(super) has_reader: bool,
    pub(super) has_writer: bool,
}

impl Old {
    /// Whether it may answer, by the slowest clock.
    pub(super) fn may_answer(&self) -> bool {
        self.is_alive && self.proof_age < PROOF_AGE_MAX
    }
}

/// What the new owner knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct New {
    pub(super) serves: bool,
    /// For how long it has waited since the seal.
    pub(super) wait_age: u8,
    pub(super) value: u8,
    pub(super) has_reader: bool,
    pub(super) has_writer: bool,
    /// Whether it does not let the writer hold any more what the journal says.
    pub(super) gave_writer_up: bool,
    /// The witness's note: whether it has acknowledged a change.
    pub(super) has_acknowledged: bool,
}

/// What is durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Journal {
    pub(super) value: u8,
    /// Whether there is a record of the reader's session. The writer's stands in the journal always.
    pub(super) has_reader: bool,
    /// Whether the last record of it says that the writer writes.
    pub(super) has_writer: bool,
}

/// A session that reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    pub(super) is_open: bool,
    pub(super) cached: Option<u8>,
    pub(super) lease_age: u8,
    /// Which owner it listens to: 0 is the old one.
    pub(super) epoch: u8,
}

impl Reader {
    pub(super) fn is_live(&self) -> bool {
        self.lease_age < LEASE_AGE_MAX
    }

    /// Its lease is as old as the owner's proof now; if it was over, nothing is cached any more.
    pub(super) fn renew(&mut self, proof_age: u8) {
        if !self.is_live() {
            self.cached = None;
        }
        self.lease_age = self.lease_age.min(proof_age);
    }
}

/// A session that writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    pub(super) holds: bool,
    pub(super) lease_age: u8,
    pub(super) epoch: u8,
}

impl Writer {
    pub(super) fn is_live(&self) -> bool {
        self.lease_age < LEASE_AGE_MAX
    }

    pub(super) fn renew(&mut self, proof_age: u8) {
        self.lease_age = self.lease_age.min(proof_age);
    }
}

/// The whole world.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) sealed: bool,
    pub(super) old: Old,
    pub(super) new: New,
    pub(super) journal: Journal,
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

impl State {
    pub(super) const FIRST: Self = Self {
        sealed: false,
        old: Old {
            is_alive: true,
            proof_age: 0,
            value: 0,
            has_reader: false,
            has_writer: false,
        },
        new: New {
            serves: false,
            wait_age: 0,
            value: 0,
            has_reader: false,
            has_writer: false,
            gave_writer_up: false,
            has_acknowledged: false,
        },
        journal: Journal {
            value: 0,
            has_reader: false,
            has_writer: false,
        },
        reader: Reader {
            is_open: false,
            cached: None,
            lease_age: 0,
            epoch: 0,
        },
        writer: Writer {
            holds: false,
            lease_age: 0,
            epoch: 0,
        },
    };

    pub(super) fn with(&self, step: Step, does: impl FnOnce(&mut Self)) -> (Step, Self) {
        let mut after = self.clone();
        does(&mut after);
        (step, after)
    }

    pub(super) fn open_reader(&mut self) {
        self.reader.is_open = true;
        self.reader.lease_age = 0;
    }

    pub(super) fn old_lets_read(&mut self) {
        self.old.has_reader = true;
        self.reader.cached = Some(self.old.value);
    }

    pub(super) fn old_lets_write(&mut self) {
        self.old.has_writer = true;
        self.writer.holds = true;
        self.writer.renew(0);
    }

    /// A change is durable at the old owner, which acknowledges it.
    pub(super) fn old_changes(&mut self) {
        self.journal.value += 1;
        self.old.value = self.journal.value;
    }

    /// A change is durable at the new owner, which acknowledges it.
    pub(super) fn new_changes(&mut self) {
        self.journal.value += 1;
        self.new.value = self.journal.value;
        self.new.has_acknowledged = true;
    }

    pub(super) fn one_tick_later(&self) -> Self {
        let mut after = self.clone();
        let tick = |age: &mut u8, most: u8| *age = (*age + 1).min(most);
        if after.old.is_alive {
            tick(&mut after.old.proof_age, PROOF_AGE_MAX);
        }
        if after.sealed {
            tick(&mut after.new.wait_age, LEASE_AGE_MAX);
        }
        tick(&mut after.reader.lease_age, LEASE_AGE_MAX);
        tick(&mut after.writer.lease_age, LEASE_AGE_MAX);
        after
    }
}
