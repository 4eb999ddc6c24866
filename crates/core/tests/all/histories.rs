//! Random histories of ops, forks, folds and evictions, beside a reference that knows nothing of pages.
//!
//! After each step the branch must look like the reference, hold its invariants, and have answered as the reference
//! has. Beside it the same op is decided where nothing is in memory and every record lies on a page of its own: what
//! a decision did not read is missing when it is applied, and `apply` would panic.

mod step;

use crate::diff::{differences, hold_against};
use crate::reference::Reference;
use crate::stored::{KEY, Pages, ROOT};
use crate::visible::see;
use proptest::collection::vec;
use proptest::prelude::*;
use step::{
    Asked, AskedOfAttribute, AskedOfContent, AskedOfEntry, Elsewhere, Step, Which, name, step, xattr_name,
    xattr_value,
};
use tenure_core::tree::{Depth, Hand};
use tenure_core::{Branch, NameHash, Outcome};
use tenure_model::{Extent, Ino, Name, Op, Piece, RenameMode, Timestamp};

struct World {
    names: NameHash,
    /// Branches with what they must be like; steps act on the first.
    forks: Vec<(Branch, Reference)>,
    pages: Pages,
    hand: Hand,
    next: Ino,
    time: i64,
}

impl World {
    fn new(names: NameHash) -> Self {
        World {
            names,
            forks: vec![(Branch::new(names, ROOT), Reference::new(&ROOT))],
            pages: Pages::default(),
            hand: Hand::default(),
            next: Ino(16),
            time: 10,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Op(asked, elsewhere) => self.op(asked, *elsewhere),
            Step::Fork => self.forks.push(self.forks[0].clone()),
            Step::Turn => self.forks.rotate_left(1),
            Step::Fold => drop(self.pages.fold(self.forks[0].0.tree())),
            Step::Evict(bytes) => drop(self.forks[0].0.tree().evict(&mut self.hand, *bytes)),
            Step::Reload => self.forks[0].0 = self.pages.cold(&self.forks[0].0, self.names),
        }
    }

    fn op(&mut self, asked: &Asked, elsewhere: Elsewhere) {
        self.time += 1;
        let op = self.choose(asked);
        let (branch, reference) = &mut self.forks[0];
        let copy = match elsewhere {
            Elsewhere::No => None,
            Elsewhere::Cold => Some(self.pages.cold(branch, self.names)),
            Elsewhere::Sparse => Some(self.pages.sparse(branch, self.names)),
        };
        let orphans = reference.orphans();
        let before = reference.clone();
        let expected = reference.apply(&op).map(|ino| Outcome {
            inode: ino.map(|ino| (ino, reference.attr(ino))),
            orphan: reference.orphans().into_iter().find(|ino| !orphans.contains(ino)),
        });
        if expected.is_err() {
            *reference = before;
        }
        assert_eq!(self.pages.change(branch, &op), expected, "{op:?}");
        if let Some(mut copy) = copy {
            assert_eq!(
                self.pages.change(&mut copy, &op),
                expected,
                "{op:?} {elsewhere:?}"
            );
            copy.tree().check(Depth::Shape);
            assert_eq!(copy.totals(), branch.totals());
            let [there, here] = [&copy, &*branch].map(|branch| self.pages.records(branch));
            assert_eq!(there, here, "{op:?} {elsewhere:?}");
        }
        self.pages.check(branch);
        assert_eq!(see(&self.pages, branch), reference.see(), "{op:?}");
        assert_eq!(branch.totals().inodes, reference.inodes().len() as u64);
    }

    /// Returns one of `wanted`, or now and then any inode, or a number that none has.
    fn inode(&self, Which(which): Which, wanted: impl Fn(&Reference) -> Vec<Ino>) -> Ino {
        let (which, reference) = (usize::from(which), &self.forks[0].1);
        let choose = |inodes: Vec<Ino>| inodes.get(which / 32 % inodes.len().max(1)).copied();
        let chosen = match which % 32 {
            0 => None,
            1..4 => choose(reference.inodes()),
            _ => choose(wanted(reference)),
        };
        chosen.unwrap_or(Ino(which as u64))
    }

    fn any(&self, which: Which) -> Ino {
        self.inode(which, Reference::inodes)
    }

    fn directory(&self, which: Which) -> Ino {
        self.inode(which, Reference::directories)
    }

    fn file(&self, which: Which) -> Ino {
        self.inode(which, Reference::files)
    }

    /// Returns a directory and a name in it: mostly of an entry that is there, or else mostly of none.
    fn entry(&self, which: Which, is_there: bool) -> (Ino, Name) {
        let entries = self.forks[0].1.entries();
        let Which(number) = which;
        if entries.is_empty() || (number % 8 < 2) == is_there {
            return (self.directory(Which(number / 8)), name(Which(number / 256)));
        }
        entries[usize::from(number / 8) % entries.len()].clone()
    }

    /// Returns an offset that mostly lies in the file, or just behind its end.
    fn offset(&self, ino: Ino, offset: u64) -> u64 {
        let size = self.forks[0].1.size(ino);
        if offset % 8 == 7 || offset > 400 {
            offset
        } else {
            offset % (size + 12)
        }
    }

    fn begin(&mut self) -> Ino {
        let ino = self.next;
        // Now and then a number that is used already.
        if self.time % 30 != 0 {
            self.next = ino.next();
        }
        ino
    }

    fn choose(&mut self, asked: &Asked) -> Op {
        let time = Timestamp {
            secs: self.time,
            nanos: 7,
        };
        match asked.clone() {
            Asked::Entry(asked) => self.choose_entry(asked, time),
            Asked::Attribute(asked) => self.choose_attribute(asked, time),
            Asked::Content(asked) => self.choose_content(asked, time),
        }
    }

