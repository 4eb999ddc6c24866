//! How values become bytes: LEB128 varints, length-prefixed byte strings, fixed digests.
//!
//! Invariant: `T::read(T::written(x)) == x`; a value has one writing, so what a reader takes is what would be written;
//! and no input makes a reader panic or allocate more than the input is worth.

use crate::id::Digest;
use thiserror::Error;

/// Why bytes are not a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed {what}")]
pub struct Malformed {
    /// The kind of value that was expected.
    pub what: &'static str,
}

/// Returns an error that names `what` was expected.
pub const fn malformed(what: &'static str) -> Malformed {
    Malformed { what }
}

/// A value with bytes of its own.
pub trait Codec: Sized {
    /// Appends the value's bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads one value from the front.
    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// Returns the value's bytes.
    fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Returns the value that is all of `bytes`.
    fn parsed(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let value = Self::read(&mut input)?;
        input.end()?;
        Ok(value)
    }
}

impl Codec for Box<[u8]> {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(input.bytes()?.into())
    }
}

/// Appends `value` as a LEB128 varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` with its sign folded into the lowest bit.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ (value >> 63)) as u64);
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a count and the values.
pub fn put_list<T: Codec>(out: &mut Vec<u8>, list: &[T]) {
    put_varint(out, list.len() as u64);
    list.iter().for_each(|value| value.write(out));
}

/// Appends a presence byte and the value.
pub fn put_option<T: Codec>(out: &mut Vec<u8>, value: Option<&T>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        value.write(out);
    }
}

/// What is left of some bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Tells whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many bytes are left.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Refuses bytes that are left over.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(malformed("end of value"))
        }
    }

    /// Takes `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.0.split_at_checked(len).ok_or(malformed("bytes"))?;
        self.0 = rest;
        Ok(front)
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Takes a varint; refuses one that is longer than it need be.
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 || shift > 0 && byte == 0 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("varint"))
    }

    /// Takes a varint that must fit `T`.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.varint()?).map_err(|_| malformed("number"))
    }

    /// Takes a signed varint.
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Takes a length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.number()?;
        self.take(len)
    }

    /// Takes length-prefixed UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("text"))
    }

    /// Takes a byte that says yes or no.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("flag")),
        }
    }

    /// Takes a digest.
    pub fn digest(&mut self) -> Result<Digest, Malformed> {
        Ok(Digest(self.take(32)?.try_into().expect("32 bytes were taken")))
    }

    /// Takes a count and as many values.
    pub fn list<T: Codec>(&mut self) -> Result<Vec<T>, Malformed> {
        let count: usize = self.number()?;
        // Every value is at least one byte, so a count beyond what is left is a lie.
        if count > self.0.len() {
            return Err(malformed("list"));
        }
        (0..count).map(|_| T::read(self)).collect()
    }

    /// Takes a presence byte and a value.
    pub fn option<T: Codec>(&mut self) -> Result<Option<T>, Malformed> {
        if self.flag()? {
            T::read(self).map(Some)
        } else {
            Ok(None)
        }
    }
}
