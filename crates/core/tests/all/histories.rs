//! Random histories of ops, forks, folds and evictions, beside a reference that knows nothing of pages.
//!
//! After each step the branch must look like the reference, hold its invariants, and have answered as the reference
//! has. Beside it the same op is decided where nothing is in memory and every record lies on a page of its own: what
//! a decision did not read is missing when it is applied, and `apply` would panic.

use crate::reference::Reference;
use crate::stored::{KEY, Pages, ROOT};
use crate::visible::see;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tenure_core::tree::{Depth, Hand};
use tenure_core::{Branch, NameHash, Outcome};
use tenure_model::{
    Address, AttrChange, Digest, Extent, Ino, Kind, Name, NewNode, Op, PackNumber, Piece, RenameMode,
    Timestamp, XattrMode, XattrName, limits,
};

/// An inode, or a directory and a name in it, that a step is about: chosen once it is known which there are.
#[derive(Clone, Copy, Debug)]
struct Which(u16);

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Op(Asked, Elsewhere),
    Fork,
    Turn,
    Fold,
    Evict(usize),
    Reload,
}

/// Where an op is decided a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    No,
    /// With nothing in memory.
    Cold,
    /// With nothing in memory, and a page for each record.
    Sparse,
}

/// An op whose inodes and names are not chosen yet.
#[derive(Clone, Debug)]
enum Asked {
    Create(Which, NewNode),
    CreateUnnamed(Which, NewNode),
    Link(Which, Which),
    Unlink(Which),
    Rmdir(Which),
    Rename(Which, Which, RenameMode),
    SetAttr(Which, AttrChange),
    Write(Which, Vec<(u16, Extent)>, u16, bool),
    Punch(Which, u64, u64),
    Collapse(Which, u64, u64),
    Insert(Which, u64, u64),
    Copy((Which, u64), (Which, u64), u64),
    SetXattr(Which, u8, u8, XattrMode),
    RemoveXattr(Which, u8),
    Drop(Which),
}

/// Returns one of few names, one of them as long as a name can be.
fn name(Which(which): Which) -> Name {
    let longest = [b'x'; limits::NAME_LEN_MAX];
    let names: [&[u8]; 6] = [b"a", b"b", b"c", b"\xff\x01", b"...", &longest];
    Name::parse(names[usize::from(which) % names.len()]).expect("these are names")
}

const XATTRS: [&str; 5] = [
    "user.a",
    "user.b",
    "security.capability",
    "system.posix_acl_access",
    "system.posix_acl_default",
];

fn xattr_name(which: u8) -> XattrName {
    XattrName::parse(XATTRS[usize::from(which) % XATTRS.len()].as_bytes()).expect("these are names")
}

/// Returns a value that suits the name: some list for an ACL.
fn xattr_value(which: u8, value: u8) -> Vec<u8> {
    if XATTRS[usize::from(which) % XATTRS.len()].starts_with("system.") {
        return acl(value);
    }
    match value % 4 {
        0 => Vec::new(),
        1 => vec![value; 3000],
        _ => vec![value; usize::from(value)],
    }
}

fn acl(seed: u8) -> Vec<u8> {
    let perm = |shift: u8| seed >> shift & 7;
    let mut lines = vec![
        (1, perm(0), u32::MAX),
        (4, perm(1), u32::MAX),
        (32, perm(2), u32::MAX),
    ];
    match seed % 5 {
        0 => lines.clear(),
        1 => lines.insert(2, (16, perm(3), u32::MAX)),
        2 => {
            lines.insert(2, (16, perm(3), u32::MAX));
            lines.insert(1, (2, perm(4), 1000));
            lines.insert(3, (8, perm(5), 100));
        }
        _ => {}
    }
    let mut value = vec![2, 0, 0, 0];
    for (tag, perm, id) in lines {
        value.extend_from_slice(&[tag, 0, perm, 0]);
        value.extend_from_slice(&u32::to_le_bytes(id));
    }
    value
}

fn which() -> impl Strategy<Value = Which> + Clone {
    any::<u16>().prop_map(Which)
}

