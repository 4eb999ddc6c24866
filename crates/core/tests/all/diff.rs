//! What is told of the difference between two branches: all of it, nothing else, and by reading little.

use crate::reference::Seen;
use crate::stored::{KEY, Pages, ROOT};
use crate::visible::see;
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::{Branch, Diff};
use tenure_model::{
    AttrChange, Difference, Extent, Ino, Kind, Name, NewNode, Op, Piece, RenameMode, Side, Timestamp,
};

type Bytes = Vec<u8>;
type Inodes = BTreeMap<Ino, Seen>;

/// Returns what differs at and below a path.
pub(crate) fn differences(pages: &Pages, before: &Branch, after: &Branch, below: &[u8]) -> Vec<Difference> {
    let (mut all, mut behind) = (Vec::new(), Some(Ino(0)));
    while let Some(ino) = behind {
        let mut diff = Diff::new(before.clone(), after.clone(), below, ino);
        pages.answer(|| diff.go_on());
        let (found, next) = diff.answer();
        assert!(next > Some(ino) || next.is_none(), "it comes to an end");
        all.extend(found);
        behind = next;
    }
    all
}

/// Returns every path with the inode there.
fn paths(inodes: &Inodes) -> BTreeMap<Bytes, Ino> {
    let mut paths = BTreeMap::new();
    let mut next = vec![(Bytes::new(), Ino::ROOT)];
    while let Some((path, ino)) = next.pop() {
        for (name, (child, _)) in &inodes[&ino].entries {
            let path = if path.is_empty() {
                name.clone()
            } else {
                [&path, &b"/"[..], name].concat()
            };
            next.push((path, *child));
        }
        paths.insert(path, ino);
    }
    paths
}

/// Holds what is told against both states: each path of either has one place in it, and what is not told is equal.
pub(crate) fn hold_against(pages: &Pages, before: &Branch, after: &Branch) {
    let told = differences(pages, before, after, b"");
    let (old, new) = (see(pages, before), see(pages, after));
    let (was, is) = (paths(&old), paths(&new));
    let mut accounted = BTreeSet::new();
    let there: BTreeMap<&[u8], &Difference> = told
        .iter()
        .filter(|one| one.after.is_some())
        .map(|one| (&*one.path, one))
        .collect();
    let is_there = |one: &&Difference| one.after.is_some();
    assert_eq!(
        there.len(),
        told.iter().filter(is_there).count(),
        "a path is told once"
    );
    for (path, ino) in &is {
        let source = match there.get(&**path) {
            Some(one) => {
                assert_side(&old, &new, one);
                assert_eq!(one.after.as_ref().map(|side| side.ino), Some(*ino));
                let Some(before) = &one.before else { continue };
                let source = one
                    .moved_from
                    .clone()
                    .map_or_else(|| source(&there, path), Vec::from);
                assert_eq!(was.get(&source), Some(&before.ino), "{one:?}");
                source
            }
            None => {
                let source = source(&there, path);
                let before = was.get(&source);
                assert!(
                    before.is_some_and(|before| is_alike(&old[before], &new[ino])),
                    "{} is {before:?} and {ino:?}, and nothing is told of it: {told:#?}",
                    path.escape_ascii()
                );
                source
            }
        };
        assert!(accounted.insert(source), "what was there is at one place now");
    }
    for one in told.iter().filter(|one| one.after.is_none()) {
        let before = one.before.as_ref().expect("it was somewhere");
        assert_eq!(was.get(&*one.path), Some(&before.ino));
        assert!(accounted.insert(one.path.to_vec()), "{one:?}");
    }
    assert_eq!(accounted, was.into_keys().collect(), "{told:#?}");
}

/// Returns where what is at a path was before, if nothing but directories above it has moved.
fn source(there: &BTreeMap<&[u8], &Difference>, path: &[u8]) -> Bytes {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let above = ends.map(|(end, _)| end).rev();
    let mut moved = above.filter_map(|end| {
        let from = there.get(&path[..end])?.moved_from.as_ref()?;
        Some([&**from, &path[end..]].concat())
    });
    moved.next().unwrap_or_else(|| path.to_vec())
}

/// Tells whether two inodes are the same but for times.
fn is_alike(old: &Seen, new: &Seen) -> bool {
    let said = |seen: &Seen| {
        let attr = seen.attr;
        (
            attr.kind,
            attr.mode,
            attr.uid,
            attr.gid,
            attr.rdev,
            seen.target.clone(),
            seen.xattrs.clone(),
        )
    };
    // Bytes that were put without a time are the same bytes, whatever these histories put.
    said(old) == said(new) && (old.bytes == new.bytes || old.attr == new.attr)
}

