//! The names of objects: what a key may be, and how numbers stand in one.
//!
//! Invariant: a `Key` is a relative path of plain components, so that it can neither leave a folder nor
//! collide with a file that a folder bucket keeps for itself (those begin with a dot).

use std::fmt;
use tenure_model::DriveName;

/// Bytes in a key: S3 allows 1,024, and a bucket may sit under a prefix.
pub const KEY_LEN_MAX: usize = 512;
/// Bytes in one component of a key: file systems allow 255.
pub const COMPONENT_LEN_MAX: usize = 200;

/// The name of an object: components of letters, digits, `.`, `_` and `-`, divided by `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// Returns the key, or a sentence that says why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > KEY_LEN_MAX {
            return Err(format!("the key is longer than {KEY_LEN_MAX} bytes"));
        }
        match text.split('/').find(|part| !valid_component(part)) {
            None => Ok(Self(text.into())),
            Some(part) => Err(format!("{text:?} is not a key: {part:?} may not stand in one")),
        }
    }

    /// Returns the key of something that belongs to a drive: `drives/<drive>/<part>/<part>...`.
    ///
    /// The parts are valid components, as a caller that writes them knows.
    pub fn in_drive(drive: &DriveName, parts: &[&str]) -> Self {
        let mut text = format!("drives/{drive}");
        for part in parts {
            text.push('/');
            text.push_str(part);
        }
        Self::parse(&text).expect("a drive's name and literal parts make a key")
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().expect("a key has a component")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn valid_component(part: &str) -> bool {
    part.len() <= COMPONENT_LEN_MAX
        && part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Returns a number as it stands in keys: 20 decimal digits, so that byte order is number order.
pub fn number_text(number: u64) -> String {
    format!("{number:020}")
}

/// Returns the number that a component is, if it is one as [`number_text`] writes it.
pub fn parse_number(text: &str) -> Option<u64> {
    let plain = text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
