//! A machine in the world of `recall`: its kernel and its daemon.

use super::owner::SESSION_TTL_MAX;

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Hold {
    None,
    Read,
    Write,
}

/// What has become of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Absent,
    Active,
    /// Its session was ended, and it knows. It answers nothing.
    Stray,
}

/// How far a daemon is on the way to giving its grant back.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Leaving {
    No,
    /// The kernel drops what it has cached; `answered` says whether it got an answer meanwhile.
    Sweeping {
        answered: bool,
    },
    Swept,
}

/// What the kernel knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kernel {
    /// The version that it answers from.
    pub(super) cached: Option<u8>,
    /// Whether a program stored into the cached version through a mapping, which the daemon has not heard of.
    pub(super) is_dirty: bool,
    /// Whether it has asked the daemon, and keeps a lock meanwhile.
    pub(super) asks: bool,
    /// The answer that is under way to it.
    pub(super) answer: Option<u8>,
}

pub(super) const FORGETFUL: Kernel = Kernel {
    cached: None,
    is_dirty: false,
    asks: false,
    answer: None,
};

/// A machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) phase: Phase,
    pub(super) holds: Hold,
    /// The number of the grant that it holds.
    pub(super) held: u8,
    /// The highest number of a grant that it held or gave back.
    pub(super) number: u8,
    pub(super) leaving: Leaving,
    /// The owner's version that its own builds on.
    pub(super) base: u8,
    /// Its own version.
    pub(super) local: u8,
    /// Whether its own version was not shipped.
    pub(super) has_log: bool,
    /// The batch, by its version, that was shipped and not answered yet.
    pub(super) sent: Option<u8>,
    /// The last batch that was answered.
    pub(super) shipped: u8,
    /// The number of the grant that it gives back, until that is answered.
    pub(super) returning: Option<u8>,
    pub(super) kernel: Kernel,
    /// How long ago its last renewal was sent.
    pub(super) lease_age: u8,
    pub(super) is_paused: bool,
    /// Whether it runs again and its daemon has not looked at the clock yet.
    pub(super) has_not_looked: bool,
    /// The witness's note: whether its lease was over once.
    pub(super) has_lapsed: bool,
}

impl Machine {
    pub(super) const NEW: Self = Self {
        phase: Phase::Active,
        holds: Hold::None,
        held: 0,
        number: 0,
        leaving: Leaving::No,
        base: 0,
        local: 0,
        has_log: false,
        sent: None,
        shipped: 0,
        returning: None,
        kernel: FORGETFUL,
        lease_age: 0,
        is_paused: false,
        has_not_looked: false,
        has_lapsed: false,
    };
    pub(super) const ABSENT: Self = Self {
        phase: Phase::Absent,
        ..Self::NEW
    };

    /// Whether it may act on what it holds, by the slowest clock.
    pub(super) fn is_live(&self) -> bool {
        self.lease_age < SESSION_TTL_MAX
    }

    pub(super) fn may_read(&self) -> bool {
        self.holds >= Hold::Read && self.is_live()
    }

    pub(super) fn may_write(&self) -> bool {
        self.holds == Hold::Write && self.is_live()
    }

    /// Takes a grant that shows `version`.
    pub(super) fn take(&mut self, number: u8, hold: Hold, version: u8) {
        (self.number, self.held, self.holds) = (number, number, hold);
        (self.base, self.local) = (version, version);
        self.leaving = Leaving::No;
    }

    /// A program's write, which the kernel hands to the daemon and keeps in its cache.
    pub(super) fn write(&mut self, version: u8) {
        self.kernel_write_back();
        (self.local, self.has_log) = (version, true);
        let kernel = &mut self.kernel;
        kernel.cached = kernel.cached.map(|_| version);
        kernel.answer = kernel.answer.map(|_| version);
    }

    /// A program's store through a mapping.
    pub(super) fn store(&mut self, version: u8) {
        self.kernel.cached = Some(version);
        self.kernel.is_dirty = true;
    }

    fn kernel_write_back(&mut self) {
        if std::mem::take(&mut self.kernel.is_dirty) {
            self.local = self.kernel.cached.expect("only a cached version is dirty");
            self.has_log = true;
        }
    }

    pub(super) fn prepare(&mut self) {
        self.kernel.answer = Some(self.local);
    }

    pub(super) fn deliver(&mut self) {
        self.kernel.cached = self.kernel.answer.take();
        self.kernel.asks = false;
        if self.leaving != Leaving::No {
            self.leaving = Leaving::Sweeping { answered: true };
        }
    }

    /// The kernel begins to drop what it has cached, and writes back what was stored through mappings.
    pub(super) fn sweep(&mut self) {
        self.kernel_write_back();
        self.kernel.cached = None;
        self.leaving = Leaving::Sweeping { answered: false };
    }

    /// It ships what it has; the sent batch stays its own until it is answered.
    pub(super) fn ship(&mut self) {
        self.sent = Some(self.local);
        self.has_log = false;
    }

    /// The owner has accepted the batch under way.
    pub(super) fn hear_of_batch(&mut self, version: u8) {
        self.sent = None;
        (self.base, self.shipped) = (version, version);
    }

    pub(super) fn give_back(&mut self) {
        self.returning = Some(self.number);
        (self.holds, self.leaving) = (Hold::None, Leaving::No);
    }

    /// It sees by its clock whether its lease is over.
    pub(super) fn look_at_clock(&mut self) {
        self.has_not_looked = false;
        self.drop_when_over();
    }

    /// When the lease is over, the kernel's answers and a read grant are gone. Waiting requests were answered before.
    pub(super) fn drop_when_over(&mut self) {
        if self.is_live() {
            return;
        }
        self.has_lapsed = true;
        self.kernel_write_back();
        self.kernel = FORGETFUL;
        if self.holds == Hold::Read {
            self.let_go();
        }
    }

    /// A read grant is gone. If it was on the way back, that is said nevertheless.
    fn let_go(&mut self) {
        self.kernel = FORGETFUL;
        if self.leaving != Leaving::No {
            self.returning = Some(self.number);
        }
        (self.holds, self.leaving) = (Hold::None, Leaving::No);
    }

    /// The owner says that it took the read grants up to a number.
    pub(super) fn lose_reads(&mut self, number: u8) {
        if self.holds == Hold::Read && self.held <= number {
            self.let_go();
        }
        self.number = self.number.max(number);
    }

    /// It is told that its session was ended: it answers nothing, and what it had not shipped is kept.
    pub(super) fn become_stray(&mut self) {
        self.kernel_write_back();
        *self = Self {
            phase: Phase::Stray,
            has_log: self.has_log || self.sent.is_some(),
            ..Self::NEW
        };
    }
}
