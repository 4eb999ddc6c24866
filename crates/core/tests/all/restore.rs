//! Restores: that what is at a path is what it was, with all that is said of it and all its links, and that nothing else changes.

use crate::merge::{Sides, three};
use crate::reference::Seen;
use crate::stored::{KEY, Pages};
use crate::visible::see;
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::{Branch, NameHash, Restore, Source};
use tenure_model::{
    AttrChange, Extent, Ino, Kind, Name, NewNode, Op, Piece, Timestamp, XattrMode, XattrName, acl,
};

type Bytes = Vec<u8>;

/// What is at each path, and which inode it is.
type There = BTreeMap<Bytes, (Ino, Seen)>;

fn there(pages: &Pages, branch: &Branch) -> There {
    let inodes = see(pages, branch);
    let (mut there, mut next) = (There::new(), vec![(Bytes::new(), Ino::ROOT)]);
    while let Some((path, ino)) = next.pop() {
        let seen = &inodes[&ino];
        for (name, (child, _)) in &seen.entries {
            let below = if path.is_empty() {
                name.clone()
            } else {
                [&path[..], b"/", name].concat()
            };
            next.push((below, *child));
        }
        there.insert(path, (ino, seen.clone()));
    }
    there
}

/// Restores what is at a path; none where that is not possible.
fn restored(pages: &Pages, now: &Branch, then: &Branch, path: &[u8], next: Ino) -> Option<(Branch, Vec<Op>)> {
    let time = Timestamp { secs: 5000, nanos: 0 };
    let mut restore = Restore::new(now.clone(), then.clone(), path, next, time);
    if pages.ask(|| restore.find()).expect("it is a path") != Source::There {
        return None;
    }
    pages.answer(|| restore.go_on());
    let (ops, _) = restore.answer();
    let mut branch = now.clone();
    for op in &ops {
        pages
            .change(&mut branch, op)
            .unwrap_or_else(|refusal| panic!("{op:?} of {ops:?}: {refusal}"));
    }
    pages.check(&branch);
    Some((branch, ops))
}

fn is_below(path: &[u8], below: &[u8]) -> bool {
    path.strip_prefix(below)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns all that can be restored of what is at and below a path, with the names that are one file.
fn said(there: &There, path: &[u8]) -> BTreeMap<Bytes, String> {
    let below = || there.iter().filter(|(at, _)| is_below(at, path));
    let told = |(at, (ino, seen)): (&Bytes, &(Ino, Seen))| {
        let one: Vec<_> = below()
            .filter(|(_, (other, seen))| other == ino && seen.attr.kind != Kind::Directory)
            .map(|(at, _)| String::from_utf8_lossy(at))
            .collect();
        let attr = &seen.attr;
        let said = (attr.kind, attr.mode, attr.uid, attr.gid, attr.mtime, attr.rdev);
        let told = format!(
            "{said:?} {:?} {:?} {:?} {one:?}",
            seen.bytes, seen.target, seen.xattrs
        );
        (at.clone(), told)
    };
    below().map(told).collect()
}

/// Returns the directory and the name that a path ends in.
fn place_of(there: &There, path: &[u8]) -> (Ino, Bytes) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    let (above, name) = at.map_or((&[][..], path), |at| (&path[..at], &path[at + 1..]));
    (there[above].0, name.to_vec())
}

/// Returns the names of an inode, also where their directories have moved.
fn names(there: &There, ino: Ino) -> BTreeSet<(Ino, Bytes)> {
    let paths = there.iter().filter(|(_, (other, _))| *other == ino);
    paths.map(|(at, _)| place_of(there, at)).collect()
}

/// Holds what lies elsewhere against what it was before.
fn hold_elsewhere((now, then, result): (&There, &There, &There), path: &[u8], seed: u64) {
    let inodes = |there: &There| -> BTreeSet<Ino> {
        let below = there.iter().filter(|(at, _)| is_below(at, path));
        below.map(|(_, (ino, _))| *ino).collect()
    };
    let (was, is) = (inodes(now), inodes(then));
    let shown = String::from_utf8_lossy(path);
    for (at, (ino, seen)) in now.iter().filter(|(at, _)| !is_below(at, path)) {
        let (number, after) = &result[at];
        let place = String::from_utf8_lossy(at);
        assert_eq!(number, ino, "seed {seed}, {shown}: {place}");
        let is_one = was.contains(ino) && is.contains(ino) && names(then, *ino).contains(&place_of(now, at));
        if !is_one && seen.attr.kind != Kind::Directory {
            assert_eq!(after.bytes, seen.bytes, "seed {seed}, {shown}: {place}");
            assert_eq!(after.attr.mode, seen.attr.mode, "seed {seed}, {shown}: {place}");
        }
    }
    let mut fresh = result
        .keys()
        .filter(|at| !now.contains_key(*at) && !is_below(at, path));
    assert!(
        fresh.all(|at| is_below(path, at)),
        "seed {seed}, {shown}: something is elsewhere that was not"
    );
}

