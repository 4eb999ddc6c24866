//! Faults planted in the records of a healthy branch: `check` names each of them, and nothing in a healthy one.

use crate::stored::{KEY, Pages, ROOT};
use std::collections::BTreeMap;
use tenure_core::{Branch, Totals, Tree};
use tenure_model::codec::Codec;
use tenure_model::{Attr, Extent, Ino, Kind, Name, NewNode, Op, Piece, Timestamp, XattrMode, XattrName};

const DIRECTORY: Ino = Ino(16);
const FILE: Ino = Ino(17);
const SYMLINK: Ino = Ino(18);
const INNER: Ino = Ino(19);
const LINKED: Ino = Ino(20);
const ORPHAN: Ino = Ino(21);
const FIFO: Ino = Ino(22);
const NOBODY: Ino = Ino(99);

const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("it is a name")
}

fn create(parent: Ino, text: &str, ino: Ino, kind: Kind) -> Op {
    let target: &[u8] = if kind == Kind::Symlink { b"target" } else { b"" };
    let node = NewNode {
        kind,
        mode: 0o750,
        umask: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: target.into(),
    };
    Op::Create {
        parent,
        name: name(text),
        ino,
        node,
        time: TIME,
    }
}

fn set_xattr(ino: Ino, text: &str, value: &[u8]) -> Op {
    Op::SetXattr {
        ino,
        name: XattrName::parse(text.as_bytes()).expect("it is a name"),
        value: value.into(),
        mode: XattrMode::Set,
        time: TIME,
    }
}

fn piece(offset: u64) -> Piece {
    let extent = Extent::Inline(Box::new([7; 10]));
    Piece { offset, extent }
}

/// Owner 7, user 5 has 6, group 5, mask 7, others 0.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 6, 0, 5, 0, 0, 0, 4, 0, 5, 0, 255, 255, 255, 255, 16,
    0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

/// Returns the records of a branch with an inode of every sort.
pub(crate) fn healthy() -> (Records, Totals) {
    let (mut branch, pages) = (Branch::new(KEY, ROOT), Pages::default());
    let (parent, time) = (Ino::ROOT, TIME);
    let ops = [
        create(parent, "directory", DIRECTORY, Kind::Directory),
        create(DIRECTORY, "file", FILE, Kind::File),
        create(DIRECTORY, "symlink", SYMLINK, Kind::Symlink),
        create(DIRECTORY, "inner", INNER, Kind::Directory),
        create(parent, "linked", LINKED, Kind::File),
        Op::Link {
            ino: LINKED,
            parent: INNER,
            name: name("again"),
            time,
        },
        create(parent, "removed", ORPHAN, Kind::File),
        Op::Unlink {
            parent,
            name: name("removed"),
            time,
        },
        create(parent, "fifo", FIFO, Kind::Fifo),
        Op::Write {
            ino: FILE,
            pieces: vec![piece(0), piece(20)],
            size: 40,
            time: None,
        },
        set_xattr(FILE, "user.a", b"value"),
        set_xattr(FILE, "system.posix_acl_access", &ACL),
    ];
    for op in &ops {
        pages.change(&mut branch, op).expect("no rule is against it");
    }
    (pages.records(&branch), branch.totals())
}

fn faults_in(records: &Records, totals: Totals) -> Vec<String> {
    let mut tree = Tree::new();
    for (key, value) in records {
        tree.insert(key, value).expect("a new tree is in memory");
    }
    let branch = Branch::stored(KEY, tree, totals);
    branch.check().expect("all is in memory")
}

/// Returns the key of a record of an inode: its kind, and what stands behind that.
fn meta(ino: Ino, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[0], &ino.0.to_be_bytes()[..], &[kind], rest].concat()
}

fn attr_key(ino: Ino) -> Vec<u8> {
    meta(ino, 0, &[])
}

fn target_key(ino: Ino) -> Vec<u8> {
    meta(ino, 1, &[])
}

fn xattr_key(ino: Ino, name: &str) -> Vec<u8> {
    meta(ino, 2, name.as_bytes())
}

fn extent_key(ino: Ino, offset: u64) -> Vec<u8> {
    [&[1], &ino.0.to_be_bytes()[..], &offset.to_be_bytes()].concat()
}

fn orphan_key(ino: Ino) -> Vec<u8> {
    [&[2], &ino.0.to_be_bytes()[..]].concat()
}

fn entry_value(ino: Ino, kind: Kind, name: &str) -> Vec<u8> {
    [&ino.0.to_be_bytes()[..], &[kind.d_type()], name.as_bytes()].concat()
}

/// Returns the key under which a directory has this name.
fn entry_key(records: &Records, parent: Ino, name: &str) -> Vec<u8> {
    let prefix = meta(parent, 3, &[]);
    let mut found = records
        .iter()
        .filter(|(key, value)| key.starts_with(&prefix) && value.ends_with(name.as_bytes()));
    found.next().expect("the name is there").0.clone()
}

