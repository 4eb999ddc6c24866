//! What becomes of each file when two states are merged, and the conflicts that stay in the tree until somebody settles them.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_option, put_varint};
use crate::id::Ino;

/// A place where two states did not fit together: both are kept as far as they can be, until somebody says what is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// How they did not fit.
    pub kind: ConflictKind,
    /// Where it is: names between slashes.
    pub path: Box<[u8]>,
    /// Where the other version is kept, beside it; none where there is none.
    pub beside: Option<Box<[u8]>>,
    /// What the branch had; `Ino(0)` where it had nothing.
    pub ours: Ino,
    /// What the other line had, by its number here; `Ino(0)` where it had nothing.
    pub theirs: Ino,
    /// Where the other line has it, where that is elsewhere: names between slashes.
    pub place: Option<Box<[u8]>>,
    /// The other line's name.
    pub from: String,
}

/// How two states do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both have other contents, and no driver has made one of them.
    Content,
    /// Both have made something of that name.
    Added,
    /// The branch has changed what the other line has removed: it is there.
    RemovedThere,
    /// The other line has changed what the branch has removed: it is there again.
    RemovedHere,
    /// Both have moved it, to different places: it is where the branch has it.
    Moved,
    /// Both have moved directories so that each would be in the other: they are where the branch has them.
    Loop,
    /// Both have other modes, owners, access lists or extended attributes.
    Attributes,
    /// The other line has removed a directory in which the branch has something new: it is there.
    DirectoryRemovedThere,
    /// The other line has something new in a directory that the branch has removed: it is there again.
    DirectoryRemovedHere,
}

/// What has become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOutcome {
    /// Where it is: names between slashes. Of what was removed, where it was.
    pub path: Box<[u8]>,
    /// What has become of it.
    pub what: What,
}

/// What has become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is as the other line has it.
    Taken,
    /// It is gone, as on the other line.
    Removed,
    /// It was changed on both sides, and this has made one of both.
    Merged(String),
    /// It was changed on both sides: a conflict.
    Conflicted(ConflictKind),
}

impl ConflictKind {
    /// Every kind, by its number.
    pub const ALL: [ConflictKind; 9] = [
        ConflictKind::Content,
        ConflictKind::Added,
        ConflictKind::RemovedThere,
        ConflictKind::RemovedHere,
        ConflictKind::Moved,
        ConflictKind::Loop,
        ConflictKind::Attributes,
        ConflictKind::DirectoryRemovedThere,
        ConflictKind::DirectoryRemovedHere,
    ];

    /// Returns a word for it.
    pub fn word(self) -> &'static str {
        match self {
            ConflictKind::Content => "content",
            ConflictKind::Added => "added",
            ConflictKind::RemovedThere => "removed-there",
            ConflictKind::RemovedHere => "removed-here",
            ConflictKind::Moved => "moved",
            ConflictKind::Loop => "loop",
            ConflictKind::Attributes => "attributes",
            ConflictKind::DirectoryRemovedThere => "directory-removed-there",
            ConflictKind::DirectoryRemovedHere => "directory-removed-here",
        }
    }
}

impl Codec for ConflictKind {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = usize::from(input.byte()?);
        let kind = Self::ALL.get(number).copied();
        kind.ok_or(malformed("kind of a conflict"))
    }
}

impl Codec for Conflict {
    fn write(&self, out: &mut Vec<u8>) {
        self.kind.write(out);
        put_bytes(out, &self.path);
        put_option(out, self.beside.as_ref());
        put_varint(out, self.ours.0);
        put_varint(out, self.theirs.0);
        put_option(out, self.place.as_ref());
        put_bytes(out, self.from.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: ConflictKind::read(input)?,
            path: input.bytes()?.into(),
            beside: input.option()?,
            ours: Ino(input.varint()?),
            theirs: Ino(input.varint()?),
            place: input.option()?,
            from: input.text()?.to_owned(),
        })
    }
}

impl Codec for FileOutcome {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.path);
        match &self.what {
            What::Taken => out.push(0),
            What::Removed => out.push(1),
            What::Merged(driver) => {
                out.push(2);
                put_bytes(out, driver.as_bytes());
            }
            What::Conflicted(kind) => {
                out.push(3);
                kind.write(out);
            }
        }
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let path = input.bytes()?.into();
        let what = match input.byte()? {
            0 => What::Taken,
            1 => What::Removed,
            2 => What::Merged(input.text()?.to_owned()),
            3 => What::Conflicted(ConflictKind::read(input)?),
            _ => return Err(malformed("what has become of a file")),
        };
        Ok(Self { path, what })
    }
}
