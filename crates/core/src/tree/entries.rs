//! Sorted keys with their values, packed in one buffer: what a leaf is, and a branch's separators.
//!
//! The buffer is what is written to the bucket: kind, prefix, then each entry as two lengths, the key without the
//! prefix, the value. An index beside it, never written, holds for each entry a *hint* (the first four bytes of the
//! key behind the prefix) and the entry's offset, so that a search touches few cache lines.
//!
//! Invariant: keys strictly ascend, and the prefix is the longest that all keys share (at most `PREFIX_LEN_MAX`;
//! nothing when there is no key). So equal entries are equal bytes, whatever history made them.

use std::cmp::Ordering;
use std::ops::Range;
use tenure_model::codec::{Malformed, Reader, malformed};

/// Bytes that a page holds before it is split, unless a single entry is larger.
pub(super) const PAGE_LEN_MAX: usize = 4096;
/// Bytes of the shared prefix: its length is one byte.
const PREFIX_LEN_MAX: usize = 127;
/// Bytes before the prefix: the kind and the prefix's length.
const HEAD_LEN: usize = 2;
/// The smallest buffer worth allocating.
const CAPACITY_MIN: usize = 256;
/// Hints that are compared one after the other, which the compiler does several at a time.
const RANK_RUN: usize = 64;

/// Sorted entries in one buffer.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    /// Kind, length of the prefix, prefix, entries.
    bytes: Vec<u8>,
    /// All hints, then all offsets.
    index: Vec<u32>,
}

impl Entries {
    /// Returns no entries; `kind` is the first byte of the buffer.
    pub(super) fn new(kind: u8) -> Self {
        Self::with_prefix(kind, &[], 0, 0)
    }

    /// Returns one entry.
    pub(super) fn one(kind: u8, key: &[u8], value: &[u8]) -> Self {
        let mut entries = Self::new(kind);
        entries.insert(0, key, value);
        entries
    }

    fn with_prefix(kind: u8, prefix: &[u8], capacity: usize, count: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(kind);
        bytes.push(u8::try_from(prefix.len()).expect("a prefix is at most 127 bytes"));
        bytes.extend_from_slice(prefix);
        let index = Vec::with_capacity(2 * count);
        Self { bytes, index }
    }

    /// Returns how many entries there are.
    pub(super) fn len(&self) -> usize {
        self.index.len() / 2
    }

    /// Returns the buffer: the bytes that are written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes allocated.
    pub(super) fn heap(&self) -> usize {
        self.bytes.capacity() + self.index.capacity() * size_of::<u32>()
    }