fn assert_side(old: &Inodes, new: &Inodes, one: &Difference) {
    let of = |inodes: &Inodes, side: &Option<Side>| {
        let seen = side.as_ref().map(|side| inodes[&side.ino].clone());
        if let (Some(side), Some(seen)) = (side, &seen) {
            assert_eq!((side.attr, &*side.target), (seen.attr, &*seen.target));
        }
        seen
    };
    if let (Some(old), Some(new)) = (of(old, &one.before), of(new, &one.after)) {
        assert!(
            one.content_differs || old.bytes == new.bytes || old.attr.kind != Kind::File,
            "{one:?}"
        );
        assert_eq!(one.xattrs_differ, old.xattrs != new.xattrs, "{one:?}");
    }
}

/// A branch that is changed by paths' last names, all in few directories.
#[derive(Clone)]
struct Made {
    branch: Branch,
    next: Ino,
    time: i64,
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("it is a name")
}

impl Made {
    fn new() -> Self {
        Self {
            branch: Branch::new(KEY, ROOT),
            next: Ino(16),
            time: 10,
        }
    }

    fn change(&mut self, op: impl FnOnce(Timestamp) -> Op) {
        self.time += 1;
        let time = Timestamp {
            secs: self.time,
            nanos: 0,
        };
        let changed = self.branch.change(&op(time));
        changed.expect("it is in memory, and no rule is against it");
    }

    fn make(&mut self, parent: Ino, text: &str, kind: Kind) -> Ino {
        let ino = self.next;
        self.next = ino.next();
        self.change(|time| Op::Create {
            parent,
            name: name(text),
            ino,
            node: NewNode {
                kind,
                mode: 0o644,
                umask: 0,
                uid: 0,
                gid: 0,
                rdev: 0,
                target: Box::from([]),
            },
            time,
        });
        ino
    }

    fn file(&mut self, parent: Ino, text: &str, bytes: &[u8]) -> Ino {
        let ino = self.make(parent, text, Kind::File);
        self.write(ino, bytes);
        ino
    }

    fn write(&mut self, ino: Ino, bytes: &[u8]) {
        let extent = Extent::Inline(bytes.into());
        self.change(|time| Op::Write {
            ino,
            pieces: vec![Piece { offset: 0, extent }],
            size: 0,
            time: Some(time),
        });
    }

    fn rename(&mut self, from: (Ino, &str), to: (Ino, &str), mode: RenameMode) {
        self.change(|time| Op::Rename {
            from: from.0,
            name: name(from.1),
            to: to.0,
            new_name: name(to.1),
            mode,
            time,
        });
    }

    fn link(&mut self, ino: Ino, parent: Ino, text: &str) {
        self.change(|time| Op::Link {
            ino,
            parent,
            name: name(text),
            time,
        });
    }

    fn unlink(&mut self, parent: Ino, text: &str) {
        self.change(|time| Op::Unlink {
            parent,
            name: name(text),
            time,
        });
    }

    fn set_mode(&mut self, ino: Ino, mode: u32) {
        self.change(|time| Op::SetAttr {
            ino,
            change: AttrChange {
                mode: Some(mode),
                ..AttrChange::default()
            },
            time,
        });
    }
}

