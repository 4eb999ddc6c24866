//! A pack's index and footer: where each chunk and page lies, and what the body's blocks should hold.
//!
//! Invariant: an index that was parsed is in order, names no byte outside the body, and looking something up
//! in it cannot fail. `docs/FORMAT.md` has the bytes.

use super::blocks::CHECKED_LEN;
use super::{Entry, EntryKind};
use tenure_model::codec::{Malformed, malformed};
use tenure_model::{Digest, PackNumber};

/// Bytes of the footer.
pub(super) const FOOTER_LEN: usize = 64;
const HEAD_LEN: usize = 24;
const ENTRY_LEN: usize = 45;
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"TNPACK_1";

/// Where an index lies in its pack, and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) body_len: u64,
    pub(super) index_len: u64,
    pub(super) index_digest: Digest,
}

/// Why a footer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadFooter {
    Malformed,
    /// The pack was written by a later program.
    Newer(u32),
}

impl Footer {
    /// Returns the footer of a body and its index.
    pub(super) fn of(body_len: u64, index: &[u8]) -> Self {
        Self {
            body_len,
            index_len: index.len() as u64,
            index_digest: Digest::of(index),
        }
    }

    pub(super) fn written(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[..8].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index_len.to_le_bytes());
        bytes[16..48].copy_from_slice(&self.index_digest.0);
        bytes[48..52].copy_from_slice(&VERSION.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..52]);
        bytes[52..56].copy_from_slice(&checksum.to_le_bytes());
        bytes[56..].copy_from_slice(MAGIC);
        bytes
    }

    pub(super) fn parsed(bytes: &[u8; FOOTER_LEN]) -> Result<Self, BadFooter> {
        if bytes[56..] != *MAGIC || number32(&bytes[52..]) != crc32c::crc32c(&bytes[..52]) {
            return Err(BadFooter::Malformed);
        }
        match number32(&bytes[48..]) {
            VERSION => Ok(Self {
                body_len: number64(bytes),
                index_len: number64(&bytes[8..]),
                index_digest: digest(&bytes[16..]),
            }),
            newer => Err(BadFooter::Newer(newer)),
        }
    }
}

/// Returns how many bytes an index and a footer take.
pub(super) fn written_len(entries: usize, body_len: u64) -> u64 {
    let blocks = body_len.div_ceil(CHECKED_LEN as u64);
    (HEAD_LEN + FOOTER_LEN + entries * ENTRY_LEN) as u64 + blocks * 4
}