    /// Gives back what is allocated beyond need.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.index.shrink_to_fit();
    }

    /// Returns what all keys begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.bytes[HEAD_LEN..self.start()]
    }

    /// Returns where the first entry begins.
    fn start(&self) -> usize {
        HEAD_LEN + usize::from(self.bytes[1])
    }

    fn offset(&self, at: usize) -> usize {
        self.index[self.len() + at] as usize
    }

    /// Returns where entry `at` begins, or where the next entry would.
    fn edge(&self, at: usize) -> usize {
        if at < self.len() {
            self.offset(at)
        } else {
            self.bytes.len()
        }
    }

    /// Returns the key behind the prefix and the value.
    fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let (key, end) = self.spans(at);
        (&self.bytes[key.clone()], &self.bytes[key.end..end])
    }

    /// Returns where in the buffer the rest of a key is, and where the value behind it ends.
    fn spans(&self, at: usize) -> (Range<usize>, usize) {
        let from = self.offset(at);
        let bytes = &self.bytes[from..];
        let (key_len, value_len, head_len) = if bytes[0] < 0x80 && bytes[1] < 0x80 {
            (usize::from(bytes[0]), usize::from(bytes[1]), 2)
        } else {
            long_lengths(bytes)
        };
        let key = from + head_len;
        (key..key + key_len, key + key_len + value_len)
    }

    /// Returns the key of entry `at` behind the prefix.
    pub(super) fn rest(&self, at: usize) -> &[u8] {
        self.entry(at).0
    }

    /// Returns the value of entry `at`.
    pub(super) fn value(&self, at: usize) -> &[u8] {
        self.entry(at).1
    }

    /// Returns the key of entry `at`.
    pub(super) fn key(&self, at: usize) -> Vec<u8> {
        [self.prefix(), self.rest(at)].concat()
    }

    /// Puts the key of entry `at` into `key` and returns the value.
    pub(super) fn read<'a>(&'a self, at: usize, key: &mut Vec<u8>) -> &'a [u8] {
        let (rest, value) = self.entry(at);
        key.clear();
        key.extend_from_slice(self.prefix());
        key.extend_from_slice(rest);
        value
    }

    /// Returns where `key` is, or where it would be.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let Some(rest) = key.strip_prefix(prefix) else {
            return Err(if key < prefix { 0 } else { self.len() });
        };
        let (hints, wanted) = (&self.index[..self.len()], hint(rest));
        let mut low = rank(hints, wanted);
        let mut high = low + hints[low..].iter().take_while(|hint| **hint == wanted).count();
        while low < high {
            let middle = low.midpoint(high);
            match self.rest(middle).cmp(rest) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Returns how many bytes there would be with one more entry.
    pub(super) fn len_with(&self, key: &[u8], value: &[u8]) -> usize {
        let shorter = self.prefix().len() - shared(self.prefix(), key);
        self.bytes.len() + shorter * self.len() + HEAD_LEN + key.len() + value.len() - self.prefix().len()
    }

    /// Puts a new entry at `at`, where `find` says that it belongs.
    pub(super) fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) {
        self.fit_prefix(key);
        let rest = &key[self.prefix().len()..];
        let (count, from) = (self.len(), self.edge(at));
        let lengths = Lengths::of(rest.len(), value.len());
        let lengths = lengths.bytes();
        let len = lengths.len() + rest.len() + value.len();
        self.open(from, len);
        let (head, tail) = self.bytes[from..from + len].split_at_mut(lengths.len());
        head.copy_from_slice(lengths);
        let (key_part, value_part) = tail.split_at_mut(rest.len());
        key_part.copy_from_slice(rest);
        value_part.copy_from_slice(value);
        self.index.insert(at, hint(rest));
        self.index.insert(count + 1 + at, short(from));
        self.shift(at + 1, len.cast_signed());
    }

    /// Puts `value` in place of the value of entry `at`.
    pub(super) fn replace(&mut self, at: usize, value: &[u8]) {
        let (key, end) = self.spans(at);
        if end - key.end == value.len() {
            self.bytes[key.end..end].copy_from_slice(value);
            return;
        }
        let from = self.offset(at);
        let lengths = Lengths::of(key.len(), value.len());
        let lengths = lengths.bytes();
        let old_len = end - from;
        let new_len = lengths.len() + key.len() + value.len();
        // The rest of the key stays where it is unless the lengths before it take another number of bytes.
        if new_len > old_len {
            self.open(end, new_len - old_len);
        }
        self.bytes.copy_within(key.clone(), from + lengths.len());
        if new_len < old_len {
            self.bytes.drain(from + new_len..end);
        }
        self.bytes[from..from + lengths.len()].copy_from_slice(lengths);
        self.bytes[from + new_len - value.len()..from + new_len].copy_from_slice(value);
        self.shift(at + 1, new_len.cast_signed() - old_len.cast_signed());
    }

    /// Drops the entries in `range`.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let count = self.len();
        let (from, to) = (self.edge(range.start), self.edge(range.end));
        self.bytes.drain(from..to);
        self.index.drain(count + range.start..count + range.end);
        self.index.drain(range.clone());
        self.shift(range.start, -(to - from).cast_signed());
        if range.start == 0 || range.end == count {
            self.stretch_prefix();
        }
    }

    /// Returns the entries in `range`.
    pub(super) fn range(&self, range: Range<usize>) -> Self {
        let kind = self.bytes[0];
        if range.is_empty() {
            return Self::new(kind);
        }
        let prefix = &self.key(range.start)[..self.shared_len(range.clone())];
        let capacity = prefix.len() + HEAD_LEN + self.edge(range.end) - self.edge(range.start);
        let mut entries = Self::with_prefix(kind, prefix, capacity, range.len());
        entries.extend(self, range);
        entries
    }

    /// Returns the entries of `left`, then those of `right`, whose keys are all greater.
    pub(super) fn joined(left: &Self, right: &Self) -> Self {
        if left.len() == 0 || right.len() == 0 {
            return if left.len() == 0 {
                right.clone()
            } else {
                left.clone()
            };
        }
        let first = left.key(0);
        let prefix_len = shared(&first, &right.key(right.len() - 1)).min(PREFIX_LEN_MAX);
        let capacity = left.bytes.len() + right.bytes.len();
        let mut entries = Self::with_prefix(
            left.bytes[0],
            &first[..prefix_len],
            capacity,
            left.len() + right.len(),
        );
        entries.extend(left, 0..left.len());
        entries.extend(right, 0..right.len());
        entries.shrink();
        entries
    }

    /// Returns where the second of two halves would begin: at least one entry is on each side.
    pub(super) fn middle(&self) -> usize {
        let half = self.start().midpoint(self.bytes.len());
        let offsets = &self.index[self.len()..];
        offsets
            .partition_point(|offset| (*offset as usize) < half)
            .clamp(1, self.len() - 1)
    }

    /// Reads a buffer that is all of a leaf, and checks the order of its keys.
    pub(super) fn parsed(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let kind = input.byte()?;
        let prefix = read_prefix(&mut input)?;
        let mut index = Vec::new();
        let mut offsets = Vec::new();
        while !input.is_empty() {
            let offset =
                u32::try_from(bytes.len() - input.remaining()).map_err(|_| malformed("page length"))?;
            let key_len = read_length(&mut input)?;
            let value_len = read_length(&mut input)?;
            index.push(hint(input.take(key_len)?));
            input.take(value_len)?;
            offsets.push(offset);
        }
        index.append(&mut offsets);
        index.shrink_to_fit();
        debug_assert_eq!(bytes[..HEAD_LEN], [kind, prefix.len() as u8]);
        let entries = Self {
            bytes: bytes.to_vec(),
            index,
        };
        entries.verified()
    }

    /// Returns itself if the keys ascend and the prefix is as long as it can be.
    pub(super) fn verified(self) -> Result<Self, Malformed> {
        let ascending = (1..self.len()).all(|at| self.rest(at - 1) < self.rest(at));
        if !ascending {
            return Err(malformed("order of keys in a page"));
        }
        let prefix_len = match self.len() {
            0 => 0,
            count => self.shared_len(0..count),
        };
        if prefix_len != self.prefix().len() {
            return Err(malformed("prefix of a page"));
        }
        Ok(self)
    }

    /// Reads a prefix and returns no entries with it; only `push` and then `verified` may follow.
    pub(super) fn begin(kind: u8, input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::with_prefix(kind, read_prefix(input)?, 0, 0))
    }

    /// Adds an entry behind the last one, its key given without the prefix.
    pub(super) fn push(&mut self, rest: &[u8], value: &[u8]) {
        self.push_parts(&[], rest, value);
    }

    /// Panics unless the index says what the buffer says.
    pub(super) fn check(&self) {
        let parsed =
            Self::parsed(&self.bytes).expect("a page's entries are sorted under their longest prefix");
        assert_eq!(
            parsed.index, self.index,
            "a page's index says what its buffer says"
        );
    }

    fn push_parts(&mut self, rest: &[u8], tail: &[u8], value: &[u8]) {
        let from = self.bytes.len();
        let lengths = Lengths::of(rest.len() + tail.len(), value.len());
        self.bytes.extend_from_slice(lengths.bytes());
        let key_from = self.bytes.len();
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(tail);
        let hint = hint(&self.bytes[key_from..]);
        self.bytes.extend_from_slice(value);
        self.index.insert(self.len(), hint);
        self.index.push(short(from));
    }

    /// Adds the entries of `other` in `range`, which all begin with this prefix, behind the last one.
    fn extend(&mut self, other: &Self, range: Range<usize>) {
        let (mine, theirs) = (self.prefix().len(), other.prefix().len());
        let kept = other.prefix().get(mine..).unwrap_or_default();
        let cut = mine.saturating_sub(theirs);
        for at in range {
            let (rest, value) = other.entry(at);
            self.push_parts(kept, &rest[cut..], value);
        }
    }

    /// Returns how long a prefix the entries in `range` share; there is at least one.
    fn shared_len(&self, range: Range<usize>) -> usize {
        let (first, last) = (self.rest(range.start), self.rest(range.end - 1));
        (self.prefix().len() + shared(first, last)).min(PREFIX_LEN_MAX)
    }

    /// Makes the prefix one that `key` shares as well.
    fn fit_prefix(&mut self, key: &[u8]) {
        let kind = self.bytes[0];
        if self.len() == 0 {
            let prefix = &key[..key.len().min(PREFIX_LEN_MAX)];
            *self = Self::with_prefix(kind, prefix, 0, 0);
            return;
        }
        let prefix_len = shared(self.prefix(), key);
        if prefix_len < self.prefix().len() {
            let capacity = self.bytes.capacity() + self.len() * (self.prefix().len() - prefix_len);
            let mut fitted = Self::with_prefix(kind, &self.prefix()[..prefix_len], capacity, self.len() + 1);
            fitted.extend(self, 0..self.len());
            *self = fitted;
        }
    }

    /// Makes the prefix as long as it can be.
    fn stretch_prefix(&mut self) {
        let count = self.len();
        if count == 0 || self.shared_len(0..count) != self.prefix().len() {
            *self = self.range(0..count);
        }
    }

    /// Opens a gap of `len` bytes at `from`.
    fn open(&mut self, from: usize, len: usize) {
        let (old, needed) = (self.bytes.len(), self.bytes.len() + len);
        let capacity = self.bytes.capacity();
        if needed > capacity {
            let grown = (2 * capacity).clamp(CAPACITY_MIN, PAGE_LEN_MAX).max(needed);
            self.bytes.reserve_exact(grown - old);
        }
        self.bytes.resize(needed, 0);
        self.bytes.copy_within(from..old, from + len);
    }

    /// Moves the offsets of the entries from `at` on.
    fn shift(&mut self, at: usize, by: isize) {
        let by = by as i32;
        let from = self.len() + at;
        for offset in &mut self.index[from..] {
            *offset = offset.wrapping_add_signed(by);
        }
    }
}