/// Says what is told, a line for each difference.
fn told(before: &Made, after: &Made, below: &str) -> Vec<String> {
    let pages = Pages::default();
    let line = |one: &Difference| {
        let what = match (&one.before, &one.after) {
            (None, _) => "created",
            (_, None) => "removed",
            _ if one.moved_from.is_some() => "renamed",
            _ => "changed",
        };
        let from = one
            .moved_from
            .iter()
            .map(|from| format!(" from {}", from.escape_ascii()));
        let content = if one.content_differs { ", content" } else { "" };
        format!(
            "{what} {}{}{content}",
            one.path.escape_ascii(),
            from.collect::<String>()
        )
    };
    let found = differences(&pages, &before.branch, &after.branch, below.as_bytes());
    let mut lines: Vec<_> = found.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn what_was_changed_is_told_by_its_path_and_what_was_not_is_not() {
    let mut before = Made::new();
    let src = before.make(Ino::ROOT, "src", Kind::Directory);
    let deep = before.make(src, "deep", Kind::Directory);
    let files = ["written", "touched", "runs", "gone", "moved", "saved"];
    let [written, touched, runs, _, _, _] = files.map(|text| before.file(deep, text, text.as_bytes()));
    let mut after = before.clone();
    after.write(written, b"WRITTEN");
    after.write(touched, b"touched");
    after.set_mode(runs, 0o755);
    after.unlink(deep, "gone");
    after.rename((deep, "moved"), (src, "here"), RenameMode::Replace);
    // As editors save.
    after.file(deep, "saved.tmp", b"saved again");
    after.rename((deep, "saved.tmp"), (deep, "saved"), RenameMode::Replace);
    after.file(src, "new", b"new");
    let all = [
        "changed src/deep/runs",
        "changed src/deep/saved, content",
        "changed src/deep/written, content",
        "created src/new",
        "removed src/deep/gone",
        "renamed src/here from src/deep/moved",
    ];
    assert_eq!(told(&before, &after, ""), all);
    assert_eq!(told(&before, &after, "src/deep/saved"), all[1..2]);
    assert_eq!(told(&before, &after, "src/deep/save"), [""; 0]);
    assert_eq!(told(&before, &after, "src/here"), all[5..]);
    assert_eq!(told(&before, &before, ""), [""; 0]);
}

#[test]
fn what_is_below_a_renamed_directory_is_told_only_where_it_was_changed() {
    let mut before = Made::new();
    let old = before.make(Ino::ROOT, "old", Kind::Directory);
    before.file(old, "same", b"same");
    let other = before.file(old, "other", b"other");
    let mut after = before.clone();
    after.rename((Ino::ROOT, "old"), (Ino::ROOT, "new"), RenameMode::Replace);
    after.write(other, b"OTHER");
    let all = ["changed new/other, content", "renamed new from old"];
    assert_eq!(told(&before, &after, ""), all);
    let back = ["changed old/other, content", "renamed old from new"];
    assert_eq!(told(&after, &before, ""), back);
}

#[test]
fn who_change_places_are_both_renamed_and_a_name_more_is_created() {
    let mut before = Made::new();
    let one = before.file(Ino::ROOT, "one", b"one");
    before.file(Ino::ROOT, "two", b"two");
    let mut after = before.clone();
    after.rename((Ino::ROOT, "one"), (Ino::ROOT, "two"), RenameMode::Exchange);
    after.link(one, Ino::ROOT, "three");
    let all = ["created two", "renamed one from two", "renamed three from one"];
    assert_eq!(told(&before, &after, ""), all);
}

#[test]
fn every_name_of_a_changed_file_is_told_wherever_it_is() {
    let mut before = Made::new();
    let far = before.make(Ino::ROOT, "far", Kind::Directory);
    let away = before.make(far, "away", Kind::Directory);
    let file = before.file(Ino::ROOT, "file", b"file");
    before.link(file, away, "linked");
    before.link(file, Ino::ROOT, "again");
    // Its directory is not known from here on.
    before.unlink(Ino::ROOT, "again");
    let mut after = before.clone();
    after.write(file, b"FILE");
    let all = ["changed far/away/linked, content", "changed file, content"];
    assert_eq!(told(&before, &after, ""), all);
}

/// Returns how many pages a diff of a tree of so many directories of 100 files loads, in which the same few were changed, and
/// how many there are.
fn loads(directories: usize) -> (usize, usize) {
    let mut made = Made::new();
    let mut files = Vec::new();
    for at in 0..directories {
        let directory = made.make(Ino::ROOT, &format!("directory-{at}"), Kind::Directory);
        files.extend((0..100).map(|at| made.file(directory, &format!("file-{at}"), b"before")));
    }
    let mut pages = Pages::default();
    let before = pages.cold(&made.branch, KEY.into());
    (0..10).for_each(|at| made.write(files[at * files.len() / 10], b"after"));
    let after = pages.cold(&made.branch, KEY.into());
    pages.loads();
    let found = differences(&pages, &before, &after, b"");
    let mut told: Vec<_> = found
        .iter()
        .map(|one| one.path.escape_ascii().to_string())
        .collect();
    told.sort();
    let mut expected: Vec<_> = (0..10)
        .map(|at| format!("directory-{}/file-0", at * directories / 10))
        .collect();
    expected.sort();
    assert_eq!(told, expected);
    (pages.loads(), pages.records(&before).len() * 60 / 4096)
}

#[test]
fn a_diff_reads_what_was_changed_and_where_it_is_whatever_else_there_is() {
    let ((few, _), (many, all)) = (loads(20), loads(200));
    assert!(
        few <= many && many <= few + few / 2 && many < all / 4,
        "{few}, {many} of {all}"
    );
}
