//! The bytes of ops, and of what is named in them.
//!
//! Invariant: an op's number and the order of its fields never change; a reader takes only what a writer would write.

use super::{NewNode, Op, RenameMode, XattrMode};
use crate::attr::{Kind, MODE_BITS, MODE_KIND};
use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_list, put_option, put_varint};
use crate::id::Ino;
use crate::name::{Name, XattrName};

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
