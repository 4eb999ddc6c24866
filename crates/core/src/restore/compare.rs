//! Which names stay, which go and which are made: both states are gone through side by side, at and below the path.

use super::{Directory, Fate, Put, Restore};
use crate::branch::Branch;
use crate::tree::Missing;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tenure_model::attr::Xattrs;
use tenure_model::{Attr, Ino, Name, Op};

/// Something that is to be looked at.
pub(super) enum Task {
    /// A name that the state has.
    Entry {
        /// Its directory, by its number in the state.
        directory: Ino,
        name: Name,
        /// The directory and the inode that it has in the branch.
        now: Option<(Ino, Ino)>,
        /// The inode that it has in the state.
        then: Ino,
    },
    /// What is in a directory of the state, and in the one that goes on as it.
    Pair { now: Option<Ino>, then: Ino },
    /// A name of the branch that goes, with all that is below it.
    Doomed { parent: Ino, name: Name, ino: Ino },
}

/// A directory that is listed, as far as that is.
#[derive(Default)]
pub(super) struct Listing {
    cookie: u64,
    entries: BTreeMap<Box<[u8]>, Ino>,
}

impl Listing {
    fn go_on(&mut self, branch: &Branch, directory: Ino) -> Result<(), Missing> {
        let Self { cookie, entries } = self;
        branch.list(directory, *cookie, |entry| {
            *cookie = entry.cookie;
            entries.insert(entry.name.into(), entry.ino);
            ControlFlow::Continue(())
        })
    }

    fn take(&mut self) -> Vec<(Name, Ino)> {
        let entries = std::mem::take(self).entries.into_iter();
        let parsed = |(name, ino): (Box<[u8]>, Ino)| {
            let name = Name::parse(&name).expect("only names are put");
            (name, ino)
        };
        entries.map(parsed).collect()
    }
}

impl Restore {
    /// Does one thing; where a page is missing, nothing of it.
    pub(super) fn look_at(&mut self, task: &Task) -> Result<(), Missing> {
        match task {
            Task::Entry {
                directory,
                name,
                now,
                then,
            } => self.look_at_entry((*directory, name), *now, *then),
            Task::Pair { now, then } => self.look_at_pair(*now, *then),
            Task::Doomed { parent, name, ino } => self.doom(*parent, name, *ino),
        }
    }

    fn look_at_pair(&mut self, now: Option<Ino>, then: Ino) -> Result<(), Missing> {
        let [here, there] = &mut self.listed;
        if let Some(directory) = now {
            here.go_on(&self.now.branch, directory)?;
        }
        there.go_on(&self.then.branch, then)?;
        let mut known: BTreeMap<Name, Ino> = here.take().into_iter().collect();
        for (name, ino) in there.take() {
            let now = now.zip(known.remove(&name));
            self.tasks.push(Task::Entry {
                directory: then,
                name,
                now,
                then: ino,
            });
        }
        let Some(parent) = now else { return Ok(()) };
        let gone = known.into_iter();
        self.tasks
            .extend(gone.map(|(name, ino)| Task::Doomed { parent, name, ino }));
        Ok(())
    }

    fn look_at_entry(
        &mut self,
        (directory, name): (Ino, &Name),
        now: Option<(Ino, Ino)>,
        then: Ino,
    ) -> Result<(), Missing> {
        let is = self.then.attr(then)?.expect("what is named is there");
        let was = match now {
            Some((parent, ino)) => Some((parent, ino, self.now.attr(ino)?.expect("what is named is there"))),
            None => None,
        };
        let fate = match &was {
            Some((_, _, attr)) if attr.is_directory() && is.is_directory() => Fate::Kept,
            Some((_, ino, attr)) if *ino == then && attr.kind == is.kind => self.fate_of(then, attr)?,
            // Another that is as it was will do as well.
            Some((_, ino, attr)) if (attr.nlink, is.nlink) == (1, 1) && !self.differs(*ino, then)? => {
                Fate::Kept
            }
            Some(_) | None => Fate::Made,
        };
        let elsewhere = self.now.attr(then)?;
        // From here on nothing is missing.
        let kept = was.filter(|_| fate == Fate::Kept);
        if let (Some((parent, ino, _)), Fate::Made) = (was, fate) {
            let name = name.clone();
            self.tasks.push(Task::Doomed { parent, name, ino });
        }
        if is.is_directory() {
            let now = kept.map(|(_, ino, _)| ino);
            self.tasks.push(Task::Pair { now, then });
            if let Some((_, number, attr)) = kept {
                let gives_acl = attr.xattrs.has(Xattrs::DEFAULT_ACL);
                self.directories.insert(then, Directory { number, gives_acl });
            }
        } else if let Some((_, ino, _)) = kept {
            self.numbers.insert(then, ino);
        } else if fate == Fate::Unsure || is.nlink > 1 && elsewhere.is_some_and(|attr| attr.nlink > 0) {
            self.unsure.insert(then);
        }
        self.puts.push(Put {
            directory,
            name: name.clone(),
            ino: then,
            is_directory: is.is_directory(),
            fate,
        });
        Ok(())
    }

    /// Returns whether a file that is at one place in both states goes on there.
    fn fate_of(&self, ino: Ino, attr: &Attr) -> Result<Fate, Missing> {
        if attr.nlink == 1 || !self.differs(ino, ino)? {
            return Ok(Fate::Kept);
        }
        Ok(Fate::Unsure)
    }

    fn doom(&mut self, parent: Ino, name: &Name, ino: Ino) -> Result<(), Missing> {
        let attr = self.now.attr(ino)?.expect("what is named is there");
        if attr.is_directory() {
            let here = &mut self.listed[0];
            here.go_on(&self.now.branch, ino)?;
            let inner = here.take().into_iter();
            let parent_of = ino;
            self.tasks.extend(inner.map(|(name, ino)| Task::Doomed {
                parent: parent_of,
                name,
                ino,
            }));
            let (name, time) = (name.clone(), self.time);
            self.rmdirs.push(Op::Rmdir { parent, name, time });
            self.touched.insert(parent);
            *self.removed.entry(ino).or_default() += 1;
        } else {
            self.unlink(parent, name.clone(), ino);
        }
        self.now.attrs.insert(ino, Some(attr));
        Ok(())
    }
}
