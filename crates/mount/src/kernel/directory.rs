//! The bytes of a listing: what READDIR and READDIRPLUS are answered with.
//!
//! Knows the size that the kernel asked for and says when an entry no longer fits. Invariant: the listing is never larger
//! than that, and each record in it is padded to 8 bytes.

use zerocopy::IntoBytes;

use super::abi;
use super::reply::Entry;

/// A listing that is being filled.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    size: usize,
}

/// The entry did not fit: answer with what there is, and begin with this entry next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl DirectoryBuffer {
    /// Returns an empty listing of at most `size` bytes, as the request says.
    pub fn new(size: u32) -> DirectoryBuffer {
        let size = size as usize;
        DirectoryBuffer {
            bytes: Vec::with_capacity(size.min(abi::PAGE)),
            size,
        }
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds an entry to a READDIR: `next` is the offset that a listing from behind it begins at, `mode` gives its type.
    pub fn add(&mut self, ino: u64, next: u64, mode: u32, name: &[u8]) -> Result<(), Full> {
        self.record(None, ino, next, mode, name)
    }

    /// Adds an entry to a READDIRPLUS. It counts as a lookup unless its `nodeid` is 0 or it is `.` or `..`; with a
    /// `nodeid` of 0 only `attr.ino` and the type in `attr.mode` are used.
    pub fn add_plus(&mut self, entry: &Entry, next: u64, name: &[u8]) -> Result<(), Full> {
        self.record(Some(entry.to_abi()), entry.attr.ino, next, entry.attr.mode, name)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn record(
        &mut self,
        entry: Option<abi::EntryOut>,
        ino: u64,
        next: u64,
        mode: u32,
        name: &[u8],
    ) -> Result<(), Full> {
        let head = entry.as_ref().map_or(&[][..], IntoBytes::as_bytes);
        let len = head.len() + size_of::<abi::Dirent>() + name.len();
        let end = self.bytes.len() + len.next_multiple_of(8);
        if end > self.size {
            return Err(Full);
        }
        let namelen =
            u32::try_from(name.len()).expect("a name that fits in the listing has fewer than 2^32 bytes");
        let dirent = abi::Dirent {
            ino,
            off: next,
            namelen,
            kind: (mode & libc::S_IFMT) >> 12,
        };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(end, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_bytes_of_the_protocol() {
        let mut listing = DirectoryBuffer::new(64);
        listing.add(7, 9, libc::S_IFREG | 0o644, b"abc").expect("it fits");
        let expected = [
            7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0,
        ];
        assert_eq!(listing.bytes()[..24], expected);
        assert_eq!(&listing.bytes()[24..], b"abc\0\0\0\0\0");
    }

    #[test]
    fn a_listing_says_when_it_is_full() {
        let mut listing = DirectoryBuffer::new(64);
        assert!(listing.is_empty());
        assert_eq!(listing.add(1, 1, libc::S_IFDIR, b"12345678"), Ok(()));
        assert_eq!(listing.add(2, 2, libc::S_IFDIR, b"12345678"), Ok(()));
        assert_eq!(listing.add(3, 3, libc::S_IFDIR, b"1"), Err(Full));
        assert_eq!(listing.bytes().len(), 64);
    }

    #[test]
    fn a_lookup_comes_before_its_entry() {
        let mut listing = DirectoryBuffer::new(4096);
        let entry = Entry {
            nodeid: 5,
            ..Entry::default()
        };
        listing.add_plus(&entry, 1, b"n").expect("it fits");
        assert_eq!(listing.bytes().len(), 128 + 24 + 8);
        assert_eq!(listing.bytes()[0], 5);
    }
}
