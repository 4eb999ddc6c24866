//! A change in the making: reads see what the same op has already put, the tree stays untouched.

use crate::branch::{Branch, Decision, Outcome, Totals, Undecided};
use crate::edits::Edits;
use crate::key::{Key, Named};
use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Malformed;
use tenure_model::{Attr, Ino, Name, Refusal, Timestamp};

/// One op's change of a branch, being decided.
pub(crate) struct Change<'a> {
    pub(crate) branch: &'a Branch,
    pub(crate) edits: Edits,
    pub(crate) totals: Totals,
    /// What was read or put so far: few, and each is needed again.
    attrs: RefCell<Vec<Known>>,
    outcome: Outcome,
}

/// An inode's attributes as a change knows them.
struct Known {
    ino: Ino,
    attr: Attr,
    is_put: bool,
}

/// An entry of a directory as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) cookie: u64,
    pub(crate) ino: Ino,
    pub(crate) d_type: u8,
}

impl<'a> Change<'a> {
    pub(crate) fn new(branch: &'a Branch) -> Self {
        Change {
            branch,
            edits: Edits::default(),
            totals: branch.totals,
            attrs: RefCell::default(),
            outcome: Outcome::default(),
        }
    }

    pub(crate) fn decision(mut self) -> Decision {
        for known in self.attrs.get_mut().iter().filter(|known| known.is_put) {
            self.edits.put_value(&Key::attr(known.ino), &known.attr);
        }
        Decision {
            edits: self.edits,
            totals: self.totals,
            outcome: self.outcome,
        }
    }

    /// Reads a record as this change has left it.
    pub(crate) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Undecided> {
        // The tree is read even when the change has the answer: the page must be there when it is applied.
        match self.edits.get(key) {
            Some(value) => {
                self.branch.tree.get(key, |_| ())?;
                Ok(value.map(read))
            }
            None => Ok(self.branch.tree.get(key, read)?),
        }
    }

    pub(crate) fn attr(&self, ino: Ino) -> Result<Attr, Undecided> {
        let mut attrs = self.attrs.borrow_mut();
        if let Some(known) = attrs.iter().find(|known| known.ino == ino) {
            return Ok(known.attr);
        }
        let attr = self.branch.attr(ino)?.ok_or(Refusal::NotFound)?;
        attrs.push(Known {
            ino,
            attr,
            is_put: false,
        });
        Ok(attr)
    }

    pub(crate) fn directory(&self, ino: Ino) -> Result<Attr, Undecided> {
        let attr = self.attr(ino)?;
        if !attr.is_directory() {
            return Err(Refusal::NotDirectory.into());
        }
        // A removed directory that somebody still stands in takes no new entries.
        if attr.nlink == 0 {
            Err(Refusal::NotFound.into())
        } else {
            Ok(attr)
        }
    }

    pub(crate) fn put_attr(&mut self, ino: Ino, attr: Attr) {
        let attrs = self.attrs.get_mut();
        attrs.retain(|known| known.ino != ino);
        attrs.push(Known {
            ino,
            attr,
            is_put: true,
        });
    }

    /// Names the inode that the caller is told about, and puts its attributes.
    pub(crate) fn answer(&mut self, ino: Ino, attr: Attr) {
        self.put_attr(ino, attr);
        self.outcome.inode = Some((ino, attr));
    }

    /// Begins an inode whose number nobody has used.
    pub(crate) fn begin(&mut self, ino: Ino, attr: Attr) -> Result<(), Undecided> {
        if ino <= Ino::ROOT || self.branch.attr(ino)?.is_some() {
            return Err(Refusal::InvalidArgument.into());
        }
        self.totals.inodes += 1;
        self.put_attr(ino, attr);
        Ok(())
    }

    /// Finds an entry of a directory, before anything is put or removed.
    pub(crate) fn find(&self, parent: Ino, name: &Name) -> Result<Option<Found>, Undecided> {
        debug_assert!(self.edits.is_empty());
        Ok(self.stored(parent, name)?.0)
    }

    /// Finds a cookie for an entry of a directory, before anything is put or removed; there must not be one of that name.
    pub(crate) fn vacant(&self, parent: Ino, name: &Name) -> Result<u64, Undecided> {
        debug_assert!(self.edits.is_empty());
        match self.stored(parent, name)? {
            (Some(_), _) => Err(Refusal::Exists.into()),
            (None, Some(cookie)) => Ok(cookie),
            (None, None) => Err(Refusal::NoSpace.into()),
        }
    }