/// Returns the shortest key that is greater than `left` and not greater than `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Box<[u8]> {
    right[..shared(left, right) + 1].into()
}

/// Returns how many bytes both begin with.
fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter()
        .zip(right)
        .take_while(|(left, right)| left == right)
        .count()
}

/// Returns the first four bytes as a number that sorts as they do.
fn hint(rest: &[u8]) -> u32 {
    if let Some(front) = rest.first_chunk() {
        return u32::from_be_bytes(*front);
    }
    let mut front = [0; 4];
    front[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(front)
}

/// Returns how many of the sorted hints are less than `wanted`.
fn rank(mut hints: &[u32], wanted: u32) -> usize {
    let mut below = 0;
    while hints.len() > RANK_RUN {
        let middle = hints.len() / 2;
        if hints[middle] < wanted {
            below += middle + 1;
            hints = &hints[middle + 1..];
        } else {
            hints = &hints[..middle];
        }
    }
    let run: u32 = hints.iter().map(|hint| u32::from(*hint < wanted)).sum();
    below + run as usize
}

/// Returns an offset as it stands in the index.
fn short(offset: usize) -> u32 {
    u32::try_from(offset).expect("a page is shorter than 4 GiB")
}

/// The two lengths that stand before an entry, as varints.
struct Lengths {
    bytes: [u8; 20],
    len: usize,
}

impl Lengths {
    fn of(key: usize, value: usize) -> Self {
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

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the two lengths before an entry, and how many bytes they take.
fn long_lengths(bytes: &[u8]) -> (usize, usize, usize) {
    let mut input = Reader::new(bytes);
    let lengths = input.number().and_then(|key| Ok((key, input.number()?)));
    let (key, value) = lengths.expect("an entry's lengths were written by push or checked by parsed");
    (key, value, bytes.len() - input.remaining())
}

fn read_prefix<'a>(input: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = usize::from(input.byte()?);
    if len > PREFIX_LEN_MAX {
        return Err(malformed("prefix of a page"));
    }
    input.take(len)
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