    fn choose_entry(&mut self, asked: AskedOfEntry, time: Timestamp) -> Op {
        match asked {
            AskedOfEntry::Create(place, node) => {
                let (parent, name) = self.entry(place, false);
                Op::Create {
                    parent,
                    name,
                    ino: self.begin(),
                    node,
                    time,
                }
            }
            AskedOfEntry::CreateUnnamed(parent, node) => Op::CreateUnnamed {
                parent: self.directory(parent),
                ino: self.begin(),
                node,
                time,
            },
            AskedOfEntry::Link(ino, place) => {
                let (parent, name) = self.entry(place, false);
                let wanted = if ino.0 % 3 == 0 {
                    Reference::orphans
                } else {
                    Reference::files
                };
                Op::Link {
                    ino: self.inode(ino, wanted),
                    parent,
                    name,
                    time,
                }
            }
            AskedOfEntry::Unlink(which) => {
                let (parent, name) = self.entry(which, true);
                Op::Unlink { parent, name, time }
            }
            AskedOfEntry::Rmdir(which) => {
                let (parent, name) = self.entry(which, true);
                Op::Rmdir { parent, name, time }
            }
            AskedOfEntry::Rename(from, to, mode) => {
                let (new, (from, name)) = (to.0, self.entry(from, true));
                let (to, new_name) = self.entry(to, new % 2 == 0);
                let mode = match mode {
                    RenameMode::Whiteout(_) => RenameMode::Whiteout(self.begin()),
                    RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => mode,
                };
                Op::Rename {
                    from,
                    name,
                    to,
                    new_name,
                    mode,
                    time,
                }
            }
            AskedOfEntry::Drop(ino) => Op::Drop {
                ino: self.inode(ino, Reference::orphans),
            },
        }
    }

    fn choose_attribute(&mut self, asked: AskedOfAttribute, time: Timestamp) -> Op {
        match asked {
            AskedOfAttribute::Set(ino, change) => {
                let ino = if change.size.is_some() {
                    self.file(ino)
                } else {
                    self.any(ino)
                };
                Op::SetAttr { ino, change, time }
            }
            AskedOfAttribute::SetXattr(ino, which, value, mode) => {
                // The last name is of what only directories have.
                let ino = if which == 4 {
                    self.directory(ino)
                } else {
                    self.any(ino)
                };
                let value = xattr_value(which, value).into();
                Op::SetXattr {
                    ino,
                    name: xattr_name(which),
                    value,
                    mode,
                    time,
                }
            }
            AskedOfAttribute::RemoveXattr(ino, which) => {
                let named = |reference: &Reference| reference.with_xattr(xattr_name(which).as_bytes());
                Op::RemoveXattr {
                    ino: self.inode(ino, named),
                    name: xattr_name(which),
                    time,
                }
            }
        }
    }

    fn choose_content(&mut self, asked: AskedOfContent, time: Timestamp) -> Op {
        let range = |which, offset| {
            let ino = self.file(which);
            (ino, self.offset(ino, offset))
        };
        match asked {
            AskedOfContent::Write(ino, gaps, size, timed) => {
                let mut pieces = pieces(gaps);
                // Now and then out of order.
                if size % 40 == 1 {
                    pieces.reverse();
                }
                let size = if size % 3 == 0 { u64::from(size) } else { 0 };
                Op::Write {
                    ino: self.file(ino),
                    pieces,
                    size,
                    time: timed.then_some(time),
                }
            }
            AskedOfContent::Punch(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Punch {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            AskedOfContent::Collapse(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Collapse {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            AskedOfContent::Insert(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Insert {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            AskedOfContent::Copy((from, from_offset), (to, to_offset), len) => {
                // Many within one file.
                let to = if to.0 % 3 == 0 { from } else { to };
                let ((from, from_offset), (to, to_offset)) = (range(from, from_offset), range(to, to_offset));
                Op::Copy {
                    from,
                    from_offset,
                    to,
                    to_offset,
                    len,
                    time,
                }
            }
        }
    }
}

/// Puts extents one behind the other, with gaps.
fn pieces(gaps: Vec<(u16, Extent)>) -> Vec<Piece> {
    let mut end = 0;
    let place = |(gap, extent): (u16, Extent)| {
        let offset = end + u64::from(gap / 10 * 10 % 70);
        end = offset + extent.len();
        Piece { offset, extent }
    };
    gaps.into_iter().map(place).collect()
}

fn live_through(names: NameHash, steps: &[Step]) {
    let mut world = World::new(names);
    steps.iter().for_each(|step| world.take(step));
    for (branch, reference) in &world.forks {
        world.pages.check(branch);
        assert_eq!(
            see(&world.pages, branch),
            reference.see(),
            "a fork sees nothing of what others do"
        );
    }
    for pair in world.forks.windows(2) {
        let [before, after] = [&pair[0].0, &pair[1].0];
        hold_against(&world.pages, before, after);
        let [there, thereafter] = [before, after].map(|branch| world.pages.sparse(branch, names));
        assert_eq!(
            differences(&world.pages, &there, &thereafter, b""),
            differences(&world.pages, before, after, b""),
            "it is the same where every record has to be loaded for itself"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_branch_is_what_the_reference_is_whatever_is_forked_folded_or_evicted(
        steps in vec(step(), 1..80),
    ) {
        live_through(NameHash::from(KEY), &steps);
    }

    #[test]
    fn a_branch_is_what_the_reference_is_when_names_collide(steps in vec(step(), 1..60)) {
        live_through(NameHash::colliding(KEY, 1), &steps);
    }
}
