//! Choosing the next step from what there is.

use super::profile::Topic;
use super::{ContentStep, EntryStep, InodeStep, Place, Profile, Step};
use crate::check::{Content, Names};
use crate::random::Random;
use std::time::Duration;
use tenure_model::acl::{self, Tag};
use tenure_model::{Ino, Kind, Name, RenameMode, XattrMode, XattrName};

/// Offsets that make a file sparse.
const FAR: [u64; 4] = [1 << 20, 1 << 30, (1 << 32) - 5, 1 << 42];
/// Bytes in a file that grows by being written over and over.
const FILE_LEN_MAX: u64 = 4 << 20;
/// Bytes in a file of which a range may be moved: the reference moves every byte.
const SHIFT_LEN_MAX: u64 = 1 << 20;

/// What there is to choose from.
struct Chooser<'a> {
    names: &'a Names,
    random: &'a mut Random,
    profile: Profile,
    files: Vec<Ino>,
    directories: Vec<Ino>,
}

/// Chooses a step; none when the topic that came up has nothing to be about.
pub(crate) fn choose<'a>(
    profile: Profile,
    names: &Names,
    content: impl Fn(Ino) -> Option<&'a Content>,
    random: &mut Random,
) -> Option<Step> {
    let of_kind = |kind| {
        let found = names.inodes.iter().filter(move |(_, inode)| inode.kind == kind);
        found.map(|(ino, _)| *ino).collect()
    };
    let topic = profile.topic(random);
    let mut chooser = Chooser {
        names,
        random,
        profile,
        files: of_kind(Kind::File),
        directories: of_kind(Kind::Directory),
    };
    chooser.step(topic, &|ino| content(ino).map_or(0, Content::size))
}

