//! Sorted keys with their values, packed in one buffer: what a leaf is, and a branch's separators.
//!
//! The buffer is what is written to the bucket: kind, prefix, then each entry as two lengths, the key without the
//! prefix, the value. An index beside it, never written, holds for each entry a *hint* (the first four bytes of the
//! key behind the prefix) and the entry's offset, so that a search touches few cache lines.
//!
//! Invariant: keys strictly ascend, and the prefix is the longest that all keys share (at most `PREFIX_LEN_MAX`;
//! nothing when there is no key). So equal entries are equal bytes, whatever history made them.

use super::lengths::{Lengths, read_length};
use super::prefix::{PREFIX_LEN_MAX, Prefix, shared};
use super::runs::Runs;
use super::slot::{Slot, rank};
use std::cmp::Ordering;
use std::ops::Range;
use tenure_model::codec::{Malformed, Reader, malformed};

/// Bytes that a page holds before it is split, unless a single entry is larger.
pub(super) const PAGE_LEN_MAX: usize = 4096;
/// Bytes before the prefix: the kind and the prefix's length.
const HEAD_LEN: usize = 2;
/// The smallest buffer worth allocating.
const CAPACITY_MIN: usize = 256;

/// Sorted entries in one buffer.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    /// Kind, length of the prefix, prefix, entries.
    bytes: Vec<u8>,
    prefix: Prefix,
    index: Vec<Slot>,
    runs: Runs,
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
        let prefix = Prefix::new(prefix);
        bytes.extend_from_slice(&[kind, prefix.len()]);
        bytes.extend_from_slice(prefix.bytes());
        let index = Vec::with_capacity(count);
        Self {
            bytes,
            prefix,
            index,
            runs: Runs::NONE,
        }
    }

    /// Returns how many entries there are.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the buffer: the bytes that are written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes allocated.
    pub(super) fn heap(&self) -> usize {
        self.bytes.capacity() + self.index.capacity() * size_of::<Slot>()
    }

    /// Gives back what is allocated beyond need.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.index.shrink_to_fit();
    }

    /// Returns what all keys begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        self.prefix.bytes()
    }

    /// Returns where the first entry begins.
    fn start(&self) -> usize {
        HEAD_LEN + self.prefix().len()
    }

    fn offset(&self, at: usize) -> usize {
        self.index[at].offset as usize
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
        let (lengths_len, key_len, value_len) = Lengths::read(&self.bytes[from..]);
        let key = from + lengths_len;
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
        let alike = rank(&self.index, rest);
        let (mut low, mut high) = (alike.start, alike.end);
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
        let from = self.edge(at);
        let lengths = Lengths::of(rest.len(), value.len());
        let lengths = lengths.bytes();
        let len = lengths.len() + rest.len() + value.len();
        self.open(from, len);
        let (head, tail) = self.bytes[from..from + len].split_at_mut(lengths.len());
        head.copy_from_slice(lengths);
        let (key_part, value_part) = tail.split_at_mut(rest.len());
        key_part.copy_from_slice(rest);
        value_part.copy_from_slice(value);
        self.index.insert(at, Slot::new(rest, from));
        self.shift(at + 1, len.cast_signed());
        self.runs.note(at);
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
            self.trim();
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
        self.index.drain(range.clone());
        self.shift(range.start, -(to - from).cast_signed());
        self.runs = Runs::NONE;
        self.trim();
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
        entries.extend(self, range.clone());
        entries.runs = self.runs.within(range);
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

    /// Returns where to cut entries that became too many with `newest`: at least one is on each side. Behind the newest
    /// if it continues a run of inserts, so that the run leaves full pages behind; in the middle otherwise.
    pub(super) fn cut(&self, newest: usize) -> usize {
        let last = self.len() - 1;
        if self.runs.is_latest(newest) && newest > 0 {
            return if self.edge(newest + 1) <= PAGE_LEN_MAX {
                (newest + 1).min(last)
            } else {
                newest
            };
        }
        let half = self.start().midpoint(self.bytes.len());
        let middle = self.index.partition_point(|slot| (slot.offset as usize) < half);
        middle.clamp(1, last)
    }

    /// Tells whether the entry at `at` is the latest of a run of inserts, each behind the one before.
    pub(super) fn is_in_run(&self, at: usize) -> bool {
        self.runs.is_latest(at)
    }

    /// Reads a buffer that is all of a leaf, and checks the order of its keys.
    pub(super) fn parsed(bytes: &[u8]) -> Result<Self, Malformed> {
        u32::try_from(bytes.len()).map_err(|_| malformed("page length"))?;
        let mut input = Reader::new(bytes);
        input.byte()?;
        let prefix = Prefix::read(&mut input)?;
        let mut index = Vec::new();
        while !input.is_empty() {
            let offset = bytes.len() - input.remaining();
            let (key_len, value_len) = (read_length(&mut input)?, read_length(&mut input)?);
            index.push(Slot::new(input.take(key_len)?, offset));
            input.take(value_len)?;
        }
        index.shrink_to_fit();
        let entries = Self {
            bytes: bytes.to_vec(),
            prefix,
            index,
            runs: Runs::NONE,
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
        Ok(Self::with_prefix(kind, Prefix::read(input)?.bytes(), 0, 0))
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
        self.index.push(Slot::new(&self.bytes[key_from..], from));
        self.bytes.extend_from_slice(value);
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
            fitted.runs = self.runs;
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

    /// Gives back what a large entry took that is gone.
    fn trim(&mut self) {
        if self.bytes.capacity() > PAGE_LEN_MAX {
            self.bytes.shrink_to(PAGE_LEN_MAX);
        }
    }

    /// Moves the offsets of the entries from `at` on.
    fn shift(&mut self, at: usize, by: isize) {
        let by = by as i32;
        for slot in &mut self.index[at..] {
            slot.offset = slot.offset.wrapping_add_signed(by);
        }
    }
}
