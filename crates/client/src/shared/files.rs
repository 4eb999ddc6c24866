//! A shared branch as files: each question is a look, each change an act.

use super::{Callers, Inner, SharedBranch};
use crate::branch::Unsynced;
use crate::files::{Files, Listing, ListingRoom};
use crate::salvage::Salvage;
use crate::wait;
use bytes::Bytes;
use std::ops::ControlFlow;
use tenure_core::{DirEntry, Outcome, Seek, Totals};
use tenure_model::{
    Attr, AttrChange, Failure, Ino, Name, NewNode, Op, Refusal, RenameMode, XattrMode, XattrName, limits,
};
use tenure_wire::owner::{Hold, Opened};
use tenure_wire::shared::{Deed, Look, Seen, WriteAt};
use tenure_wire::{Done, Error, Room};

impl Inner {
    fn look(&self, look: &Look) -> Result<Seen, Error> {
        wait::before_waiting()?;
        let who = self.who;
        self.ask(Callers::MayLeave, |owner| owner.look(who, look))
    }

    fn look_at_inode(&self, look: &Look) -> Result<(Ino, Attr), Error> {
        match self.look(look)? {
            Seen::Inode(ino, attr) => Ok((ino, attr)),
            Seen::Entries(_) | Seen::Bytes(_) | Seen::Offset(_) | Seen::Totals { .. } => Err(odd()),
        }
    }

    fn look_at_bytes(&self, look: &Look) -> Result<Vec<u8>, Error> {
        match self.look(look)? {
            Seen::Bytes(bytes) => Ok(bytes),
            Seen::Inode(..) | Seen::Entries(_) | Seen::Offset(_) | Seen::Totals { .. } => Err(odd()),
        }
    }
}

fn odd() -> Error {
    Failure::Unknown("the owner has answered another question".into()).into()
}

impl SharedBranch {
    /// Makes an inode with an entry, and opens it.
    pub fn create_open(&self, parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error> {
        self.create_with(parent, name, node, Hold::Open)
    }

    fn create_with(
        &self,
        parent: Ino,
        name: &Name,
        node: &NewNode,
        hold: Hold,
    ) -> Result<(Ino, Attr), Error> {
        let time = self.inner.now();
        let made = self.inner.make(hold, |ino| Op::Create {
            parent,
            name: name.clone(),
            ino,
            node: node.clone(),
            time,
        })?;
        made.ok_or(Refusal::NotFound.into())
    }

    /// Writes behind the end of a file, wherever that is when the owner orders it.
    pub fn append(&self, ino: Ino, bytes: &[u8]) -> Result<(), Error> {
        self.put(ino, WriteAt::End, bytes)
    }

    fn put(&self, ino: Ino, at: WriteAt, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let deed = Deed::Write {
            ino,
            at,
            bytes: bytes.into(),
            time: self.inner.now(),
        };
        self.inner.act(deed, Hold::No).map(drop)
    }
}

impl Files for SharedBranch {
    fn attr(&self, ino: Ino) -> Result<Attr, Error> {
        Ok(self.inner.look_at_inode(&Look::Attr(ino))?.1)
    }

    fn lookup(&self, parent: Ino, name: &Name) -> Result<(Ino, Attr), Error> {
        let name = name.clone();
        self.inner.look_at_inode(&Look::Lookup { parent, name })
    }

