//! Numbers with a meaning. Each is its own type so that no two can be swapped; none is ever reused.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the number after this one.
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// An inode number: the same across forks, mounts and machines.
    Ino
}
number! {
    /// The term of a drive's owner; a lower one is fenced.
    Epoch
}
number! {
    /// A record's place in the order of a drive.
    Seq
}
number! {
    /// A client's identity at a server.
    SessionId
}
number! {
    /// A branch for ever, also after it is renamed or deleted.
    BranchId
}
number! {
    /// A pack of one drive.
    PackNumber
}

impl Ino {
    /// The root directory of every branch.
    pub const ROOT: Ino = Ino(1);
}

/// Inode numbers lent to a session: `next..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InoRange {
    /// The next number to give out.
    pub next: Ino,
    /// The first number that is not lent.
    pub end: Ino,
}

impl InoRange {
    /// Takes the next number, or none when the range is used up.
    pub fn take(&mut self) -> Option<Ino> {
        let ino = self.next;
        (ino < self.end).then(|| {
            self.next = ino.next();
            ino
        })
    }

    /// Tells whether `ino` lies in what was lent.
    pub fn contains(&self, ino: Ino) -> bool {
        (self.next..self.end).contains(&ino)
    }
}

/// The BLAKE3 hash of some bytes, which is their name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