impl Chooser<'_> {
    fn step(&mut self, topic: Topic, size: &dyn Fn(Ino) -> u64) -> Option<Step> {
        Some(match topic {
            Topic::Create if self.files.len() > self.profile.files_max() => Step::Entry(self.unlink()?),
            Topic::Create => Step::Entry(self.create(true)),
            Topic::Unnamed => Step::Entry(self.create(false)),
            Topic::Mkdir => Step::Entry(self.mkdir()),
            Topic::Link => Step::Entry(EntryStep::Link {
                ino: self.inode(),
                to: self.free_place(),
            }),
            Topic::Unlink => Step::Entry(self.unlink()?),
            Topic::Rmdir => Step::Entry(EntryStep::Rmdir {
                at: self.taken_place()?,
            }),
            Topic::Rename => Step::Entry(self.rename()?),
            Topic::Attribute => Step::Inode(self.inode(), self.attribute()),
            Topic::Xattr if self.random.one_in(5) => self.acl(),
            Topic::Xattr => Step::Inode(self.inode(), self.xattr()),
            Topic::Sync => Step::Inode(self.inode(), InodeStep::Sync),
            Topic::Look => Step::Inode(self.inode(), InodeStep::Look),
            Topic::Drop => {
                let is_orphan = |ino: &&Ino| self.names.inodes[*ino].nlink == 0;
                Step::Inode(*self.files.iter().find(is_orphan)?, InodeStep::Drop)
            }
            Topic::Write => self.on_file(size, Self::write)?,
            Topic::Append => self.on_file(size, Self::append)?,
            Topic::Resize => self.on_file(size, |this, size| ContentStep::Resize(this.new_size(size)))?,
            Topic::Range => self.on_file(size, Self::range)?,
            Topic::Copy => self.on_file(size, Self::copy)?,
            Topic::Read => self.on_file(size, Self::read)?,
            Topic::SyncAll => Step::SyncAll,
            Topic::Compare => Step::Compare,
            Topic::Pass => Step::Pass {
                time: Duration::from_millis(self.random.between(1, 1500)),
            },
            Topic::Jump => Step::Jump {
                secs: self.random.below(2_000_000) as i64 - 1_000_000,
            },
            Topic::Idle => Step::Idle,
            Topic::Branches => match self.random.below(5) {
                0 | 1 => Step::Fork,
                2 | 3 => Step::Checkpoint,
                _ => Step::Delete,
            },
            Topic::Inspect => Step::Inspect,
            Topic::Remount => Step::Remount,
            Topic::Reopen => Step::Reopen,
            Topic::Switch => Step::Switch,
            Topic::Rival if self.random.one_in(2) => Step::Ask,
            Topic::Rival => Step::TakeOver,
            Topic::Fold => Step::Fold,
            Topic::Check => Step::Check,
            Topic::Crash if self.random.one_in(2) => Step::Kill,
            Topic::Crash => Step::LosePower,
            Topic::Trouble => Step::Trouble,
        })
    }

    /// Makes a step with a file and its size.
    fn on_file(
        &mut self,
        size: &dyn Fn(Ino) -> u64,
        make: fn(&mut Self, u64) -> ContentStep,
    ) -> Option<Step> {
        let ino = self.file()?;
        Some(Step::Content(ino, make(self, size(ino))))
    }

    fn write(&mut self, size: u64) -> ContentStep {
        let (len, seed) = (self.profile.write_len(self.random), self.seed());
        let offset = self.offset(size, len);
        ContentStep::Write { offset, len, seed }
    }

    fn append(&mut self, size: u64) -> ContentStep {
        if size >= FILE_LEN_MAX {
            return self.write(size);
        }
        ContentStep::Append {
            len: self.profile.write_len(self.random),
            seed: self.seed(),
        }
    }

    fn copy(&mut self, size: u64) -> ContentStep {
        ContentStep::Copy {
            offset: self.random.below(size + 1),
            to: (*self.random.pick(&self.files), self.random.below(FILE_LEN_MAX)),
            len: self.random.between(1, 300_000),
        }
    }

    fn read(&mut self, size: u64) -> ContentStep {
        ContentStep::Read {
            offset: self.random.below(size + 10),
            len: self.random.between(1, 100_000) as usize,
        }
    }

    fn range(&mut self, size: u64) -> ContentStep {
        let offset = self.random.below(size + 2);
        let len = self.random.between(1, (size / 2 + 2).min(1 << 20));
        match self.random.below(4) {
            0 if size < SHIFT_LEN_MAX => ContentStep::Collapse { offset, len },
            1 if size < SHIFT_LEN_MAX => ContentStep::Insert { offset, len },
            _ => ContentStep::Punch { offset, len },
        }
    }

    /// Returns where a write goes: mostly into the file or to its end.
    fn offset(&mut self, size: u64, len: usize) -> u64 {
        if self.profile == Profile::Database && !self.random.one_in(8) {
            return self.random.below(64) * 4096;
        }
        match self.random.below(20) {
            0 => *self.random.pick(&FAR) + self.random.below(5000),
            1..=8 => 0,
            9..=12 if size < FILE_LEN_MAX => size,
            _ => self.random.below(size.min(FILE_LEN_MAX) + len as u64 / 2 + 1),
        }
    }

    fn new_size(&mut self, size: u64) -> u64 {
        match self.random.below(6) {
            0 | 1 => 0,
            2 => size + self.random.below(100_000),
            3 => *self.random.pick(&FAR),
            _ => self.random.below(size + 1),
        }
    }

    fn create(&mut self, is_named: bool) -> EntryStep {
        let kind = match self.random.below(30) {
            0 if is_named => Kind::Symlink,
            1 if is_named => Kind::Fifo,
            2 if is_named => Kind::CharDevice,
            _ => Kind::File,
        };
        let mode = [0o644, 0o600, 0o755, 0o4755][self.random.below(4) as usize];
        let at = self.free_place();
        EntryStep::Create {
            at,
            kind,
            mode,
            is_named,
        }
    }

    fn mkdir(&mut self) -> EntryStep {
        let at = self.free_place();
        EntryStep::Create {
            at,
            kind: Kind::Directory,
            mode: 0o755,
            is_named: true,
        }
    }

    fn unlink(&mut self) -> Option<EntryStep> {
        let at = self.taken_place()?;
        let drops = !self.random.one_in(4);
        Some(EntryStep::Unlink { at, drops })
    }

    fn rename(&mut self) -> Option<EntryStep> {
        let from = self.taken_place()?;
        let to = if self.random.one_in(2) {
            self.free_place()
        } else {
            self.taken_place()?
        };
        let mode = match self.random.below(8) {
            0 => RenameMode::NoReplace,
            1 | 2 => RenameMode::Exchange,
            // The number is the client's to choose.
            3 if self.random.one_in(2) => RenameMode::Whiteout(Ino(0)),
            _ => RenameMode::Replace,
        };
        Some(EntryStep::Rename { from, to, mode })
    }

    fn attribute(&mut self) -> InodeStep {
        if self.random.one_in(3) {
            return InodeStep::SetOwner(self.random.below(3) as u32, self.random.below(3) as u32);
        }
        InodeStep::SetMode(self.random.below(0o10000) as u32)
    }

    fn xattr(&mut self) -> InodeStep {
        let name = format!("user.{}", self.random.below(4));
        let name = XattrName::parse(name.as_bytes()).expect("it is a name");
        if self.random.one_in(4) {
            return InodeStep::RemoveXattr(name);
        }
        let modes = [XattrMode::Set, XattrMode::Create, XattrMode::Replace];
        InodeStep::SetXattr {
            name,
            len: self.random.below(2000) as usize,
            mode: *self.random.pick(&modes),
        }
    }

    /// Returns a step that sets an access control list, mostly where it may be.
    fn acl(&mut self) -> Step {
        let (ino, name) = match self.random.below(4) {
            0 => (self.inode(), acl::ACCESS),
            1 => (self.inode(), acl::DEFAULT),
            2 => (self.directory(), acl::DEFAULT),
            _ => (self.inode(), acl::ACCESS),
        };
        let name = XattrName::parse(name).expect("it is a name");
        let mut lines = vec![(Tag::UserObj, u32::MAX)];
        let is_named = self.random.one_in(2);
        lines.extend(is_named.then_some((Tag::User, self.random.below(3) as u32)));
        lines.push((Tag::GroupObj, u32::MAX));
        lines.extend(is_named.then_some((Tag::Mask, u32::MAX)));
        lines.push((Tag::Other, u32::MAX));
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, id) in lines {
            list.extend_from_slice(&(tag as u16).to_le_bytes());
            list.extend_from_slice(&(self.random.below(8) as u16).to_le_bytes());
            list.extend_from_slice(&id.to_le_bytes());
        }
        Step::Inode(ino, InodeStep::SetAcl { name, list })
    }

    fn seed(&mut self) -> u64 {
        // Now and then the same bytes again: a drive keeps them once.
        if self.random.one_in(10) {
            self.random.below(3)
        } else {
            self.random.next()
        }
    }

    fn file(&mut self) -> Option<Ino> {
        (!self.files.is_empty()).then(|| *self.random.pick(&self.files))
    }

    fn inode(&mut self) -> Ino {
        let all = self.random.below(8);
        match self.file() {
            Some(file) if all > 0 => file,
            _ => self.directory(),
        }
    }

    fn directory(&mut self) -> Ino {
        *self.random.pick(&self.directories)
    }

    /// Returns a place that is most likely free.
    fn free_place(&mut self) -> Place {
        let directory = self.directory();
        let number = self.random.below(200);
        let name: Vec<u8> = match number {
            0 => vec![b'l'; 255],
            1 => vec![0xff, 0xfe, b'\n'],
            _ => format!("n{number}").into_bytes(),
        };
        (directory, Name::parse(&name).expect("they are names"))
    }

    /// Returns a place where something is.
    fn taken_place(&mut self) -> Option<Place> {
        for _ in 0..4 {
            let directory = self.directory();
            let entries = &self.names.inodes[&directory].entries;
            if !entries.is_empty() {
                let at = self.random.below(entries.len() as u64) as usize;
                let name = entries.keys().nth(at).expect("it is below their number");
                return Some((directory, name.clone()));
            }
        }
        None
    }
}