    fn list(
        &self,
        parent: Ino,
        after: u64,
        ListingRoom { len, .. }: ListingRoom,
        listing: &mut dyn Listing,
    ) -> Result<(), Error> {
        listing.begin();
        let mut after = after;
        loop {
            let Seen::Entries(entries) = self.inner.look(&Look::List { parent, after, len })? else {
                return Err(odd());
            };
            let Some(last) = entries.last().map(|entry| entry.cookie) else {
                return Ok(());
            };
            for entry in &entries {
                let entry = DirEntry {
                    cookie: entry.cookie,
                    ino: entry.ino,
                    kind: entry.kind,
                    name: &entry.name,
                };
                if listing.add(entry, None) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            after = last;
        }
    }

    fn target(&self, ino: Ino) -> Result<Box<[u8]>, Error> {
        Ok(self.inner.look_at_bytes(&Look::Target(ino))?.into())
    }

    fn create(&self, parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error> {
        self.create_with(parent, name, node, Hold::No)
    }

    /// It is open from then on: without a name it would be gone.
    fn create_unnamed(&self, parent: Ino, node: &NewNode) -> Result<(Ino, Attr), Error> {
        let time = self.inner.now();
        let made = self.inner.make(Hold::Open, |ino| Op::CreateUnnamed {
            parent,
            ino,
            node: node.clone(),
            time,
        })?;
        made.ok_or(Refusal::NotFound.into())
    }

    fn link(&self, ino: Ino, parent: Ino, name: &Name) -> Result<Attr, Error> {
        let op = Op::Link {
            ino,
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        Ok(self.inner.op_of_inode(op)?.1)
    }

    fn unlink(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let op = Op::Unlink {
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        self.inner.op(op).map(outcome)
    }

    fn rmdir(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let op = Op::Rmdir {
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        self.inner.op(op).map(outcome)
    }

    fn rename(
        &self,
        (from, name): (Ino, &Name),
        (to, new_name): (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Outcome, Error> {
        let time = self.inner.now();
        let rename = |mode| Op::Rename {
            from,
            name: name.clone(),
            to,
            new_name: new_name.clone(),
            mode,
            time,
        };
        let renamed = match mode {
            RenameMode::Whiteout(_) => self.inner.make(Hold::No, |ino| rename(RenameMode::Whiteout(ino))),
            RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => self.inner.op(rename(mode)),
        };
        renamed.map(outcome)
    }

    fn set_attr(&self, ino: Ino, change: &AttrChange) -> Result<Attr, Error> {
        let op = Op::SetAttr {
            ino,
            change: *change,
            time: self.inner.now(),
        };
        Ok(self.inner.op_of_inode(op)?.1)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Error> {
        let name = name.into();
        Ok(self.inner.look_at_bytes(&Look::Xattr { ino, name })?.into())
    }

    fn xattrs(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        self.inner.look_at_bytes(&Look::Xattrs(ino))
    }

    fn set_xattr(&self, ino: Ino, name: XattrName, value: &[u8], mode: XattrMode) -> Result<(), Error> {
        let op = Op::SetXattr {
            ino,
            name,
            value: value.into(),
            mode,
            time: self.inner.now(),
        };
        self.inner.op(op).map(drop)
    }

    fn remove_xattr(&self, ino: Ino, name: XattrName) -> Result<(), Error> {
        let time = self.inner.now();
        self.inner.op(Op::RemoveXattr { ino, name, time }).map(drop)
    }

    /// The owner drops it once no session has it open.
    fn drop_orphan_soon(&self, _: Ino) {}

    fn read_into(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        for part in into.chunks_mut(limits::CHUNK_LEN_MAX) {
            let (offset, len) = (offset + filled as u64, part.len() as u32);
            let bytes = self.inner.look_at_bytes(&Look::Read { ino, offset, len })?;
            let part = part.get_mut(..bytes.len()).ok_or_else(odd)?;
            part.copy_from_slice(&bytes);
            filled += bytes.len();
            if bytes.len() < len as usize {
                break;
            }
        }
        Ok(filled)
    }

    fn write(&self, ino: Ino, offset: u64, bytes: Bytes) -> Result<(), Error> {
        self.put(ino, WriteAt::Offset(offset), &bytes)
    }

    fn grow(&self, ino: Ino, size: u64) -> Result<(), Error> {
        let op = Op::Write {
            ino,
            pieces: Vec::new(),
            size,
            time: Some(self.inner.now()),
        };
        self.inner.op(op).map(drop)
    }

    fn punch(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        let time = self.inner.now();
        let op = Op::Punch {
            ino,
            offset,
            len,
            time,
        };
        self.inner.op(op).map(drop)
    }

    fn collapse(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        let time = self.inner.now();
        let op = Op::Collapse {
            ino,
            offset,
            len,
            time,
        };
        self.inner.op(op).map(drop)
    }

    fn insert(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        let time = self.inner.now();
        let op = Op::Insert {
            ino,
            offset,
            len,
            time,
        };
        self.inner.op(op).map(drop)
    }

    fn copy(
        &self,
        (from, from_offset): (Ino, u64),
        (to, to_offset): (Ino, u64),
        len: u64,
    ) -> Result<u64, Error> {
        let len = len.min(self.attr(from)?.size.saturating_sub(from_offset));
        if len > 0 {
            let op = Op::Copy {
                from,
                from_offset,
                to,
                to_offset,
                len,
                time: self.inner.now(),
            };
            self.inner.op(op)?;
        }
        Ok(len)
    }

    fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64, Error> {
        let look = match to {
            Seek::Data => Look::NextData(ino, offset),
            Seek::Hole => Look::NextHole(ino, offset),
        };
        match self.inner.look(&look)? {
            Seen::Offset(offset) => Ok(offset),
            Seen::Inode(..) | Seen::Entries(_) | Seen::Bytes(_) | Seen::Totals { .. } => Err(odd()),
        }
    }

    fn sync(&self, _: Ino, done: Done<()>) {
        self.inner.ask_sync(done);
    }

    fn sync_here(&self, _: Ino, done: Done<()>) {
        self.inner.ask_sync(done);
    }

    fn sync_all_then(&self, done: Done<()>) {
        self.inner.ask_sync(done);
    }

    fn totals(&self) -> Result<Totals, Error> {
        match self.inner.look(&Look::Totals)? {
            Seen::Totals { inodes, bytes } => Ok(Totals { inodes, bytes }),
            Seen::Inode(..) | Seen::Entries(_) | Seen::Bytes(_) | Seen::Offset(_) => Err(odd()),
        }
    }

    fn room(&self) -> Result<Room, Error> {
        wait::before_waiting()?;
        self.inner.owner.room()
    }

    fn opened(&self) -> &Opened {
        &self.inner.opened
    }

    fn unsynced(&self) -> Unsynced {
        self.inner.unsynced()
    }

    fn broken(&self) -> Option<Error> {
        self.inner.state.lock().broken.clone()
    }

    fn salvage(&self) -> Option<Salvage> {
        // What the owner has not ordered was acknowledged to nobody.
        None
    }

    fn trouble(&self) -> Option<Error> {
        self.inner.waiting.reason()
    }

    fn damage(&self) -> Vec<String> {
        // What is read is the owner's, who says what it has met.
        Vec::new()
    }

    fn close(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let synced = inner.sync_now();
        self.stop();
        if let Err(Error::Refused(Refusal::Stale)) = synced {
            // The session is over, or a copy of this process goes on with it.
            return synced;
        }
        let returned = match &synced {
            Ok(()) => inner.owner.give_back(inner.who.session, inner.who.branch),
            Err(_) => Ok(()),
        };
        let closed = match &returned {
            // An owner that has not answered once is not waited for again: it hears of the end by its silence.
            Err(Error::Failed(_)) => Ok(()),
            Ok(()) | Err(Error::Refused(_)) => inner.owner.close(inner.who.session),
        };
        synced.and(returned).and(closed)
    }
}

fn outcome(inode: Option<(Ino, Attr)>) -> Outcome {
    // The owner sees to inodes without an entry.
    Outcome { inode, orphan: None }
}
