//! What may be asked of a branch. An op carries everything that is not in the tree: time, inode numbers, contents' addresses.

use crate::attr::{AttrChange, Kind, MODE_BITS, MODE_KIND};
use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use crate::extent::Piece;
use crate::id::Ino;
use crate::name::{Name, XattrName};
use crate::time::Timestamp;

/// A change of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes an inode and an entry for it.
    Create {
        /// The directory that gets the entry.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// The number of the new inode.
        ino: Ino,
        /// What it is.
        node: NewNode,
        /// When.
        time: Timestamp,
    },
    /// Makes a regular file without an entry, as if in `parent` (`O_TMPFILE`).
    CreateUnnamed {
        /// The directory whose set-group-id and default ACL apply.
        parent: Ino,
        /// The number of the new inode.
        ino: Ino,
        /// What it is.
        node: NewNode,
        /// When.
        time: Timestamp,
    },
    /// Makes another entry for an inode that is no directory.
    Link {
        /// The inode.
        ino: Ino,
        /// The directory that gets the entry.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Removes an entry that names no directory. An inode without entries stays until it is dropped.
    Unlink {
        /// The directory.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Removes an empty directory.
    Rmdir {
        /// The directory that holds it.
        parent: Ino,
        /// The entry's name.
        name: Name,
        /// When.
        time: Timestamp,
    },
    /// Moves an entry, atomically.
    Rename {
        /// The directory that holds it.
        from: Ino,
        /// Its name there.
        name: Name,
        /// The directory that gets it.
        to: Ino,
        /// Its name there.
        new_name: Name,
        /// What happens to an entry that is there already.
        mode: RenameMode,
        /// When.
        time: Timestamp,
    },
    /// Changes attributes.
    SetAttr {
        /// The inode.
        ino: Ino,
        /// What changes.
        change: AttrChange,
        /// When: the new change time, and the modification time of a cut.
        time: Timestamp,
    },
    /// Puts contents into a file.
    Write {
        /// The file.
        ino: Ino,
        /// Where what goes, in rising order and without overlap.
        pieces: Vec<Piece>,
        /// The size that the file has at least from then on.
        size: u64,
        /// When; none where a later `SetAttr` has said it already.
        time: Option<Timestamp>,
    },
    /// Makes a hole (`FALLOC_FL_PUNCH_HOLE`); the size stays.
    Punch {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Takes a range out and moves what is behind it down (`FALLOC_FL_COLLAPSE_RANGE`).
    Collapse {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Moves what is behind `offset` up and leaves a hole (`FALLOC_FL_INSERT_RANGE`).
    Insert {
        /// The file.
        ino: Ino,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Copies a range by sharing its chunks (`copy_file_range`).
    Copy {
        /// The file that is read.
        from: Ino,
        /// First byte there.
        from_offset: u64,
        /// The file that is written.
        to: Ino,
        /// First byte there.
        to_offset: u64,
        /// Number of bytes.
        len: u64,
        /// When.
        time: Timestamp,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// The inode.
        ino: Ino,
        /// The attribute's full name.
        name: XattrName,
        /// Its value.
        value: Box<[u8]>,
        /// Whether it may, must or must not be there.
        mode: XattrMode,
        /// When.
        time: Timestamp,
    },
    /// Removes an extended attribute.
    RemoveXattr {
        /// The inode.
        ino: Ino,
        /// The attribute's full name.
        name: XattrName,
        /// When.
        time: Timestamp,
    },
    /// Forgets an inode that has no entry and that nobody has open any more.
    Drop {
        /// The inode.
        ino: Ino,
    },
}

/// What a new inode is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its kind.
    pub kind: Kind,
    /// Permission, set-id and sticky bits as asked.
    pub mode: u32,
    /// Bits of `mode` that are taken away unless the directory has a default ACL (umask(2)).
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory's set-group-id bit says otherwise.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Target of a symlink, else empty.
    pub target: Box<[u8]>,
}

/// What a rename does with what is at its goal (rename(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// An entry that is there is replaced.
    Replace,
    /// An entry that is there is a refusal.
    NoReplace,
    /// The two entries change places.
    Exchange,
    /// As `Replace`, and a whiteout (character device 0:0) with this number takes the old place.
    Whiteout(Ino),
}

/// Whether an extended attribute may be there before it is set (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either way.
    Set,
    /// It must not be there.
    Create,
    /// It must be there.
    Replace,
}

impl Codec for Ino {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        input.varint().map(Ino)
    }
}

