//! A shared branch as files: each question is a look, each change an act.

use super::{Callers, Inner, Rests, SharedBranch};
use crate::branch::{Branch, Unsynced};
use crate::files::{Files, Listing, ListingRoom};
use crate::salvage::Salvage;
use crate::wait;
use bytes::Bytes;
use std::ops::ControlFlow;
use tenure_core::{DirEntry, Outcome, Seek, Totals};
use tenure_model::{
    Attr, AttrChange, Failure, Ino, Name, NewNode, Op, Refusal, RenameMode, Timestamp, XattrMode, XattrName,
    limits,
};
use tenure_wire::owner::{Hold, Opened};
use tenure_wire::shared::{Deed, Look, Seen, WriteAt};
use tenure_wire::{Done, Error, Room};

impl Inner {
    fn look(&self, look: &Look) -> Result<Seen, Error> {
        wait::before_waiting()?;
        let who = self.who;
        let mut asked = 0;
        let mut rests = Rests::begin(self);
        loop {
            match self.ask(Callers::MayLeave, |owner| owner.look(who, look, asked)) {
                Err(Error::Refused(Refusal::Elsewhere { asked: number })) => {
                    asked = number;
                    rests.rest()?;
                }
                seen => {
                    self.note_seen();
                    return seen;
                }
            }
        }
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
        let made = self.inner.here_in(parent, |held| {
            let made = held.create(parent, name, node)?;
            self.inner.open_here(made.0);
            Ok(made)
        })?;
        if let Some(made) = made {
            return Ok(made);
        }
        self.create_at_owner(parent, name, node, Hold::Open)
    }

    fn create_at_owner(
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
        let (ino, attr) = made.ok_or(Refusal::NotFound)?;
        self.inner.note_found(parent, ino, &attr);
        Ok((ino, attr))
    }