#[test]
fn whatever_was_done_what_is_at_a_path_is_what_it_was_and_nothing_else_changes() {
    let mut count = 0;
    for seed in 0..400 {
        let (mut sides, then, now, other) = three(seed, 14);
        for (now, then) in [(&now, &then), (&then, &now), (&now, &other)] {
            let pages = &mut sides.pages;
            let (was, is) = (there(pages, now), there(pages, then));
            for path in is.keys().filter(|path| !path.is_empty()) {
                let Some((branch, _)) = restored(pages, now, then, path, sides.next) else {
                    continue;
                };
                count += 1;
                let result = there(pages, &branch);
                let shown = String::from_utf8_lossy(path);
                assert_eq!(said(&result, path), said(&is, path), "seed {seed}, {shown}");
                hold_elsewhere((&was, &is, &result), path, seed);
                let (_, ops) = restored(pages, &branch, then, path, Ino(1 << 40)).expect("it is there");
                let is_one = |(at, (ino, seen)): (&Bytes, &(Ino, Seen))| {
                    !is_below(at, path)
                        || seen.attr.nlink == 1
                        || result[at].0 == *ino
                        || seen.attr.kind == Kind::Directory
                };
                // Several names of what is a new file are made anew.
                assert!(
                    ops.is_empty() || !is.iter().all(is_one),
                    "seed {seed}, {shown}: it is what it was, and yet {ops:?}"
                );
                let names = NameHash::from(KEY);
                let cold = [now, then].map(|branch| pages.cold(branch, names));
                let (again, _) = restored(pages, &cold[0], &cold[1], path, sides.next).expect("it is there");
                assert_eq!(
                    pages.records(&again),
                    pages.records(&branch),
                    "seed {seed}, {shown}"
                );
            }
        }
    }
    assert!(count > 1000, "{count} paths were restored");
}

fn name(name: &str) -> Name {
    Name::parse(name.as_bytes()).expect("a literal name")
}

fn make(sides: &mut Sides, branch: &mut Branch, (parent, at): (Ino, &str), node: NewNode) -> Ino {
    let (ino, time) = (sides.next, sides.tick());
    sides.next = ino.next();
    let op = Op::Create {
        parent,
        name: name(at),
        ino,
        node,
        time,
    };
    sides.pages.change(branch, &op).expect("there is nothing yet");
    ino
}

fn set(sides: &mut Sides, branch: &mut Branch, ino: Ino, change: AttrChange) {
    let time = sides.tick();
    sides
        .pages
        .change(branch, &Op::SetAttr { ino, change, time })
        .expect("it is there");
}

fn set_xattr(sides: &mut Sides, branch: &mut Branch, ino: Ino, (name, value): (&[u8], &[u8])) {
    let op = Op::SetXattr {
        ino,
        name: XattrName::parse(name).expect("a literal name"),
        value: value.into(),
        mode: XattrMode::Set,
        time: sides.tick(),
    };
    sides.pages.change(branch, &op).expect("it is there");
}

/// Returns a list with a line for a user.
fn list() -> Vec<u8> {
    let line = |tag: u16, permissions: u16, id: u32| {
        let mut bytes = tag.to_le_bytes().to_vec();
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes
    };
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1, 7, u32::MAX),
        (2, 7, 1234),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        bytes.extend(line(tag, permissions, id));
    }
    bytes
}

#[test]
fn owners_set_id_bits_capabilities_lists_devices_and_holes_come_back() {
    let mut sides = Sides::new(1);
    let mut then = Branch::new(KEY, crate::stored::ROOT);
    let node = |kind| NewNode {
        kind,
        ..NewNode::file()
    };
    let top = make(&mut sides, &mut then, (Ino::ROOT, "top"), node(Kind::Directory));
    let inner = make(&mut sides, &mut then, (top, "inner"), node(Kind::Directory));
    let file = make(&mut sides, &mut then, (inner, "file"), NewNode::file());
    let plain = make(&mut sides, &mut then, (inner, "plain"), NewNode::file());
    let device = NewNode {
        kind: Kind::CharDevice,
        rdev: 259,
        ..NewNode::file()
    };
    make(&mut sides, &mut then, (inner, "device"), device);
    make(&mut sides, &mut then, (inner, "pipe"), node(Kind::Fifo));
    let write = Op::Write {
        ino: file,
        pieces: vec![Piece {
            offset: 1000,
            extent: Extent::Inline(b"behind a hole".as_slice().into()),
        }],
        size: 3000,
        time: Some(sides.tick()),
    };
    sides.pages.change(&mut then, &write).expect("it is a file");
    let said = |mode, uid| AttrChange {
        mode: Some(mode),
        uid: Some(uid),
        gid: Some(uid),
        ..AttrChange::default()
    };
    set(&mut sides, &mut then, file, said(0o4755, 7));
    set(&mut sides, &mut then, plain, said(0o600, 7));
    set(&mut sides, &mut then, inner, said(0o2750, 9));
    set_xattr(&mut sides, &mut then, file, (b"security.capability", b"caps"));
    set_xattr(&mut sides, &mut then, file, (b"user.note", b"before"));
    let mut now = then.clone();
    let list = list();
    // What is made below gets a list that what it was has not.
    set_xattr(&mut sides, &mut now, top, (acl::DEFAULT, &list));
    set_xattr(&mut sides, &mut now, plain, (acl::ACCESS, &list));
    set(&mut sides, &mut now, file, said(0o644, 0));
    let changed = there(&sides.pages, &now);
    for at in ["file", "device", "pipe", "plain"] {
        let op = Op::Unlink {
            parent: inner,
            name: name(at),
            time: sides.tick(),
        };
        sides.pages.change(&mut now, &op).expect("it is there");
    }
    let gone = now.clone();
    let time = sides.tick();
    let op = Op::Rmdir {
        parent: top,
        name: name("inner"),
        time,
    };
    sides.pages.change(&mut now, &op).expect("it is empty");
    let is = there(&sides.pages, &then);
    assert_ne!(said_of(&changed), said_of(&is));
    for now in [&gone, &now] {
        let (branch, _) = restored(&sides.pages, now, &then, b"top/inner", sides.next).expect("it is there");
        assert_eq!(said_of(&there(&sides.pages, &branch)), said_of(&is));
    }
}

fn said_of(there: &There) -> BTreeMap<Bytes, String> {
    said(there, b"top/inner")
}