impl Codec for Name {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Name::parse(input.bytes()?).map_err(|_| malformed("name"))
    }
}

impl Codec for XattrName {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        XattrName::parse(input.bytes()?).map_err(|_| malformed("attribute name"))
    }
}

impl Codec for NewNode {
    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.kind as u32 | self.mode & MODE_BITS));
        for number in [self.umask, self.uid, self.gid, self.rdev] {
            put_varint(out, u64::from(number));
        }
        put_bytes(out, &self.target);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let st_mode: u32 = input.number()?;
        if st_mode & !(MODE_KIND | MODE_BITS) != 0 {
            return Err(malformed("mode"));
        }
        Ok(Self {
            kind: Kind::of(st_mode).ok_or(malformed("mode"))?,
            mode: st_mode & MODE_BITS,
            umask: input.number()?,
            uid: input.number()?,
            gid: input.number()?,
            rdev: input.number()?,
            target: input.bytes()?.into(),
        })
    }
}

impl Codec for RenameMode {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            RenameMode::Replace => out.push(0),
            RenameMode::NoReplace => out.push(1),
            RenameMode::Exchange => out.push(2),
            RenameMode::Whiteout(ino) => {
                out.push(3);
                ino.write(out);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => RenameMode::Replace,
            1 => RenameMode::NoReplace,
            2 => RenameMode::Exchange,
            3 => RenameMode::Whiteout(Ino::read(input)?),
            _ => return Err(malformed("rename mode")),
        })
    }
}

impl Codec for XattrMode {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            XattrMode::Set => 0,
            XattrMode::Create => 1,
            XattrMode::Replace => 2,
        });
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match input.byte()? {
            0 => XattrMode::Set,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(malformed("attribute mode")),
        })
    }
}

impl Codec for Op {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Op::Create {
                parent,
                name,
                ino,
                node,
                time,
            } => {
                put(out, 1, (parent, name, ino));
                (node, time).write(out);
            }
            Op::CreateUnnamed {
                parent,
                ino,
                node,
                time,
            } => put(out, 2, (parent, ino, (node, time))),
            Op::Link {
                ino,
                parent,
                name,
                time,
            } => put(out, 3, (ino, parent, (name, time))),
            Op::Unlink { parent, name, time } => put(out, 4, (parent, name, time)),
            Op::Rmdir { parent, name, time } => put(out, 5, (parent, name, time)),
            Op::Rename {
                from,
                name,
                to,
                new_name,
                mode,
                time,
            } => {
                put(out, 6, (from, name, to));
                (new_name, mode, time).write(out);
            }
            Op::SetAttr { ino, change, time } => put(out, 7, (ino, change, time)),
            Op::Write {
                ino,
                pieces,
                size,
                time,
            } => {
                put(out, 8, (ino, size));
                put_option(out, time.as_ref());
                put_list(out, pieces);
            }
            Op::Punch {
                ino,
                offset,
                len,
                time,
            } => put(out, 9, (ino, offset, (len, time))),
            Op::Collapse {
                ino,
                offset,
                len,
                time,
            } => put(out, 10, (ino, offset, (len, time))),
            Op::Insert {
                ino,
                offset,
                len,
                time,
            } => put(out, 11, (ino, offset, (len, time))),
            Op::Copy {
                from,
                from_offset,
                to,
                to_offset,
                len,
                time,
            } => {
                put(out, 12, (from, from_offset, to));
                (to_offset, len, time).write(out);
            }
            Op::SetXattr {
                ino,
                name,
                value,
                mode,
                time,
            } => {
                put(out, 13, (ino, name, (mode, time)));
                put_bytes(out, value);
            }
            Op::RemoveXattr { ino, name, time } => put(out, 14, (ino, name, time)),
            Op::Drop { ino } => put(out, 15, (ino,)),
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.byte()? {
            tag @ 1..=6 => read_entry_op(tag, input),
            tag @ 7..=12 => read_content_op(tag, input),
            13 => {
                let (ino, name, (mode, time)) = (get(input)?, get(input)?, (get(input)?, get(input)?));
                Ok(Op::SetXattr {
                    ino,
                    name,
                    value: input.bytes()?.into(),
                    mode,
                    time,
                })
            }
            14 => Ok(Op::RemoveXattr {
                ino: get(input)?,
                name: get(input)?,
                time: get(input)?,
            }),
            15 => Ok(Op::Drop { ino: get(input)? }),
            _ => Err(malformed("op")),
        }
    }
}

