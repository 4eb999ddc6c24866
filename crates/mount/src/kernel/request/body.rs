//! The bytes of one message, taken from the front piece by piece.
//!
//! Knows sizes and NULs, not what a message says. Invariant: whatever is shorter than what is taken from it is an errno.

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::kernel::abi;
use crate::kernel::payload::{Payload, Source};

pub(super) type Parsed<T> = Result<T, Errno>;

/// The parts of a request after its header: in one piece as `/dev/fuse` gives them, or with the fixed part apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Body<'a> {
    source: Source<'a>,
    fixed: Option<&'a [u8]>,
    pub(super) rest: &'a [u8],
}

/// Returns the header at the beginning of `bytes`, unless they are too short for one.
pub(in crate::kernel) fn head(bytes: &[u8]) -> Option<abi::InHeader> {
    abi::InHeader::read_from_prefix(bytes)
        .ok()
        .map(|(header, _)| header)
}

impl<'a> Body<'a> {
    /// Returns the body of a request that was read whole from `/dev/fuse`: what follows its header in `source`.
    pub(in crate::kernel) fn contiguous(source: Source<'a>) -> Body<'a> {
        let rest = source.bytes.get(size_of::<abi::InHeader>()..).unwrap_or_default();
        Body {
            source,
            fixed: None,
            rest,
        }
    }

    /// Returns the body of a request that came through a ring.
    pub(in crate::kernel) fn split(fixed: &'a [u8], payload: &'a [u8]) -> Body<'a> {
        Body {
            source: Source::unkept(payload),
            fixed: Some(fixed),
            rest: payload,
        }
    }

    /// Returns the fixed part, where that is apart, and where all the rest stands.
    pub(in crate::kernel) fn parts(self) -> (Option<&'a [u8]>, Source<'a>) {
        (self.fixed, self.source)
    }

    /// Takes the extensions off the end.
    pub(super) fn extensions(&mut self, units: u16) -> Parsed<&'a [u8]> {
        let len = usize::from(units) * 8;
        let at = self.rest.len().checked_sub(len).ok_or(Errno::IO)?;
        let (rest, extensions) = self.rest.split_at(at);
        self.rest = rest;
        Ok(extensions)
    }

    /// Takes the fixed part, which comes first.
    pub(super) fn fixed<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Parsed<T> {
        if let Some(fixed) = self.fixed.take() {
            return T::read_from_prefix(fixed)
                .map(|(value, _)| value)
                .map_err(|_| Errno::IO);
        }
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| Errno::IO)?;
        self.rest = rest;
        Ok(value)
    }

    /// Takes a name with its NUL.
    pub(super) fn name(&mut self) -> Parsed<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(Errno::IO)?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        if name.is_empty() {
            Err(Errno::INVAL)
        } else {
            Ok(name)
        }
    }

    /// Takes all the rest, which must have `size` bytes.
    pub(super) fn bytes(&mut self, size: u32) -> Parsed<&'a [u8]> {
        if self.rest.len() != size as usize {
            return Err(Errno::IO);
        }
        Ok(std::mem::take(&mut self.rest))
    }

    /// Takes all the rest, which must have `size` bytes, as what may outlive the request.
    pub(super) fn payload(&mut self, size: u32) -> Parsed<Payload<'a>> {
        Ok(self.source.payload(self.bytes(size)?))
    }

    /// Takes all the rest, whatever it is.
    pub(super) fn skip(&mut self) {
        self.rest = &[];
    }

    /// Fails where something is left that nobody took.
    pub(super) fn end(self) -> Parsed<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Errno::IO)
        }
    }
}
