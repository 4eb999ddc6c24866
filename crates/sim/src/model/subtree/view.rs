//! The tree in the world of `subtree`, what ops make of it, and what a session knows.

/// What a session holds of a directory, or may do with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Hold {
    None,
    Read,
    Write,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Change,
    /// Into this directory, from the other.
    Rename(usize),
    /// Into this directory also.
    Link(usize),
    /// From this directory, if the other has it as well.
    Unlink(usize),
}

impl Op {
    pub(super) const ALL: [Self; 7] = [
        Self::Change,
        Self::Rename(0),
        Self::Rename(1),
        Self::Link(0),
        Self::Link(1),
        Self::Unlink(0),
        Self::Unlink(1),
    ];

    /// Whether it changes the entries of a directory. It changes the file always.
    pub(super) fn changes(self, dir: usize) -> bool {
        match self {
            Self::Change => false,
            Self::Rename(_) => true,
            Self::Link(at) | Self::Unlink(at) => at == dir,
        }
    }

    pub(super) fn moves_to(self) -> Option<usize> {
        match self {
            Self::Rename(to) => Some(to),
            Self::Change | Self::Link(_) | Self::Unlink(_) => None,
        }
    }
}

/// Which directories have a link to the file, and the file's version.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    pub(super) links: [bool; 2],
    pub(super) version: u8,
}

impl Tree {
    pub(super) const FIRST: Self = Self {
        links: [true, false],
        version: 0,
    };

    /// Returns what an op makes of it, if the rules allow that.
    pub(super) fn after(mut self, op: Op) -> Option<Self> {
        let is_allowed = match op {
            Op::Change => true,
            Op::Rename(to) | Op::Link(to) => !self.links[to] && self.links[1 - to],
            Op::Unlink(_) => self.links == [true; 2],
        };
        match op {
            Op::Change => {}
            Op::Rename(to) => {
                self.links[to] = true;
                self.links[1 - to] = false;
            }
            Op::Link(to) => self.links[to] = true,
            Op::Unlink(from) => self.links[from] = false,
        }
        self.version += 1;
        is_allowed.then_some(self)
    }
}

/// What a session holds and knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Session {
    pub(super) holds: [Hold; 2],
    /// Its copy of what it holds; what it does not hold is not to be relied on.
    pub(super) copy: Tree,
    /// Whether the file was not covered when a directory of it was granted, or was taken out since.
    pub(super) is_out: bool,
    /// Names that it remembers to be absent without a grant.
    pub(super) absent: [bool; 2],
}

impl Session {
    pub(super) const NEW: Self = Self {
        holds: [Hold::None; 2],
        copy: NOTHING,
        is_out: true,
        absent: [false; 2],
    };

    /// Takes over what the owner shows of a directory that is granted now, and of the file if it is covered now.
    pub(super) fn copy_granted(&mut self, dir: usize, owner: Tree) {
        self.copy.links[dir] = owner.links[dir];
        if !owner.links[dir] {
            return;
        }
        self.is_out = !self.holds_all(owner.links);
        if !self.is_out {
            self.copy = owner;
        }
    }

    fn holds_all(&self, links: [bool; 2]) -> bool {
        (0..2).all(|dir| !links[dir] || self.holds[dir] != Hold::None)
    }

    /// Learns what its own op at the owner has led to.
    pub(super) fn learn(&mut self, owner: Tree, covers: bool) {
        self.absent = [false; 2];
        for dir in 0..2 {
            if self.holds[dir] != Hold::None || covers {
                self.copy.links[dir] = owner.links[dir];
            }
        }
        if covers {
            self.copy.version = owner.version;
        } else {
            self.is_out = true;
        }
        self.settle();
    }

    /// What is not covered any more stays out, and what a session does not hold it does not tell apart.
    pub(super) fn settle(&mut self) {
        self.is_out |= !self.holds_all(self.copy.links);
        if self.holds == [Hold::None; 2] {
            *self = Self {
                absent: self.absent,
                ..Self::NEW
            };
        }
    }
}

const NOTHING: Tree = Tree {
    links: [false; 2],
    version: 0,
};
