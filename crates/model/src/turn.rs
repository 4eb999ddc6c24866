//! A turn: a branch becomes another state as a whole, by one record. A merge is one, and so is going back.
//!
//! What it becomes was found before, and its pages are in packs that are sealed. Invariant: a turn names a state and never says how it was
//! found, so reading it again needs neither the states that were merged nor the program that merged them.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_varint};
use crate::extent::Address;
use crate::id::{BranchId, Seq};
use crate::time::Timestamp;

/// A branch becomes another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which branch.
    pub branch: BranchId,
    /// What it is from then on.
    pub to: Root,
    /// How many inode numbers there are in it that were lent to nobody, from the drive's next one on.
    pub inos: u64,
    /// What it is for.
    pub why: Why,
    /// Who did it, in words.
    pub by: String,
    /// When.
    pub time: Timestamp,
}

/// A state of a branch: its root page, and what it holds in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The root page.
    pub page: Address,
    /// Number of inodes.
    pub inodes: u64,
    /// Bytes of files that are not holes.
    pub bytes: u64,
}

/// What a turn is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// What a line was is in the branch from then on, besides what was there.
    Merged {
        /// The line's name.
        from: String,
        /// What it was.
        past: Past,
    },
    /// The branch goes on from what a line was, and what it had been itself since is not in it.
    Undone {
        /// The line's name.
        to: String,
        /// What it was.
        past: Past,
    },
    /// What is at a path is what it was in another state.
    Restored {
        /// The path.
        path: Box<[u8]>,
        /// The state, in words.
        from: String,
    },
    /// What a line that waited for a review has at these paths is accepted into the branch.
    Accepted {
        /// The line's name.
        from: String,
        /// The paths.
        paths: Vec<Box<[u8]>>,
    },
    /// Somebody has said what is to be at a path where a merge had kept two versions.
    Resolved {
        /// The path.
        path: Box<[u8]>,
    },
}

/// A line's history since it began, or since it was put back to an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// The line.
    pub line: BranchId,
    /// The record that has put it back, or 0 when none has.
    pub since: Seq,
}

/// What a stretch was at a place in the drive's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Whose history.
    pub stretch: Stretch,
    /// All that was done to it up to this record is in it.
    pub at: Seq,
    /// What it was.
    pub root: Root,
}

impl Codec for Root {
    fn write(&self, out: &mut Vec<u8>) {
        self.page.write(out);
        put_varint(out, self.inodes);
        put_varint(out, self.bytes);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            page: Address::read(input)?,
            inodes: input.varint()?,
            bytes: input.varint()?,
        })
    }
}

impl Codec for Stretch {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.line.0);
        put_varint(out, self.since.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            line: BranchId(input.varint()?),
            since: Seq(input.varint()?),
        })
    }
}

impl Codec for Past {
    fn write(&self, out: &mut Vec<u8>) {
        self.stretch.write(out);
        put_varint(out, self.at.0);
        self.root.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            stretch: Stretch::read(input)?,
            at: Seq(input.varint()?),
            root: Root::read(input)?,
        })
    }
}

impl Codec for Why {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Why::Merged { from: name, past } => {
                out.push(0);
                put_bytes(out, name.as_bytes());
                past.write(out);
            }
            Why::Undone { to: name, past } => {
                out.push(1);
                put_bytes(out, name.as_bytes());
                past.write(out);
            }
            Why::Restored { path, from } => {
                out.push(2);
                put_bytes(out, path);
                put_bytes(out, from.as_bytes());
            }
            Why::Resolved { path } => {
                out.push(3);
                put_bytes(out, path);
            }
            Why::Accepted { from, paths } => {
                out.push(4);
                put_bytes(out, from.as_bytes());
                put_list(out, paths);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => Why::Merged {
                from: input.text()?.to_owned(),
                past: Past::read(input)?,
            },
            1 => Why::Undone {
                to: input.text()?.to_owned(),
                past: Past::read(input)?,
            },
            2 => Why::Restored {
                path: input.bytes()?.into(),
                from: input.text()?.to_owned(),
            },
            3 => Why::Resolved {
                path: input.bytes()?.into(),
            },
            4 => Why::Accepted {
                from: input.text()?.to_owned(),
                paths: input.list()?,
            },
            _ => return Err(malformed("what a turn is for")),
        })
    }
}

impl Codec for Turn {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.branch.0);
        self.to.write(out);
        put_varint(out, self.inos);
        self.why.write(out);
        put_bytes(out, self.by.as_bytes());
        self.time.write(out);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            branch: BranchId(input.varint()?),
            to: Root::read(input)?,
            inos: input.varint()?,
            why: Why::read(input)?,
            by: input.text()?.to_owned(),
            time: Timestamp::read(input)?,
        })
    }
}