fn node() -> impl Strategy<Value = NewNode> {
    let kind = prop_oneof![
        6 => Just(Kind::File),
        6 => Just(Kind::Directory),
        2 => Just(Kind::Symlink),
        1 => Just(Kind::Fifo),
        1 => Just(Kind::CharDevice),
    ];
    let mode = prop_oneof![Just(0o755u32), Just(0o2775), 0u32..0o10000];
    let umask = prop_oneof![Just(0u32), Just(0o022), Just(0o077)];
    let target =
        prop_oneof![9 => vec(b'a'..b'z', 1..30), 1 => Just(Vec::new()), 1 => vec(b'a'..b'z', 4094..4098)];
    (kind, mode, umask, 0u32..3, 0u32..3, 0u32..2, target).prop_map(
        |(kind, mode, umask, uid, gid, rdev, target)| {
            let target = if kind == Kind::Symlink { target } else { Vec::new() };
            NewNode {
                kind,
                mode,
                umask,
                uid,
                gid,
                rdev,
                target: target.into(),
            }
        },
    )
}

fn change() -> impl Strategy<Value = AttrChange> {
    let time = || option::of((0i64..5).prop_map(|secs| Timestamp { secs, nanos: 5 }));
    let size = option::weighted(
        0.4,
        prop_oneof![20 => 0u64..400, 1 => Just(0), 1 => Just(1 << 63)],
    );
    let id = || option::weighted(0.3, 0u32..3);
    (option::of(0u32..0o10000), id(), id(), size, time(), time()).prop_map(
        |(mode, uid, gid, size, atime, mtime)| AttrChange {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        },
    )
}

fn extent() -> impl Strategy<Value = Extent> {
    // Few chunks and round ends, so that neighbours in a file often are neighbours in a chunk.
    let chunk = (0u8..3, 0u32..8, 1u32..8).prop_map(|(chunk, start, len)| Extent::Chunk {
        at: Address {
            pack: PackNumber(u64::from(chunk)),
            digest: Digest([chunk; 32]),
        },
        start: start * 10,
        len: len * 10,
    });
    let inline = vec(any::<u8>(), 1..20).prop_map(|bytes| Extent::Inline(bytes.into()));
    prop_oneof![2 => chunk, 1 => inline]
}

fn offset() -> impl Strategy<Value = u64> + Clone {
    let far = prop_oneof![Just(u64::MAX - 3), Just(i64::MAX as u64)];
    prop_oneof![20 => (0u64..30).prop_map(|tens| tens * 10), 10 => 0u64..300, 1 => far]
}

fn len() -> impl Strategy<Value = u64> + Clone {
    let long = prop_oneof![Just(u64::MAX - 3), Just(1 << 63)];
    prop_oneof![20 => (0u64..9).prop_map(|tens| tens * 10), 10 => 1u64..90, 1 => long]
}

fn entry_op() -> BoxedStrategy<Asked> {
    let mode = prop_oneof![
        4 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange),
        1 => Just(RenameMode::Whiteout(Ino(0))),
    ];
    prop_oneof![
        8 => (which(), node()).prop_map(|(place, node)| Asked::Create(place, node)),
        1 => (which(), node()).prop_map(|(parent, node)| Asked::CreateUnnamed(parent, node)),
        2 => (which(), which()).prop_map(|(ino, place)| Asked::Link(ino, place)),
        3 => which().prop_map(Asked::Unlink),
        2 => which().prop_map(Asked::Rmdir),
        6 => (which(), which(), mode).prop_map(|(from, to, mode)| Asked::Rename(from, to, mode)),
        2 => which().prop_map(Asked::Drop),
    ]
    .boxed()
}

fn inode_op() -> BoxedStrategy<Asked> {
    let pieces = vec((0u16..100, extent()), 0..5);
    let mode =
        prop_oneof![4 => Just(XattrMode::Set), 1 => Just(XattrMode::Create), 1 => Just(XattrMode::Replace)];
    prop_oneof![
        3 => (which(), change()).prop_map(|(ino, change)| Asked::SetAttr(ino, change)),
        6 => (which(), pieces, 0u16..400, any::<bool>())
            .prop_map(|(ino, pieces, size, timed)| Asked::Write(ino, pieces, size, timed)),
        2 => (which(), offset(), len()).prop_map(|(ino, offset, len)| Asked::Punch(ino, offset, len)),
        2 => (which(), offset(), len()).prop_map(|(ino, offset, len)| Asked::Collapse(ino, offset, len)),
        2 => (which(), offset(), len()).prop_map(|(ino, offset, len)| Asked::Insert(ino, offset, len)),
        3 => ((which(), offset()), (which(), offset()), len()).prop_map(|(from, to, len)| Asked::Copy(from, to, len)),
        4 => (which(), 0u8..5, any::<u8>(), mode)
            .prop_map(|(ino, name, value, mode)| Asked::SetXattr(ino, name, value, mode)),
        1 => (which(), 0u8..5).prop_map(|(ino, name)| Asked::RemoveXattr(ino, name)),
    ]
    .boxed()
}

