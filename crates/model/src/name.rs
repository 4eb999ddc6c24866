//! Names that can only be valid: each comes from its `parse`, and nowhere else.

use crate::codec::{Codec, Malformed, Reader, malformed, put_bytes};
use crate::error::Refusal;
use crate::limits::{KEY_LEN_MAX, NAME_LEN_MAX, REF_LEN_MAX, XATTR_NAME_LEN_MAX};
use std::fmt;

/// A directory entry's name: 1 to 255 bytes, any but `/` and NUL, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Returns the name, or why it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > NAME_LEN_MAX {
            return Err(Refusal::NameTooLong);
        }
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|b| matches!(b, b'/' | 0))
        {
            return Err(Refusal::InvalidName);
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// An extended attribute's full name, such as `user.comment`: 1 to 255 bytes without NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct XattrName(Box<[u8]>);

impl XattrName {
    /// Returns the name, or why it is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(Refusal::InvalidArgument);
        }
        if bytes.len() > XATTR_NAME_LEN_MAX {
            return Err(Refusal::Range);
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns the name, or a sentence that says why it is none.
            pub fn parse(text: &str) -> Result<Self, String> {
                valid_reference(text).map(|()| Self(text.to_owned())).map_err(|why| {
                    format!("{text:?} is not a name for a {}: {why}", $what)
                })
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

reference! {
    /// A drive's name, part of its objects' keys.
    DriveName, "drive"
}
reference! {
    /// A branch's name within its drive.
    BranchName, "branch"
}
reference! {
    /// A checkpoint's name within its drive.
    CheckpointName, "checkpoint"
}

fn valid_reference(text: &str) -> Result<(), &'static str> {
    let first = text.chars().next().ok_or("it is empty")?;
    if text.len() > REF_LEN_MAX {
        return Err("it is longer than 100 characters");
    }
    if !first.is_ascii_alphanumeric() {
        return Err("it must begin with a letter or a digit");
    }
    if !text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    {
        return Err("only letters, digits, '.', '_' and '-' may stand in it");
    }
    Ok(())
}

/// A word by which a request is known, of who asks: the same request with the same word is done once. 1 to 200 bytes of printable
/// ASCII without blanks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey(String);

impl RequestKey {
    /// Returns the key, or a sentence that says why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || text.len() > KEY_LEN_MAX || !is_printable {
            return Err(format!(
                "{text:?} is no key of a request: it has 1 to {KEY_LEN_MAX} printable characters (ASCII) and no blanks"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Codec for RequestKey {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.0.as_bytes());
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::parse(input.text()?).map_err(|_| malformed("key of a request"))
    }
}

/// Returns the bytes of a name as they may stand in a line that a person reads: what is no text, or would do something to a
/// terminal, by escapes, so that no two names look the same.
pub fn shown(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    }
    shown
}

/// What a person names: a drive, and a branch or checkpoint of it (`drive`, `drive@branch`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The drive.
    pub drive: DriveName,
    /// What stands behind `@`, a branch or a checkpoint.
    pub at: Option<String>,
}

impl Ref {
    /// Returns the reference that `text` writes as `DRIVE[@BRANCH]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('@') {
            None => Ok(Self {
                drive: DriveName::parse(text)?,
                at: None,
            }),
            Some((drive, at)) => Ok(Self {
                drive: DriveName::parse(drive)?,
                at: Some(BranchName::parse(at)?.as_str().to_owned()),
            }),
        }
    }
}