/// Returns the bytes of an index; `entries` are in order, and `checksums` cover the body.
pub(super) fn written(number: PackNumber, body_len: u64, entries: &[Entry], checksums: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_LEN + entries.len() * ENTRY_LEN + checksums.len() * 4);
    bytes.extend_from_slice(&number.0.to_le_bytes());
    bytes.extend_from_slice(&body_len.to_le_bytes());
    for count in [entries.len(), checksums.len()] {
        let count = u32::try_from(count).expect("a pack's length bounds its entries and blocks");
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    for entry in entries {
        bytes.extend_from_slice(&entry.digest.0);
        bytes.extend_from_slice(&entry.offset.to_le_bytes());
        bytes.extend_from_slice(&entry.len.to_le_bytes());
        bytes.push(match entry.kind {
            EntryKind::Chunk => 1,
            EntryKind::Page => 2,
        });
    }
    for checksum in checksums {
        bytes.extend_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

/// A parsed index. Its entries stay as they were written: there can be millions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Index {
    number: PackNumber,
    body_len: u64,
    entries: Box<[u8]>,
    checksums: Box<[u32]>,
}

impl Index {
    pub(super) fn parsed(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = bytes.split_at_checked(HEAD_LEN).ok_or(malformed("index"))?;
        let body_len = number64(&head[8..]);
        let count = |at: usize| number32(&head[at..]) as usize;
        let (entries, blocks) = (count(16), count(20));
        if body_len.div_ceil(CHECKED_LEN as u64) != blocks as u64
            || rest.len() as u64 != entries as u64 * ENTRY_LEN as u64 + blocks as u64 * 4
        {
            return Err(malformed("index"));
        }
        let (entries, checksums) = rest.split_at(entries * ENTRY_LEN);
        let index = Self {
            number: PackNumber(number64(head)),
            body_len,
            entries: entries.into(),
            checksums: checksums.chunks_exact(4).map(number32).collect(),
        };
        index.check_entries()?;
        Ok(index)
    }

    fn check_entries(&self) -> Result<(), Malformed> {
        let mut before: Option<&[u8]> = None;
        for bytes in self.entries.chunks_exact(ENTRY_LEN) {
            let digest = &bytes[..32];
            let (offset, len) = (number64(&bytes[32..]), number32(&bytes[40..]));
            let end = offset.checked_add(u64::from(len));
            let inside = len > 0 && end.is_some_and(|end| end <= self.body_len);
            if !inside || !matches!(bytes[44], 1 | 2) || before.is_some_and(|before| before >= digest) {
                return Err(malformed("index"));
            }
            before = Some(digest);
        }
        Ok(())
    }

    pub(super) fn number(&self) -> PackNumber {
        self.number
    }

    pub(crate) fn body_len(&self) -> u64 {
        self.body_len
    }

    pub(crate) fn checksums(&self) -> &[u32] {
        &self.checksums
    }

    /// Returns what stands behind the body in the pack's object: the index as it was written, and the footer.
    pub(super) fn end(&self) -> Vec<u8> {
        let entries: Vec<_> = self.entries().collect();
        let mut bytes = written(self.number, self.body_len, &entries, &self.checksums);
        let footer = Footer::of(self.body_len, &bytes);
        bytes.extend_from_slice(&footer.written());
        bytes
    }

    /// Returns the length of the pack's object.
    pub(super) fn object_len(&self) -> u64 {
        self.body_len + written_len(self.len(), self.body_len)
    }

    /// Returns how much memory it takes.
    pub(super) fn memory(&self) -> usize {
        self.entries.len() + self.checksums.len() * 4
    }

    pub(super) fn find(&self, wanted: Digest) -> Option<Entry> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.digest_at(middle).cmp(&wanted.0[..]) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.entry_at(middle)),
            }
        }
        None
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.len()).map(|at| self.entry_at(at))
    }

    fn len(&self) -> usize {
        self.entries.len() / ENTRY_LEN
    }

    fn digest_at(&self, at: usize) -> &[u8] {
        &self.entries[at * ENTRY_LEN..at * ENTRY_LEN + 32]
    }

    fn entry_at(&self, at: usize) -> Entry {
        let bytes = &self.entries[at * ENTRY_LEN..(at + 1) * ENTRY_LEN];
        Entry {
            digest: digest(bytes),
            offset: number64(&bytes[32..]),
            len: number32(&bytes[40..]),
            kind: match bytes[44] {
                1 => EntryKind::Chunk,
                _ => EntryKind::Page,
            },
        }
    }
}

fn number64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes were taken"))
}

fn number32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes were taken"))
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(bytes[..32].try_into().expect("32 bytes were taken"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let entry = (any::<[u8; 32]>(), 0u64..90_000, 1u32..10_000, any::<bool>());
        prop::collection::btree_map(any::<[u8; 32]>(), entry, 0..40).prop_map(|entries| {
            let entry = |(digest, (_, offset, len, page))| Entry {
                digest: Digest(digest),
                offset,
                len,
                kind: if page { EntryKind::Page } else { EntryKind::Chunk },
            };
            entries.into_iter().map(entry).collect()
        })
    }

    proptest! {
        #[test]
        fn an_index_is_read_as_it_was_written(entries in entries(), absent: [u8; 32]) {
            let checksums: Vec<u32> = (0..7).collect();
            let bytes = written(PackNumber(9), 100_000, &entries, &checksums);
            prop_assert_eq!(bytes.len() as u64 + FOOTER_LEN as u64, written_len(entries.len(), 100_000));
            let index = Index::parsed(&bytes).unwrap();
            prop_assert_eq!(index.number(), PackNumber(9));
            prop_assert_eq!(index.checksums(), &checksums[..]);
            prop_assert_eq!(index.entries().collect::<Vec<_>>(), entries.clone());
            for entry in &entries {
                prop_assert_eq!(index.find(entry.digest), Some(*entry));
            }
            let expected = entries.iter().find(|entry| entry.digest.0 == absent).copied();
            prop_assert_eq!(index.find(Digest(absent)), expected);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Index::parsed(&bytes);
        }

        #[test]
        fn an_index_that_was_altered_is_refused_or_whole(
            entries in entries(),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let mut bytes = written(PackNumber(9), 100_000, &entries, &[0; 7]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(index) = Index::parsed(&bytes) {
                for entry in index.entries() {
                    prop_assert!(entry.len > 0 && entry.offset + u64::from(entry.len) <= index.body_len());
                    prop_assert_eq!(index.find(entry.digest), Some(entry));
                }
            }
        }

        #[test]
        fn a_footer_is_read_as_it_was_written(body_len: u64, index in prop::collection::vec(any::<u8>(), 0..50)) {
            let footer = Footer::of(body_len, &index);
            prop_assert_eq!(Footer::parsed(&footer.written()), Ok(footer));
        }
    }
}
