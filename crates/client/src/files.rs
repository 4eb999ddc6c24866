//! A branch as a mount serves it, however it is had: held whole, or shared with others.

use crate::branch::{Branch, Unsynced};
use crate::salvage::Salvage;
use bytes::Bytes;
use std::cell::RefCell;
use std::ops::ControlFlow;
use tenure_core::{DirEntry, Outcome, Seek, Totals};
use tenure_model::{Attr, AttrChange, Ino, Name, NewNode, RenameMode, XattrMode, XattrName};
use tenure_wire::owner::Opened;
use tenure_wire::{Done, Error, Room};

/// How much of a listing is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ListingRoom {
    /// Whether attributes are wanted.
    pub with_attrs: bool,
    /// Bytes of entries for which there is room.
    pub len: u32,
}

/// Gets the entries of a directory.
pub trait Listing {
    /// Begins; once more where a page was missing: what it got before is void.
    fn begin(&mut self);

    /// Gets an entry, and its attributes where they were asked for and few pages are missing for them.
    fn add(&mut self, entry: DirEntry<'_>, attr: Option<&Attr>) -> ControlFlow<()>;
}

/// The files of a branch.
#[expect(missing_docs, reason = "each is what `Branch` says of its namesake")]
pub trait Files: Send + Sync {
    fn attr(&self, ino: Ino) -> Result<Attr, Error>;
    fn lookup(&self, parent: Ino, name: &Name) -> Result<(Ino, Attr), Error>;
    /// Lists the entries behind a cookie.
    fn list(
        &self,
        parent: Ino,
        after: u64,
        room: ListingRoom,
        listing: &mut dyn Listing,
    ) -> Result<(), Error>;
    fn target(&self, ino: Ino) -> Result<Box<[u8]>, Error>;
    fn create(&self, parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error>;
    fn create_unnamed(&self, parent: Ino, node: &NewNode) -> Result<(Ino, Attr), Error>;
    fn link(&self, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Error>;
    fn unlink(&self, parent: Ino, name: &Name) -> Result<Outcome, Error>;
    fn rmdir(&self, parent: Ino, name: &Name) -> Result<Outcome, Error>;
    fn rename(&self, from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode) -> Result<Outcome, Error>;
    fn set_attr(&self, ino: Ino, change: &AttrChange) -> Result<Attr, Error>;
    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Error>;
    fn xattrs(&self, ino: Ino) -> Result<Vec<u8>, Error>;
    fn set_xattr(&self, ino: Ino, name: XattrName, value: &[u8], mode: XattrMode) -> Result<(), Error>;
    fn remove_xattr(&self, ino: Ino, name: XattrName) -> Result<(), Error>;
    fn drop_orphan_soon(&self, ino: Ino);
    fn read_into(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error>;
    fn write(&self, ino: Ino, offset: u64, bytes: Bytes) -> Result<(), Error>;
    /// Writes behind the end, and returns where that was, if it is known here.
    fn append(&self, ino: Ino, bytes: Bytes) -> Result<Option<u64>, Error>;
    fn grow(&self, ino: Ino, size: u64) -> Result<(), Error>;
    fn punch(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
    fn collapse(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
    fn insert(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
    fn copy(&self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<u64, Error>;
    fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64, Error>;
    fn sync(&self, ino: Ino, done: Done<()>);
    fn sync_here(&self, ino: Ino, done: Done<()>);
    fn sync_all_then(&self, done: Done<()>);
    fn totals(&self) -> Result<Totals, Error>;
    fn room(&self) -> Result<Room, Error>;
    fn opened(&self) -> &Opened;
    fn unsynced(&self) -> Unsynced;
    fn broken(&self) -> Option<Error>;
    fn salvage(&self) -> Option<Salvage>;
    fn trouble(&self) -> Option<Error>;
    fn damage(&self) -> Vec<String>;
    fn close(&self) -> Result<(), Error>;
}

/// Writes methods that are those of the type itself.
macro_rules! as_branch {
    ($($name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $of),*) -> $answer {
            Branch::$name(self, $($argument),*)
        })*
    };
}

impl Files for Branch {
    as_branch! {
        attr(ino: Ino) -> Result<Attr, Error>;
        lookup(parent: Ino, name: &Name) -> Result<(Ino, Attr), Error>;
        target(ino: Ino) -> Result<Box<[u8]>, Error>;
        create(parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error>;
        create_unnamed(parent: Ino, node: &NewNode) -> Result<(Ino, Attr), Error>;
        link(ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Error>;
        unlink(parent: Ino, name: &Name) -> Result<Outcome, Error>;
        rmdir(parent: Ino, name: &Name) -> Result<Outcome, Error>;
        rename(from: (Ino, &Name), to: (Ino, &Name), mode: RenameMode) -> Result<Outcome, Error>;
        set_attr(ino: Ino, change: &AttrChange) -> Result<Attr, Error>;
        xattr(ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Error>;
        xattrs(ino: Ino) -> Result<Vec<u8>, Error>;
        set_xattr(ino: Ino, name: XattrName, value: &[u8], mode: XattrMode) -> Result<(), Error>;
        remove_xattr(ino: Ino, name: XattrName) -> Result<(), Error>;
        drop_orphan_soon(ino: Ino) -> ();
        read_into(ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error>;
        write(ino: Ino, offset: u64, bytes: Bytes) -> Result<(), Error>;
        grow(ino: Ino, size: u64) -> Result<(), Error>;
        punch(ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
        collapse(ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
        insert(ino: Ino, offset: u64, len: u64) -> Result<(), Error>;
        copy(from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<u64, Error>;
        seek(ino: Ino, offset: u64, to: Seek) -> Result<u64, Error>;
        sync(ino: Ino, done: Done<()>) -> ();
        sync_here(ino: Ino, done: Done<()>) -> ();
        sync_all_then(done: Done<()>) -> ();
        room() -> Result<Room, Error>;
        opened() -> &Opened;
        unsynced() -> Unsynced;
        broken() -> Option<Error>;
        salvage() -> Option<Salvage>;
        trouble() -> Option<Error>;
        damage() -> Vec<String>;
        close() -> Result<(), Error>;
    }

    fn append(&self, ino: Ino, bytes: Bytes) -> Result<Option<u64>, Error> {
        Branch::append(self, ino, bytes).map(Some)
    }

    fn list(
        &self,
        parent: Ino,
        after: u64,
        room: ListingRoom,
        listing: &mut dyn Listing,
    ) -> Result<(), Error> {
        let listing = RefCell::new(listing);
        Branch::list(
            self,
            parent,
            after,
            room.with_attrs,
            || listing.borrow_mut().begin(),
            |(), entry, attr| listing.borrow_mut().add(entry, attr),
        )
    }

    fn totals(&self) -> Result<Totals, Error> {
        Ok(Branch::totals(self))
    }
}
