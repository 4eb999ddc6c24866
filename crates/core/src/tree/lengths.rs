//! The two lengths that stand before an entry, as varints: nearly always one byte each.

use tenure_model::codec::{Malformed, Reader, malformed};

/// The lengths of an entry's key behind the prefix and of its value, as they are written.
pub(super) struct Lengths {
    bytes: [u8; 20],
    len: usize,
}

impl Lengths {
    /// Returns the lengths of a key and a value.
    pub(super) fn of(key: usize, value: usize) -> Self {
        let mut lengths = Self {
            bytes: [0; 20],
            len: 0,
        };
        lengths.put(key);
        lengths.put(value);
        lengths
    }

    fn put(&mut self, mut length: usize) {
        while length >= 0x80 {
            self.bytes[self.len] = length as u8 | 0x80;
            self.len += 1;
            length >>= 7;
        }
        self.bytes[self.len] = length as u8;
        self.len += 1;
    }

    /// Returns the bytes that are written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns how many bytes the lengths at the front of `bytes` take, and the lengths. They are known to be there.
    pub(super) fn read(bytes: &[u8]) -> (usize, usize, usize) {
        if bytes[0] < 0x80 && bytes[1] < 0x80 {
            return (2, usize::from(bytes[0]), usize::from(bytes[1]));
        }
        let mut input = Reader::new(bytes);
        let lengths = input.number().and_then(|key| Ok((key, input.number()?)));
        let (key, value) = lengths.expect("whoever put an entry in wrote its lengths, or checked them");
        (bytes.len() - input.remaining(), key, value)
    }
}

/// Reads a varint that is as short as it can be.
pub(super) fn read_shortest(input: &mut Reader<'_>) -> Result<u64, Malformed> {
    let before = input.remaining();
    let value = input.varint()?;
    let bits = u64::BITS - (value | 1).leading_zeros();
    if bits.div_ceil(7) as usize == before - input.remaining() {
        Ok(value)
    } else {
        Err(malformed("shortest varint"))
    }
}

/// Reads a length that is as short as it can be.
pub(super) fn read_length(input: &mut Reader<'_>) -> Result<usize, Malformed> {
    usize::try_from(read_shortest(input)?).map_err(|_| malformed("length"))
}