fn read_entry_op(tag: u8, input: &mut Reader<'_>) -> Result<Op, Malformed> {
    Ok(match tag {
        1 => Op::Create {
            parent: get(input)?,
            name: get(input)?,
            ino: get(input)?,
            node: get(input)?,
            time: get(input)?,
        },
        2 => Op::CreateUnnamed {
            parent: get(input)?,
            ino: get(input)?,
            node: get(input)?,
            time: get(input)?,
        },
        3 => Op::Link {
            ino: get(input)?,
            parent: get(input)?,
            name: get(input)?,
            time: get(input)?,
        },
        4 => Op::Unlink {
            parent: get(input)?,
            name: get(input)?,
            time: get(input)?,
        },
        5 => Op::Rmdir {
            parent: get(input)?,
            name: get(input)?,
            time: get(input)?,
        },
        _ => Op::Rename {
            from: get(input)?,
            name: get(input)?,
            to: get(input)?,
            new_name: get(input)?,
            mode: get(input)?,
            time: get(input)?,
        },
    })
}

fn read_content_op(tag: u8, input: &mut Reader<'_>) -> Result<Op, Malformed> {
    let ino = get(input)?;
    Ok(match tag {
        7 => Op::SetAttr {
            ino,
            change: get(input)?,
            time: get(input)?,
        },
        8 => {
            let (size, time) = (get(input)?, input.option()?);
            Op::Write {
                ino,
                pieces: input.list()?,
                size,
                time,
            }
        }
        9 => Op::Punch {
            ino,
            offset: get(input)?,
            len: get(input)?,
            time: get(input)?,
        },
        10 => Op::Collapse {
            ino,
            offset: get(input)?,
            len: get(input)?,
            time: get(input)?,
        },
        11 => Op::Insert {
            ino,
            offset: get(input)?,
            len: get(input)?,
            time: get(input)?,
        },
        _ => Op::Copy {
            from: ino,
            from_offset: get(input)?,
            to: get(input)?,
            to_offset: get(input)?,
            len: get(input)?,
            time: get(input)?,
        },
    })
}

/// Values that are written one behind the other.
trait Fields {
    fn write(&self, out: &mut Vec<u8>);
}

impl<T: Codec> Fields for &T {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }
}

impl<A: Fields> Fields for (A,) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

impl<A: Fields, B: Fields> Fields for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
}

impl<A: Fields, B: Fields, C: Fields> Fields for (A, B, C) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }
}

fn put(out: &mut Vec<u8>, tag: u8, fields: impl Fields) {
    out.push(tag);
    fields.write(out);
}

fn get<T: Codec>(input: &mut Reader<'_>) -> Result<T, Malformed> {
    T::read(input)
}
