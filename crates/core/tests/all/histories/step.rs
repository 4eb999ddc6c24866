//! The steps of random histories: what is drawn before it is known which inodes and names there are.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tenure_model::{
    Address, AttrChange, Digest, Extent, Ino, Kind, Name, NewNode, PackNumber, RenameMode, Timestamp,
    XattrMode, XattrName, limits,
};

/// An inode, or a directory and a name in it, that a step is about: chosen once it is known which there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which(pub(super) u16);

/// A step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Op(Asked, Elsewhere),
    Fork,
    Turn,
    Fold,
    Evict(usize),
    Reload,
}

/// Where an op is decided a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    No,
    /// With nothing in memory.
    Cold,
    /// With nothing in memory, and a page for each record.
    Sparse,
}

/// An op whose inodes and names are not chosen yet.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Entry(AskedOfEntry),
    Attribute(AskedOfAttribute),
    Content(AskedOfContent),
}

#[derive(Clone, Debug)]
pub(super) enum AskedOfEntry {
    Create(Which, NewNode),
    CreateUnnamed(Which, NewNode),
    Link(Which, Which),
    Unlink(Which),
    Rmdir(Which),
    Rename(Which, Which, RenameMode),
    Drop(Which),
}

#[derive(Clone, Debug)]
pub(super) enum AskedOfAttribute {
    Set(Which, AttrChange),
    SetXattr(Which, u8, u8, XattrMode),
    RemoveXattr(Which, u8),
}

#[derive(Clone, Debug)]
pub(super) enum AskedOfContent {
    Write(Which, Vec<(u16, Extent)>, u16, bool),
    Punch(Which, u64, u64),
    Collapse(Which, u64, u64),
    Insert(Which, u64, u64),
    Copy((Which, u64), (Which, u64), u64),
}

/// Returns one of few names, one of them as long as a name can be.
pub(super) fn name(Which(which): Which) -> Name {
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

pub(super) fn xattr_name(which: u8) -> XattrName {
    XattrName::parse(XATTRS[usize::from(which) % XATTRS.len()].as_bytes()).expect("these are names")
}

/// Returns a value that suits the name: some list for an ACL.
pub(super) fn xattr_value(which: u8, value: u8) -> Vec<u8> {
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
        prop_oneof![9 => vec(b'a'..=b'z', 1..30), 1 => Just(Vec::new()), 1 => vec(b'a'..=b'z', 4094..4098)];
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

fn asked_of_entry() -> impl Strategy<Value = AskedOfEntry> {
    let mode = prop_oneof![
        4 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange),
        1 => Just(RenameMode::Whiteout(Ino(0))),
    ];
    prop_oneof![
        8 => (which(), node()).prop_map(|(place, node)| AskedOfEntry::Create(place, node)),
        1 => (which(), node()).prop_map(|(parent, node)| AskedOfEntry::CreateUnnamed(parent, node)),
        2 => (which(), which()).prop_map(|(ino, place)| AskedOfEntry::Link(ino, place)),
        3 => which().prop_map(AskedOfEntry::Unlink),
        2 => which().prop_map(AskedOfEntry::Rmdir),
        6 => (which(), which(), mode).prop_map(|(from, to, mode)| AskedOfEntry::Rename(from, to, mode)),
        2 => which().prop_map(AskedOfEntry::Drop),
    ]
}

fn asked_of_attribute() -> impl Strategy<Value = AskedOfAttribute> {
    let mode = prop_oneof![
        4 => Just(XattrMode::Set),
        1 => Just(XattrMode::Create),
        1 => Just(XattrMode::Replace),
    ];
    prop_oneof![
        3 => (which(), change()).prop_map(|(ino, change)| AskedOfAttribute::Set(ino, change)),
        4 => (which(), 0u8..5, any::<u8>(), mode)
            .prop_map(|(ino, name, value, mode)| AskedOfAttribute::SetXattr(ino, name, value, mode)),
        1 => (which(), 0u8..5).prop_map(|(ino, name)| AskedOfAttribute::RemoveXattr(ino, name)),
    ]
}

fn asked_of_content() -> impl Strategy<Value = AskedOfContent> {
    let pieces = vec((0u16..100, extent()), 0..5);
    let range = || (which(), offset(), len());
    prop_oneof![
        6 => (which(), pieces, 0u16..400, any::<bool>())
            .prop_map(|(ino, pieces, size, timed)| AskedOfContent::Write(ino, pieces, size, timed)),
        2 => range().prop_map(|(ino, offset, len)| AskedOfContent::Punch(ino, offset, len)),
        2 => range().prop_map(|(ino, offset, len)| AskedOfContent::Collapse(ino, offset, len)),
        2 => range().prop_map(|(ino, offset, len)| AskedOfContent::Insert(ino, offset, len)),
        3 => ((which(), offset()), range())
            .prop_map(|(from, (to, offset, len))| AskedOfContent::Copy(from, (to, offset), len)),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let asked = prop_oneof![
        4 => asked_of_entry().prop_map(Asked::Entry),
        1 => asked_of_attribute().prop_map(Asked::Attribute),
        3 => asked_of_content().prop_map(Asked::Content),
    ];
    let elsewhere =
        prop_oneof![2 => Just(Elsewhere::No), 1 => Just(Elsewhere::Cold), 1 => Just(Elsewhere::Sparse)];
    prop_oneof![
        24 => (asked, elsewhere).prop_map(|(asked, elsewhere)| Step::Op(asked, elsewhere)),
        1 => Just(Step::Fork),
        1 => Just(Step::Turn),
        1 => Just(Step::Fold),
        1 => (0usize..50_000).prop_map(Step::Evict),
        1 => Just(Step::Reload),
    ]
}
