//! What keys begin with alike: the prefix of a page, and the shortest key that tells two pages apart.

use tenure_model::codec::{Malformed, Reader, malformed};

/// Bytes of the shared prefix: what long keys share beyond it is stored with each.
pub(super) const PREFIX_LEN_MAX: usize = 23;

/// The prefix of a page, kept beside the page's buffer so that a search begins without it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    len: u8,
    bytes: [u8; PREFIX_LEN_MAX],
}

impl Prefix {
    /// Returns `prefix`, which is at most `PREFIX_LEN_MAX` bytes.
    pub(super) fn new(prefix: &[u8]) -> Self {
        let mut bytes = [0; PREFIX_LEN_MAX];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Self {
            len: prefix.len() as u8,
            bytes,
        }
    }

    /// Reads a length and as many bytes.
    pub(super) fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let len = usize::from(input.byte()?);
        if len > PREFIX_LEN_MAX {
            return Err(malformed("prefix of a page"));
        }
        input.take(len).map(Self::new)
    }

    /// Returns the prefix.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns its length as it is written.
    pub(super) fn len(&self) -> u8 {
        self.len
    }
}

/// Returns how many bytes both begin with.
pub(super) fn shared(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

/// Returns the shortest key that is greater than `left` and not greater than `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Box<[u8]> {
    right[..shared(left, right) + 1].into()
}