    /// Writes behind the end of a file, wherever that is when it is put in order.
    pub fn append(&self, ino: Ino, bytes: &[u8]) -> Result<(), Error> {
        let append = |held: &Branch| held.append(ino, Bytes::copy_from_slice(bytes));
        if self.inner.here_of(ino, append)?.is_some() {
            return Ok(());
        }
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

    /// Makes a change of an inode, here or by the owner.
    fn change(
        &self,
        ino: Ino,
        here: impl Fn(&Branch) -> Result<(), Error>,
        op: impl FnOnce(Timestamp) -> Op,
    ) -> Result<(), Error> {
        if self.inner.here_of(ino, here)?.is_some() {
            return Ok(());
        }
        self.inner.op(op(self.inner.now())).map(drop)
    }

    /// Removes an entry, or moves one, here or by the owner.
    fn remove(
        &self,
        directory: Ino,
        here: impl Fn(&Branch) -> Result<Outcome, Error>,
        there: impl FnOnce() -> Result<Option<(Ino, Attr)>, Error>,
    ) -> Result<Outcome, Error> {
        let inode = match self.inner.here_in(directory, here)? {
            Some(outcome) => {
                self.inner.note_ended(outcome);
                outcome.inode
            }
            None => there()?,
        };
        // The owner sees to inodes without an entry.
        Ok(Outcome { inode, orphan: None })
    }

    fn list_at_owner(
        &self,
        parent: Ino,
        after: u64,
        len: u32,
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

    fn read_at_owner(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
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
}

impl Files for SharedBranch {
    fn attr(&self, ino: Ino) -> Result<Attr, Error> {
        match self.inner.seen_here(ino, |held| held.attr(ino))? {
            Some(attr) => Ok(attr),
            None => Ok(self.inner.look_at_inode(&Look::Attr(ino))?.1),
        }
    }

    fn lookup(&self, parent: Ino, name: &Name) -> Result<(Ino, Attr), Error> {
        let here = self.inner.seen_here(parent, |held| held.find(parent, name))?;
        if let Some(ino) = here {
            // What it names may not be lent.
            return Ok((ino, self.attr(ino)?));
        }
        if let Some(found) = self.inner.found_here(parent, name)? {
            return Ok(found);
        }
        let turns = self.inner.held.turns();
        let look = Look::Lookup {
            parent,
            name: name.clone(),
        };
        let (ino, attr) = self.inner.look_at_inode(&look)?;
        self.inner.note_found(parent, ino, &attr);
        self.inner.held.note_known((parent, name), ino, turns);
        // The owner may not know yet what was changed of it here.
        let here = self.inner.seen_here(ino, |held| held.attr(ino))?;
        Ok((ino, here.unwrap_or(attr)))
    }

    fn list(
        &self,
        parent: Ino,
        after: u64,
        ListingRoom { len, .. }: ListingRoom,
        listing: &mut dyn Listing,
    ) -> Result<(), Error> {
        let room = ListingRoom {
            with_attrs: false,
            len,
        };
        let here = self
            .inner
            .seen_here(parent, |held| Files::list(held, parent, after, room, listing))?;
        match here {
            Some(()) => Ok(()),
            None => self.list_at_owner(parent, after, len, listing),
        }
    }

    fn target(&self, ino: Ino) -> Result<Box<[u8]>, Error> {
        match self.inner.seen_here(ino, |held| held.target(ino))? {
            Some(target) => Ok(target),
            None => Ok(self.inner.look_at_bytes(&Look::Target(ino))?.into()),
        }
    }

    fn create(&self, parent: Ino, name: &Name, node: &NewNode) -> Result<(Ino, Attr), Error> {
        match self
            .inner
            .here_in(parent, |held| held.create(parent, name, node))?
        {
            Some(made) => Ok(made),
            None => self.create_at_owner(parent, name, node, Hold::No),
        }
    }

    /// It is open from then on: without a name it would be gone.
    fn create_unnamed(&self, parent: Ino, node: &NewNode) -> Result<(Ino, Attr), Error> {
        let made = self.inner.here_in(parent, |held| {
            let made = held.create_unnamed(parent, node)?;
            self.inner.open_here(made.0);
            self.inner.note_orphan(made.0);
            Ok(made)
        })?;
        if let Some(made) = made {
            return Ok(made);
        }
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
        if let Some(attr) = self.inner.here_in(parent, |held| held.link(ino, parent, name))? {
            self.inner.note_adopted(ino);
            return Ok(attr);
        }
        let op = Op::Link {
            ino,
            parent,
            name: name.clone(),
            time: self.inner.now(),
        };
        Ok(self.inner.op_of_inode(op)?.1)
    }

    fn unlink(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let there = || {
            self.inner.op(Op::Unlink {
                parent,
                name: name.clone(),
                time: self.inner.now(),
            })
        };
        self.remove(parent, |held| held.unlink(parent, name), there)
    }

    fn rmdir(&self, parent: Ino, name: &Name) -> Result<Outcome, Error> {
        let there = || {
            self.inner.op(Op::Rmdir {
                parent,
                name: name.clone(),
                time: self.inner.now(),
            })
        };
        self.remove(parent, |held| held.rmdir(parent, name), there)
    }

    fn rename(
        &self,
        (from, name): (Ino, &Name),
        (to, new_name): (Ino, &Name),
        mode: RenameMode,
    ) -> Result<Outcome, Error> {
        let there = || {
            let time = self.inner.now();
            let rename = |mode| Op::Rename {
                from,
                name: name.clone(),
                to,
                new_name: new_name.clone(),
                mode,
                time,
            };
            match mode {
                RenameMode::Whiteout(_) => self.inner.make(Hold::No, |ino| rename(RenameMode::Whiteout(ino))),
                RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => {
                    self.inner.op(rename(mode))
                }
            }
        };
        // Both are needed; where one is not lent the owner does it.
        let is_far = from != to && self.inner.here_in(to, |_| Ok(()))?.is_none();
        if is_far {
            let (inode, orphan) = (there()?, None);
            return Ok(Outcome { inode, orphan });
        }
        self.remove(
            from,
            |held| held.rename((from, name), (to, new_name), mode),
            there,
        )
    }

    fn set_attr(&self, ino: Ino, change: &AttrChange) -> Result<Attr, Error> {
        if let Some(attr) = self.inner.here_of(ino, |held| held.set_attr(ino, change))? {
            return Ok(attr);
        }
        let op = Op::SetAttr {
            ino,
            change: *change,
            time: self.inner.now(),
        };
        Ok(self.inner.op_of_inode(op)?.1)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Box<[u8]>, Error> {
        if let Some(value) = self.inner.seen_here(ino, |held| held.xattr(ino, name))? {
            return Ok(value);
        }
        let name = name.into();
        Ok(self.inner.look_at_bytes(&Look::Xattr { ino, name })?.into())
    }

    fn xattrs(&self, ino: Ino) -> Result<Vec<u8>, Error> {
        match self.inner.seen_here(ino, |held| held.xattrs(ino))? {
            Some(names) => Ok(names),
            None => self.inner.look_at_bytes(&Look::Xattrs(ino)),
        }
    }

    fn set_xattr(&self, ino: Ino, name: XattrName, value: &[u8], mode: XattrMode) -> Result<(), Error> {
        let here = |held: &Branch| held.set_xattr(ino, name.clone(), value, mode);
        self.change(ino, here, |time| Op::SetXattr {
            ino,
            name: name.clone(),
            value: value.into(),
            mode,
            time,
        })
    }

    fn remove_xattr(&self, ino: Ino, name: XattrName) -> Result<(), Error> {
        let here = |held: &Branch| held.remove_xattr(ino, name.clone());
        self.change(ino, here, |time| Op::RemoveXattr {
            ino,
            name: name.clone(),
            time,
        })
    }

    /// The owner drops it once no session has it open.
    fn drop_orphan_soon(&self, _: Ino) {}

    fn read_into(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        match self
            .inner
            .seen_here(ino, |held| held.read_into(ino, offset, into))?
        {
            Some(len) => Ok(len),
            None => self.read_at_owner(ino, offset, into),
        }
    }

    fn append(&self, ino: Ino, bytes: Bytes) -> Result<Option<u64>, Error> {
        SharedBranch::append(self, ino, &bytes).map(|()| None)
    }

    fn write(&self, ino: Ino, offset: u64, bytes: Bytes) -> Result<(), Error> {
        if self
            .inner
            .here_of(ino, |held| held.write(ino, offset, bytes.clone()))?
            .is_some()
        {
            return Ok(());
        }
        self.put(ino, WriteAt::Offset(offset), &bytes)
    }

    fn grow(&self, ino: Ino, size: u64) -> Result<(), Error> {
        self.change(
            ino,
            |held| held.grow(ino, size),
            |time| Op::Write {
                ino,
                pieces: Vec::new(),
                size,
                time: Some(time),
            },
        )
    }

    fn punch(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            ino,
            |held| held.punch(ino, offset, len),
            |time| Op::Punch {
                ino,
                offset,
                len,
                time,
            },
        )
    }

    fn collapse(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            ino,
            |held| held.collapse(ino, offset, len),
            |time| Op::Collapse {
                ino,
                offset,
                len,
                time,
            },
        )
    }

    fn insert(&self, ino: Ino, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            ino,
            |held| held.insert(ino, offset, len),
            |time| Op::Insert {
                ino,
                offset,
                len,
                time,
            },
        )
    }

    fn copy(
        &self,
        (from, from_offset): (Ino, u64),
        (to, to_offset): (Ino, u64),
        len: u64,
    ) -> Result<u64, Error> {
        let here = |held: &Branch| held.copy((from, from_offset), (to, to_offset), len);
        if self.inner.held.covers(from)
            && let Some(len) = self.inner.here_of(to, here)?
        {
            return Ok(len);
        }
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
        if let Some(found) = self.inner.seen_here(ino, |held| held.seek(ino, offset, to))? {
            return Ok(found);
        }
        let look = match to {
            Seek::Data => Look::NextData(ino, offset),
            Seek::Hole => Look::NextHole(ino, offset),
        };
        match self.inner.look(&look)? {
            Seen::Offset(offset) => Ok(offset),
            Seen::Inode(..) | Seen::Entries(_) | Seen::Bytes(_) | Seen::Totals { .. } => Err(odd()),
        }
    }

    fn sync(&self, ino: Ino, done: Done<()>) {
        self.inner.sync_with(|held, done| held.sync(ino, done), done);
    }

    fn sync_here(&self, ino: Ino, done: Done<()>) {
        self.sync(ino, done);
    }

    fn sync_all_then(&self, done: Done<()>) {
        self.inner.sync_with(|held, done| held.sync_all_then(done), done);
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
        // Of what it has asked for, what the owner has not ordered was acknowledged to nobody.
        self.inner.held.salvage()
    }

    fn trouble(&self) -> Option<Error> {
        self.inner.waiting.reason().or_else(|| self.inner.held.trouble())
    }

    fn damage(&self) -> Vec<String> {
        // What is read at the owner it says itself.
        self.inner.held.damage()
    }

    fn close(&self) -> Result<(), Error> {
        let inner = &self.inner;
        if self.inner.held.inner.is_lost() {
            self.inner.held.inner.save();
            self.stop();
            return Err(Refusal::Stale.into());
        }
        let synced = inner.held.sync_all().and_then(|()| inner.sync_now());
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