fn step() -> impl Strategy<Value = Step> {
    let elsewhere =
        prop_oneof![2 => Just(Elsewhere::No), 1 => Just(Elsewhere::Cold), 1 => Just(Elsewhere::Sparse)];
    prop_oneof![
        24 => (prop_oneof![entry_op(), inode_op()], elsewhere).prop_map(|(asked, elsewhere)| Step::Op(asked, elsewhere)),
        1 => Just(Step::Fork),
        1 => Just(Step::Turn),
        1 => Just(Step::Fold),
        1 => (0usize..50_000).prop_map(Step::Evict),
        1 => Just(Step::Reload),
    ]
}

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
            Asked::Create(place, node) => {
                let (parent, name) = self.entry(place, false);
                Op::Create {
                    parent,
                    name,
                    ino: self.begin(),
                    node,
                    time,
                }
            }
            Asked::CreateUnnamed(parent, node) => Op::CreateUnnamed {
                parent: self.directory(parent),
                ino: self.begin(),
                node,
                time,
            },
            Asked::Link(ino, place) => {
                let (parent, name) = self.entry(place, false);
                let ino = self.inode(
                    ino,
                    if name.as_bytes().len() == 1 {
                        Reference::orphans
                    } else {
                        Reference::files
                    },
                );
                Op::Link {
                    ino,
                    parent,
                    name,
                    time,
                }
            }
            Asked::Unlink(which) => {
                let (parent, name) = self.entry(which, true);
                Op::Unlink { parent, name, time }
            }
            Asked::Rmdir(which) => {
                let (parent, name) = self.entry(which, true);
                Op::Rmdir { parent, name, time }
            }
            Asked::Rename(from, to, mode) => {
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
            Asked::Drop(ino) => Op::Drop {
                ino: self.inode(ino, Reference::orphans),
            },
            Asked::SetXattr(ino, which, value, mode) => {
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
            Asked::RemoveXattr(ino, which) => {
                let named = |reference: &Reference| reference.with_xattr(xattr_name(which).as_bytes());
                Op::RemoveXattr {
                    ino: self.inode(ino, named),
                    name: xattr_name(which),
                    time,
                }
            }
            Asked::SetAttr(ino, change) => {
                let ino = if change.size.is_some() {
                    self.file(ino)
                } else {
                    self.any(ino)
                };
                Op::SetAttr { ino, change, time }
            }
            asked @ (Asked::Write(..)
            | Asked::Punch(..)
            | Asked::Collapse(..)
            | Asked::Insert(..)
            | Asked::Copy(..)) => self.choose_content(asked, time),
        }
    }

    fn choose_content(&mut self, asked: Asked, time: Timestamp) -> Op {
        let range = |which, offset| {
            let ino = self.file(which);
            (ino, self.offset(ino, offset))
        };
        match asked {
            Asked::Write(ino, gaps, size, timed) => {
                let mut end = 0;
                let pieces = gaps.into_iter().map(|(gap, extent)| {
                    let offset = end + u64::from(gap / 10 * 10 % 70);
                    end = offset + extent.len();
                    Piece { offset, extent }
                });
                let pieces: Vec<_> = pieces.collect();
                // Now and then out of order.
                let pieces = if size % 40 == 1 {
                    pieces.into_iter().rev().collect()
                } else {
                    pieces
                };
                let size = if size % 3 == 0 { u64::from(size) } else { 0 };
                Op::Write {
                    ino: self.file(ino),
                    pieces,
                    size,
                    time: timed.then_some(time),
                }
            }
            Asked::Punch(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Punch {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            Asked::Collapse(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Collapse {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            Asked::Insert(ino, offset, len) => {
                let (ino, offset) = range(ino, offset);
                Op::Insert {
                    ino,
                    offset,
                    len,
                    time,
                }
            }
            Asked::Copy((from, from_offset), (to, to_offset), len) => {
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
            _ => unreachable!("these change no content"),
        }
    }
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