    /// Finds an entry in the tree as it is, and the first cookie that is free for one of that name, if there is none.
    fn stored(&self, parent: Ino, name: &Name) -> Result<(Option<Found>, Option<u64>), Undecided> {
        let cookies = self.branch.names.cookies(name.as_bytes());
        let (mut found, mut vacant) = (None, cookies.start);
        self.branch.tree.scan(
            Bound::Included(&*Key::entry(parent, cookies.start)),
            Bound::Excluded(&*Key::entry(parent, cookies.end)),
            |key, value| {
                let Some(Named::Entry(_, cookie)) = Named::parse(key) else {
                    unreachable!("only entries lie between these keys")
                };
                vacant += u64::from(cookie == vacant);
                match entry_named(value, name) {
                    Some((ino, d_type)) => {
                        found = Some(Found { cookie, ino, d_type });
                        ControlFlow::Break(())
                    }
                    None => ControlFlow::Continue(()),
                }
            },
        )?;
        Ok((found, Some(vacant).filter(|vacant| cookies.contains(vacant))))
    }

    /// Puts an entry that is not there yet.
    pub(crate) fn add_entry(
        &mut self,
        parent: Ino,
        name: &Name,
        ino: Ino,
        d_type: u8,
    ) -> Result<(), Undecided> {
        for cookie in self.branch.names.cookies(name.as_bytes()) {
            if self.get(&Key::entry(parent, cookie), |_| ())?.is_none() {
                self.put_entry(parent, name, cookie, ino, d_type);
                return Ok(());
            }
        }
        Err(Refusal::NoSpace.into())
    }

    /// Lets an entry name an inode: another one, or its first.
    pub(crate) fn put_entry(&mut self, parent: Ino, name: &Name, cookie: u64, ino: Ino, d_type: u8) {
        self.edits.put_with(&Key::entry(parent, cookie), |bytes| {
            write_entry(bytes, ino, d_type, name)
        });
    }

    pub(crate) fn remove_entry(&mut self, parent: Ino, cookie: u64) {
        self.edits.remove(&Key::entry(parent, cookie));
    }

    /// Takes one entry, which `parent` had, from an inode's count; without any left it becomes an orphan.
    pub(crate) fn unlink(&mut self, ino: Ino, parent: Ino, time: Timestamp) -> Result<(), Undecided> {
        let mut attr = self.attr(ino)?;
        if attr.is_directory() {
            attr.nlink = 0;
        } else {
            attr.nlink -= 1;
            // Where its other entries are, if it has any, is not known from here.
            attr.parent = if attr.parent == parent {
                Ino(0)
            } else {
                attr.parent
            };
        }
        attr.ctime = time;
        if attr.nlink == 0 {
            self.orphan(ino)?;
        }
        self.answer(ino, attr);
        Ok(())
    }

    /// Notes an inode that has no entry.
    pub(crate) fn orphan(&mut self, ino: Ino) -> Result<(), Undecided> {
        let key = Key::orphan(ino);
        self.get(&key, |_| ())?;
        self.edits.put(&key, &[]);
        self.outcome.orphan = Some(ino);
        Ok(())
    }

    /// Counts what a directory gained or lost, and when.
    pub(crate) fn touch_directory(
        &mut self,
        ino: Ino,
        entries: i64,
        directories: i32,
        time: Timestamp,
    ) -> Result<(), Undecided> {
        let mut attr = self.attr(ino)?;
        attr.size = attr
            .size
            .checked_add_signed(entries)
            .expect("a directory counts its entries");
        attr.nlink = attr
            .nlink
            .checked_add_signed(directories)
            .expect("a directory counts its directories");
        attr.mtime = time;
        attr.ctime = time;
        self.put_attr(ino, attr);
        Ok(())
    }
}

/// Appends an entry's value: inode, kind, name.
pub(crate) fn write_entry(bytes: &mut Vec<u8>, ino: Ino, d_type: u8, name: &Name) {
    bytes.extend_from_slice(&ino.0.to_be_bytes());
    bytes.push(d_type);
    bytes.extend_from_slice(name.as_bytes());
}

/// Takes an entry's value apart: inode, kind, name.
pub(crate) fn entry_parts(value: &[u8]) -> Result<(Ino, u8, &[u8]), Malformed> {
    let parts = value.split_first_chunk::<8>().and_then(|(ino, rest)| {
        let (d_type, name) = rest.split_first()?;
        Some((Ino(u64::from_be_bytes(*ino)), *d_type, name))
    });
    parts.ok_or(tenure_model::codec::malformed("entry"))
}

fn entry_named(value: &[u8], name: &Name) -> Option<(Ino, u8)> {
    let (ino, d_type, found) = entry_parts(value).expect("only valid entries are put");
    (found == name.as_bytes()).then_some((ino, d_type))
}
