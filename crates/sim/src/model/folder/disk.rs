//! The disk in the world of `folder`, and the kernel's pages over it.

/// How many records a journal file holds.
pub(super) const FILE: usize = 2;
/// How many records the two journal files hold.
pub(super) const RECORDS: usize = 2 * FILE;
/// The record whose bytes are in the pack.
pub(super) const BULK: usize = 1;

/// Which process wrote something, from 1; 0 is none. It is the epoch that the process stamps, if that is claimed.
pub(super) type Epoch = u8;

/// What the bytes of one record's place hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bytes {
    /// Zeroes, as preallocated.
    Empty,
    /// Part of a write.
    Torn,
    /// A record, and who wrote the record before it: that tells which record it was.
    Record { by: Epoch, after: Epoch },
}

impl Bytes {
    /// Returns who wrote the record, 0 if there is none.
    pub(super) fn writer(self) -> Epoch {
        match self {
            Self::Empty | Self::Torn => 0,
            Self::Record { by, .. } => by,
        }
    }
}

/// A place on the disk and the kernel's page over it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Page {
    pub(super) cache: Bytes,
    pub(super) disk: Bytes,
    /// Whether a sync would write the page to the disk.
    pub(super) dirty: bool,
}

impl Page {
    const EMPTY: Self = Self {
        cache: Bytes::Empty,
        disk: Bytes::Empty,
        dirty: false,
    };

    /// A process writes: the kernel has it, the disk does not.
    pub(super) fn write(&mut self, bytes: Bytes) {
        (self.cache, self.dirty) = (bytes, true);
    }

    /// The kernel writes the page to the disk, if it is dirty.
    pub(super) fn write_back(&mut self) {
        if self.dirty {
            (self.disk, self.dirty) = (self.cache, false);
        }
    }

    /// The kernel's page is gone; what the disk has is read again.
    pub(super) fn drop_cache(&mut self) {
        (self.cache, self.dirty) = (self.disk, false);
    }
}

/// The folder: two journal files, of which the second is made when it is needed, and a pack.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) journal: [Page; RECORDS],
    pub(super) pack: Page,
    /// Whether the second file's directory entry exists, and whether it does on the disk.
    pub(super) entry: (bool, bool),
}

/// Something that the kernel does on its own.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Kernel {
    WritesBack {
        record: usize,
    },
    /// It does so while the power is lost.
    WritesHalf {
        record: usize,
    },
    /// It makes room: the page was clean.
    Drops {
        record: usize,
    },
    WritesBackTheEntry,
    WritesBackThePack,
}

impl Disk {
    /// A folder with a preallocated first file, empty.
    pub(super) const NEW: Self = Self {
        journal: [Page::EMPTY; RECORDS],
        pack: Page::EMPTY,
        entry: (false, false),
    };

    /// Whether the pack holds the bytes that `epoch` wrote.
    pub(super) fn pack_is_of(&self, epoch: Epoch) -> bool {
        self.pack.cache.writer() == epoch
    }

    fn pages(&mut self) -> impl Iterator<Item = &mut Page> {
        self.journal.iter_mut().chain([&mut self.pack])
    }

    /// Syncs everything, and has the kernel forget its pages: what is read now is what the disk has.
    pub(super) fn settle(&mut self) {
        self.entry.1 = self.entry.0;
        self.pages().for_each(|page| {
            page.write_back();
            page.drop_cache();
        });
    }

    /// A sync of everything fails: nothing reaches the disk, and the kernel takes its pages for clean.
    pub(super) fn lose_dirt(&mut self) {
        self.pages().for_each(|page| page.dirty = false);
    }

    /// Writes so many records again as they are, and the pack too if wanted and one of them is the bulk write.
    pub(super) fn write_again(&mut self, records: usize, pack: bool) {
        self.journal[..records]
            .iter_mut()
            .for_each(|page| page.write(page.cache));
        if pack && records > BULK {
            self.pack.write(self.pack.cache);
        }
    }

    /// Returns everything that the kernel may do next.
    pub(super) fn kernel_steps(&self) -> Vec<(Kernel, Self)> {
        let mut next = Vec::new();
        let mut add = |step, change: &dyn Fn(&mut Self)| {
            let mut after = self.clone();
            change(&mut after);
            next.push((step, after));
        };
        for (record, page) in self.journal.iter().enumerate() {
            if page.dirty {
                add(Kernel::WritesBack { record }, &|disk| {
                    disk.journal[record].write_back()
                });
                if page.disk != page.cache && page.disk != Bytes::Torn {
                    add(Kernel::WritesHalf { record }, &|disk| {
                        disk.journal[record].disk = Bytes::Torn
                    });
                }
            } else if page.disk != page.cache {
                add(Kernel::Drops { record }, &|disk| {
                    disk.journal[record].drop_cache()
                });
            }
        }
        if self.pack.dirty {
            add(Kernel::WritesBackThePack, &|disk| disk.pack.write_back());
        }
        if self.entry == (true, false) {
            add(Kernel::WritesBackTheEntry, &|disk| disk.entry.1 = true);
        }
        next
    }

    /// Returns what is left when the power is lost: what the disk has.
    pub(super) fn after_power_loss(&self) -> Self {
        let mut after = self.clone();
        after.entry.0 = after.entry.1;
        after.pack.drop_cache();
        after.journal.iter_mut().for_each(Page::drop_cache);
        if !after.entry.0 {
            after.journal[FILE..].fill(Page::EMPTY);
        }
        after
    }
}
