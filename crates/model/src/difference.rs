//! What differs between two states of a drive's files, said by paths.

use crate::attr::Attr;
use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_option};
use crate::id::Ino;

/// Something that one state has and the other has not, or has elsewhere or otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where it is after, or where it was when it is nowhere then: names between slashes; nothing for the root directory.
    pub path: Box<[u8]>,
    /// Where it was before, if elsewhere.
    pub moved_from: Option<Box<[u8]>>,
    /// What was there before.
    pub before: Option<Side>,
    /// What is there after. Where a program has put a new file in the place of an old one it is another inode than before.
    pub after: Option<Side>,
    /// Whether the bytes of both sides differ, their targets or what kind they are of; so it is told also where other bytes were
    /// put that are equal.
    pub content_differs: bool,
    /// Whether the extended attributes of both sides differ.
    pub xattrs_differ: bool,
}

/// An inode as one of two states has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its number.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Attr,
    /// Where a symlink leads; empty for everything else.
    pub target: Box<[u8]>,
}

const CONTENT: u8 = 1;
const XATTRS: u8 = 2;

impl Codec for Difference {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.path);
        put_option(out, self.moved_from.as_ref());
        put_option(out, self.before.as_ref());
        put_option(out, self.after.as_ref());
        let content = if self.content_differs { CONTENT } else { 0 };
        let xattrs = if self.xattrs_differ { XATTRS } else { 0 };
        out.push(content | xattrs);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let path = input.bytes()?.into();
        let moved_from = input.option()?;
        let (before, after) = (input.option()?, input.option()?);
        let flags = input.byte()?;
        if before.is_none() && after.is_none() || flags & !(CONTENT | XATTRS) != 0 {
            return Err(malformed("difference"));
        }
        Ok(Self {
            path,
            moved_from,
            before,
            after,
            content_differs: flags & CONTENT != 0,
            xattrs_differ: flags & XATTRS != 0,
        })
    }
}

impl Codec for Side {
    fn write(&self, out: &mut Vec<u8>) {
        self.ino.0.write(out);
        self.attr.write(out);
        put_bytes(out, &self.target);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            ino: Ino(input.varint()?),
            attr: Attr::read(input)?,
            target: input.bytes()?.into(),
        })
    }
}