/// Returns the key of this name in any directory, or one that is `distance` behind it.
fn place(parent: Ino, text: &str, distance: u64) -> Vec<u8> {
    let (mut branch, pages) = (Branch::new(KEY, ROOT), Pages::default());
    let op = create(Ino::ROOT, text, DIRECTORY, Kind::File);
    pages.change(&mut branch, &op).expect("no rule is against it");
    let key = entry_key(&pages.records(&branch), Ino::ROOT, text);
    let cookie = u64::from_be_bytes(key[10..].try_into().expect("a cookie has eight bytes"));
    meta(parent, 3, &(cookie + distance).to_be_bytes())
}

fn change_attr(records: &mut Records, ino: Ino, change: impl FnOnce(&mut Attr)) {
    let value = records.get_mut(&attr_key(ino)).expect("the inode is there");
    let mut attr = Attr::parsed(value).expect("only valid attributes are put");
    change(&mut attr);
    *value = attr.written();
}

/// Plants a fault, and looks for what `check` says of it.
fn finds(expected: &[&str], plant: impl FnOnce(&mut Records)) {
    let (mut records, totals) = healthy();
    plant(&mut records);
    let faults = faults_in(&records, totals);
    for expected in expected {
        let is_found = faults.iter().any(|fault| fault == expected);
        assert!(is_found, "{expected:?} is not in {faults:#?}");
    }
}

#[test]
fn nothing_is_found_in_a_healthy_branch() {
    let (records, totals) = healthy();
    assert_eq!(faults_in(&records, totals), [""; 0]);
}

#[test]
fn wrong_links_are_found() {
    finds(
        &["inode 20: its links are not the entries that name it"],
        |records| {
            change_attr(records, LINKED, |attr| attr.nlink = 3);
        },
    );
    finds(
        &["inode 20: its links are not the entries that name it"],
        |records| {
            records.remove(&entry_key(records, INNER, "again"));
        },
    );
    finds(
        &["inode 16: its links are not 2 and its directories"],
        |records| {
            change_attr(records, DIRECTORY, |attr| attr.nlink = 2);
        },
    );
    finds(
        &["inode 1: its size is not the number of its entries"],
        |records| {
            change_attr(records, Ino::ROOT, |attr| attr.size += 1);
        },
    );
}

#[test]
fn an_entry_or_a_record_without_its_inode_is_found() {
    finds(
        &["inode 17: an entry names it, but it has no attributes"],
        |records| {
            records.remove(&attr_key(FILE));
        },
    );
    finds(&["inode 99: it has no attributes"], |records| {
        records.insert(orphan_key(NOBODY), Vec::new());
    });
    finds(&["inode 1: it has no attributes"], |records| {
        records.remove(&attr_key(Ino::ROOT));
    });
}

#[test]
fn entries_that_say_wrong_things_are_found() {
    finds(
        &["inode 17: an entry says that it is of another kind"],
        |records| {
            let key = entry_key(records, DIRECTORY, "file");
            records.insert(key, entry_value(FILE, Kind::Fifo, "file"));
        },
    );
    finds(
        &["inode 16: the entry \"file\" is not where its name belongs"],
        |records| {
            let value = records.remove(&entry_key(records, DIRECTORY, "file"));
            records.insert(place(DIRECTORY, "other", 0), value.expect("it is there"));
        },
    );
    finds(&["inode 16: the entry \"file\" is there twice"], |records| {
        records.insert(
            place(DIRECTORY, "file", 5),
            entry_value(LINKED, Kind::File, "file"),
        );
    });
    finds(&["inode 17: it has entries and is not a directory"], |records| {
        records.insert(place(FILE, "x", 0), entry_value(LINKED, Kind::File, "x"));
    });
}

#[test]
fn orphans_without_a_record_and_records_without_an_orphan_are_found() {
    finds(
        &["inode 21: it has no link and is not noted as an orphan"],
        |records| {
            records.remove(&orphan_key(ORPHAN));
        },
    );
    finds(&["inode 17: it is noted as an orphan and has links"], |records| {
        records.insert(orphan_key(FILE), Vec::new());
    });
}

#[test]
fn a_loop_of_directories_is_found() {
    let unreached = [
        "inode 16: the root cannot be reached from this directory",
        "inode 19: the root cannot be reached from this directory",
    ];
    finds(&unreached, |records| {
        let value = records.remove(&entry_key(records, Ino::ROOT, "directory"));
        records.insert(place(INNER, "directory", 0), value.expect("it is there"));
        change_attr(records, DIRECTORY, |attr| attr.parent = INNER);
        change_attr(records, INNER, |attr| (attr.size, attr.nlink) = (2, 3));
        change_attr(records, Ino::ROOT, |attr| (attr.size, attr.nlink) = (2, 2));
    });
}

#[test]
fn directories_that_are_in_two_places_or_do_not_know_their_place_are_found() {
    finds(&["inode 19: it does not know where it is"], |records| {
        change_attr(records, INNER, |attr| attr.parent = Ino::ROOT);
    });
    finds(&["inode 1: it does not know where it is"], |records| {
        change_attr(records, Ino::ROOT, |attr| attr.parent = DIRECTORY);
    });
    finds(&["inode 19: it is not named by one entry"], |records| {
        let value = entry_value(INNER, Kind::Directory, "two");
        records.insert(place(Ino::ROOT, "two", 0), value);
    });
    finds(&["inode 16: it is removed and has entries"], |records| {
        change_attr(records, DIRECTORY, |attr| attr.nlink = 0);
    });
    let elsewhere = "inode 17: the directory in which it says that it is has no entry for it";
    finds(&[elsewhere], |records| {
        change_attr(records, FILE, |attr| attr.parent = INNER);
    });
    finds(&["inode 1: the root is not a directory"], |records| {
        change_attr(records, Ino::ROOT, |attr| attr.kind = Kind::File);
    });
}

#[test]
fn content_that_does_not_add_up_is_found() {
    let extent = piece(0).extent.written();
    finds(
        &["inode 17: the extent at 25 overlaps the one before"],
        |records| {
            records.insert(extent_key(FILE, 25), extent.clone());
        },
    );
    // Each is held against the farthest end before it, not against that of the short one between.
    let both = [
        "inode 17: the extent at 22 overlaps the one before",
        "inode 17: the extent at 28 overlaps the one before",
    ];
    finds(&both, |records| {
        records.insert(extent_key(FILE, 22), Extent::Inline(Box::new([1])).written());
        records.insert(extent_key(FILE, 28), extent.clone());
    });
    finds(&["inode 17: an extent lies behind its end"], |records| {
        change_attr(records, FILE, |attr| attr.size = 29);
    });
    finds(&["inode 17: an extent lies behind its end"], |records| {
        records.insert(extent_key(FILE, u64::MAX - 1), extent.clone());
    });
    finds(
        &["inode 17: its allocated bytes are not those of its extents"],
        |records| {
            records.remove(&extent_key(FILE, 0));
        },
    );
    finds(&["inode 22: it has content and is not a file"], |records| {
        records.insert(extent_key(FIFO, 0), extent.clone());
    });
}

#[test]
fn targets_that_are_missing_or_not_wanted_are_found() {
    finds(&["inode 18: its target is not as long as it says"], |records| {
        records.remove(&target_key(SYMLINK));
    });
    finds(&["inode 17: it has a target and is not a symlink"], |records| {
        records.insert(target_key(FILE), b"target".to_vec());
    });
}

#[test]
fn extended_attributes_that_an_inode_does_not_know_of_are_found() {
    let what = "its extended attributes are not those that it says it has";
    finds(&[&format!("inode 20: {what}")], |records| {
        records.insert(xattr_key(LINKED, "user.b"), Vec::new());
    });
    finds(&[&format!("inode 17: {what}")], |records| {
        records.remove(&xattr_key(FILE, "system.posix_acl_access"));
    });
    finds(
        &["inode 17: its mode and its access control list disagree"],
        |records| {
            change_attr(records, FILE, |attr| attr.mode = 0o700);
        },
    );
}

#[test]
fn totals_that_are_wrong_are_found() {
    let (records, totals) = healthy();
    let (bytes, inodes) = (totals.bytes - 1, totals.inodes + 1);
    for wrong in [Totals { bytes, ..totals }, Totals { inodes, ..totals }] {
        let expected = format!("the branch says that it holds {wrong:?} and holds {totals:?}");
        assert_eq!(faults_in(&records, wrong), [expected]);
    }
}

#[test]
fn records_that_are_malformed_are_found() {
    let list = "system.posix_acl_access";
    let file = "\\x00".repeat(8) + "\\x11";
    finds(
        &[&format!("malformed attributes under the key {file}\\x00")],
        |records| {
            records.insert(attr_key(FILE), vec![1, 2, 3]);
        },
    );
    finds(
        &[&format!(
            "malformed access control list under the key {file}\\x02{list}"
        )],
        |records| {
            records.insert(xattr_key(FILE, list), vec![2, 0, 0, 0, 1]);
        },
    );
    finds(&[&format!("malformed key under the key {file}\\t")], |records| {
        records.insert(meta(FILE, 9, &[]), Vec::new());
    });
    let extent = format!("\\x01{}\\x11{}(", "\\x00".repeat(7), "\\x00".repeat(7));
    finds(
        &[&format!("malformed extent under the key {extent}")],
        |records| {
            records.insert(extent_key(FILE, 40), vec![0, 0]);
        },
    );
}

#[test]
fn entries_that_are_malformed_are_found() {
    let finds = |what: &str, value: &[u8]| {
        let (mut records, totals) = healthy();
        let key = entry_key(&records, DIRECTORY, "file");
        let expected = format!("malformed {what} under the key {}", key.escape_ascii());
        records.insert(key, value.to_vec());
        let faults = faults_in(&records, totals);
        assert!(faults.contains(&expected), "{expected:?} is not in {faults:#?}");
    };
    let mut odd = entry_value(FILE, Kind::File, "file");
    odd[8] = 3;
    finds("entry", &odd[..8]);
    finds("kind of an entry", &odd);
    finds("name", &entry_value(FILE, Kind::File, "a/b"));
}
