//! Merges: that nothing is lost whatever both sides have done, and that they read what was changed and no more. What becomes of
//! each kind of case is in the scenarios.

use crate::reference::Seen;
use crate::stored::{KEY, Pages, ROOT};
use crate::visible::see;
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::{Branch, Merge, Merged, NameHash, Settled, Terms};
use tenure_model::{
    AttrChange, ConflictKind, Extent, Ino, Kind, Name, NewNode, Op, Piece, RenameMode, Timestamp, What,
};

/// Merges; contents that differ become `text`, if there is any.
pub(crate) fn merged(
    pages: &Pages,
    (base, ours, theirs): (&Branch, &Branch, &Branch),
    terms: Terms,
    text: Option<&str>,
) -> Merged {
    let mut merge = Merge::new(base.clone(), ours.clone(), theirs.clone(), terms);
    pages.answer(|| merge.compare(usize::MAX));
    pages.answer(|| merge.judge());
    while pages.answer(|| merge.next_both()).is_some() {
        let settled = match text {
            None => Settled::Conflict,
            Some(text) => Settled::Merged {
                driver: "text".into(),
                pieces: vec![Piece {
                    offset: 0,
                    extent: Extent::Inline(text.as_bytes().into()),
                }],
                size: text.len() as u64,
            },
        };
        pages.answer(|| merge.settle(&settled));
    }
    pages.answer(|| merge.finish());
    let merged = merge.answer();
    pages.check(&merged.branch);
    merged
}

type Bytes = Vec<u8>;

/// Returns what is at each path: of a file its bytes, of anything else what it is; times do not count.
fn paths(inodes: &BTreeMap<Ino, Seen>) -> BTreeMap<Bytes, String> {
    let mut paths = BTreeMap::new();
    let mut next = vec![(Bytes::new(), Ino::ROOT)];
    while let Some((path, ino)) = next.pop() {
        let seen = &inodes[&ino];
        for (name, (child, _)) in &seen.entries {
            next.push(([&path[..], b"/", name].concat(), *child));
        }
        let attr = &seen.attr;
        let told = (
            attr.kind,
            attr.mode,
            attr.uid,
            &seen.bytes,
            &seen.target,
            &seen.xattrs,
        );
        paths.insert(path, format!("{told:?}"));
    }
    paths
}

fn see_paths(pages: &Pages, branch: &Branch) -> BTreeMap<Bytes, String> {
    paths(&see(pages, branch))
}

/// Returns the paths of a branch with their inodes and contents, to be read.
fn told_paths(pages: &Pages, branch: &Branch) -> Vec<String> {
    let inodes = see(pages, branch);
    let mut told = Vec::new();
    let mut next = vec![(String::new(), Ino::ROOT)];
    while let Some((path, ino)) = next.pop() {
        let seen = &inodes[&ino];
        for (name, (child, _)) in &seen.entries {
            next.push((format!("{path}/{}", name.escape_ascii()), *child));
        }
        let bytes: Bytes = seen
            .bytes
            .iter()
            .copied()
            .map(Option::unwrap_or_default)
            .collect();
        let (kind, mode) = (seen.attr.kind, seen.attr.mode);
        told.push(format!("{path} {ino} {kind:?} {mode:o} {}", bytes.escape_ascii()));
    }
    told.sort();
    told
}

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A few branches that are changed at random.
pub(crate) struct Sides {
    pub(crate) pages: Pages,
    numbers: Numbers,
    pub(crate) next: Ino,
    ticks: i64,
}

/// Names are few, so that both sides meet.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl Sides {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            pages: Pages::default(),
            numbers: Numbers(seed),
            next: Ino(16),
            ticks: 0,
        }
    }

    pub(crate) fn tick(&mut self) -> Timestamp {
        self.ticks += 1;
        Timestamp {
            secs: self.ticks,
            nanos: 0,
        }
    }

    /// Returns some inode of a kind, and all directories that it may go to.
    fn some(&mut self, branch: &Branch, is_wanted: impl Fn(&Seen) -> bool) -> Option<Ino> {
        let seen = see(&self.pages, branch);
        let wanted: Vec<Ino> = seen
            .iter()
            .filter(|(_, seen)| seen.attr.nlink > 0 && is_wanted(seen))
            .map(|(ino, _)| *ino)
            .collect();
        (!wanted.is_empty()).then(|| wanted[self.numbers.below(wanted.len())])
    }

    fn entry(&mut self, branch: &Branch) -> Option<(Ino, Name)> {
        let directory = self.some(branch, |seen| !seen.entries.is_empty())?;
        let names: Vec<Bytes> = see(&self.pages, branch)[&directory]
            .entries
            .keys()
            .cloned()
            .collect();
        let name = &names[self.numbers.below(names.len())];
        Some((directory, Name::parse(name).expect("a name that is there is one")))
    }

    fn place(&mut self, branch: &Branch) -> (Ino, Name) {
        let directory = self.some(branch, |seen| seen.attr.kind == Kind::Directory);
        let name = NAMES[self.numbers.below(NAMES.len())];
        (
            directory.unwrap_or(Ino::ROOT),
            Name::parse(name.as_bytes()).expect("a literal name"),
        )
    }

    fn write(&mut self, ino: Ino) -> Op {
        let text = format!("text {}", self.ticks);
        Op::Write {
            ino,
            pieces: vec![Piece {
                offset: 0,
                extent: Extent::Inline(text.as_bytes().into()),
            }],
            size: 0,
            time: Some(self.tick()),
        }
    }

    /// Changes a branch by one op, if that is not refused.
    fn change(&mut self, branch: &mut Branch) {
        let time = self.tick();
        let is_file = |seen: &Seen| seen.attr.kind == Kind::File;
        let mut ops = Vec::new();
        match self.numbers.below(12) {
            at @ 0..=3 => {
                let (parent, name) = self.place(branch);
                let ino = self.next;
                self.next = ino.next();
                let kind = match at {
                    0 => Kind::Directory,
                    1 => Kind::Symlink,
                    _ => Kind::File,
                };
                let target = if at == 1 {
                    format!("to-{ino}")
                } else {
                    String::new()
                };
                let node = NewNode {
                    kind,
                    target: target.as_bytes().into(),
                    ..NewNode::file()
                };
                ops.push(Op::Create {
                    parent,
                    name,
                    ino,
                    node,
                    time,
                });
                if kind == Kind::File {
                    ops.push(self.write(ino));
                }
            }
            4 | 5 => {
                let file = self.some(branch, is_file);
                ops.extend(file.map(|ino| self.write(ino)));
            }
            6 | 7 => {
                if let Some((parent, name)) = self.entry(branch) {
                    ops.push(Op::Unlink {
                        parent,
                        name: name.clone(),
                        time,
                    });
                    ops.push(Op::Rmdir { parent, name, time });
                }
            }
            8 | 9 => {
                if let Some((from, name)) = self.entry(branch) {
                    let (to, new_name) = self.place(branch);
                    let mode = RenameMode::Replace;
                    ops.push(Op::Rename {
                        from,
                        name,
                        to,
                        new_name,
                        mode,
                        time,
                    });
                }
            }
            10 => {
                let file = self.some(branch, is_file);
                let (parent, name) = self.place(branch);
                ops.extend(file.map(|ino| Op::Link {
                    ino,
                    parent,
                    name,
                    time,
                }));
            }
            _ => {
                let some = self.some(branch, |seen| seen.attr.kind != Kind::Symlink);
                let change = AttrChange {
                    mode: Some(0o600 + self.numbers.below(8) as u32),
                    ..AttrChange::default()
                };
                ops.extend(some.map(|ino| Op::SetAttr { ino, change, time }));
            }
        }
        for op in ops {
            // What cannot be done is not.
            drop(self.pages.change(branch, &op));
        }
        for ino in self.pages.answer(|| branch.orphans()) {
            self.pages
                .change(branch, &Op::Drop { ino })
                .expect("it has no entry");
        }
    }

    fn terms(&mut self, from: &str) -> Terms {
        Terms {
            from: from.into(),
            next: self.next,
            time: self.tick(),
        }
    }

    fn merge(&mut self, base: &Branch, ours: &Branch, theirs: &Branch) -> Merged {
        let terms = self.terms("try");
        merged(&self.pages, (base, ours, theirs), terms, None)
    }
}

/// Returns a base and two branches that have become of it.
pub(crate) fn three(seed: u64, steps: usize) -> (Sides, Branch, Branch, Branch) {
    let mut sides = Sides::new(seed);
    let mut base = Branch::new(KEY, ROOT);
    for _ in 0..2 * steps {
        sides.change(&mut base);
    }
    let (mut ours, mut theirs) = (base.clone(), base.clone());
    for _ in 0..steps {
        sides.change(&mut ours);
        sides.change(&mut theirs);
    }
    (sides, base, ours, theirs)
}

#[test]
fn a_merge_with_a_side_that_has_not_changed_is_the_other_side() {
    for seed in 0..300 {
        let (mut sides, base, _, theirs) = three(seed, 12);
        let taken = sides.merge(&base, &base, &theirs);
        assert_eq!(taken.conflicts, 0, "seed {seed}: {:?}", taken.files);
        let (is, was) = (
            see_paths(&sides.pages, &taken.branch),
            see_paths(&sides.pages, &theirs),
        );
        assert_eq!(is, was, "seed {seed}");
        let nothing = sides.merge(&base, &theirs, &base);
        assert_eq!(see_paths(&sides.pages, &nothing.branch), was, "seed {seed}");
        assert!(nothing.files.is_empty() && nothing.inos == 0, "seed {seed}");
    }
}

#[test]
fn a_merge_of_two_sides_that_have_done_the_same_is_that() {
    for seed in 0..100 {
        let (mut sides, base, _, theirs) = three(seed, 12);
        let both = sides.merge(&base, &theirs, &theirs);
        assert_eq!(both.conflicts, 0, "seed {seed}: {:?}", both.files);
        assert_eq!(
            see_paths(&sides.pages, &both.branch),
            see_paths(&sides.pages, &theirs),
            "seed {seed}"
        );
    }
}

/// Returns the contents that one side has and the base has not.
fn news(pages: &Pages, base: &Branch, side: &Branch) -> BTreeSet<Bytes> {
    let contents = |branch: &Branch| -> BTreeSet<Bytes> {
        let seen = see(pages, branch);
        let files = seen.into_values().filter(|seen| seen.attr.kind == Kind::File);
        files
            .map(|seen| seen.bytes.into_iter().map(Option::unwrap_or_default).collect())
            .collect()
    };
    let before = contents(base);
    contents(side)
        .into_iter()
        .filter(|bytes| !before.contains(bytes))
        .collect()
}

#[test]
fn whatever_two_sides_have_done_no_file_is_lost_and_what_is_made_holds_together() {
    for seed in 0..600 {
        let (mut sides, base, ours, theirs) = three(seed, 10);
        // `merged` looks at every invariant.
        let both = sides.merge(&base, &ours, &theirs);
        let all = news(&sides.pages, &base, &both.branch);
        for side in [&ours, &theirs] {
            let lost: Vec<_> = news(&sides.pages, &base, side)
                .into_iter()
                .filter(|bytes| !all.contains(bytes))
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .collect();
            assert!(lost.is_empty(), "seed {seed}: {lost:?} of {:?}", both.files);
        }
        let told = both
            .files
            .iter()
            .filter(|file| matches!(file.what, What::Conflicted(_)));
        assert_eq!(told.count() as u64, both.conflicts, "seed {seed}");
        // With nothing in memory it comes to the same.
        let names = NameHash::from(KEY);
        let cold = [&base, &ours, &theirs].map(|branch| sides.pages.cold(branch, names));
        let terms = Terms {
            from: "try".into(),
            next: sides.next,
            time: Timestamp {
                secs: sides.ticks,
                nanos: 0,
            },
        };
        let again = merged(&sides.pages, (&cold[0], &cold[1], &cold[2]), terms, None);
        assert_eq!(
            sides.pages.records(&again.branch),
            sides.pages.records(&both.branch),
            "seed {seed}"
        );
    }
}

/// Tells whether nothing else does not fit than directories that were moved to where the other side has made one: of those theirs lies beside.
fn is_of_directories(pages: &Pages, merged: &Merged) -> bool {
    let paths = see_paths(pages, &merged.branch);
    merged.files.iter().all(|file| match file.what {
        What::Conflicted(ConflictKind::Added) => {
            let path = [b"/", &file.path[..]].concat();
            let both = [path.clone(), [&path[..], b"~try"].concat()];
            let is_directory =
                |path: &Bytes| paths.get(path).is_some_and(|told| told.starts_with("(Directory"));
            both.iter().all(is_directory)
        }
        What::Conflicted(_) => false,
        What::Taken | What::Removed | What::Merged(_) => true,
    })
}

#[test]
fn which_side_is_merged_into_which_decides_only_what_lies_beside_what() {
    for seed in 0..300 {
        let (mut sides, base, ours, theirs) = three(seed, 8);
        let (one, other) = (
            sides.merge(&base, &ours, &theirs),
            sides.merge(&base, &theirs, &ours),
        );
        if one.conflicts > 0 || other.conflicts > 0 {
            let is_fit = |merged: &Merged| merged.conflicts == 0 || is_of_directories(&sides.pages, merged);
            assert_eq!(
                is_fit(&one),
                is_fit(&other),
                "seed {seed}: {:?} {:?} {:?} {:?} {:?}",
                one.files,
                other.files,
                told_paths(&sides.pages, &base),
                told_paths(&sides.pages, &ours),
                told_paths(&sides.pages, &theirs)
            );
            continue;
        }
        assert_eq!(
            see_paths(&sides.pages, &one.branch),
            see_paths(&sides.pages, &other.branch),
            "seed {seed}"
        );
    }
}

#[test]
fn a_merge_reads_what_was_changed_and_where_it_is_whatever_else_there_is() {
    let mut sides = Sides::new(1);
    let mut base = Branch::new(KEY, ROOT);
    let mut files = Vec::new();
    for at in 0..200 {
        let directory = sides.next;
        sides.next = directory.next();
        let time = sides.tick();
        let make = |parent, name: String, ino, kind| Op::Create {
            parent,
            name: Name::parse(name.as_bytes()).unwrap(),
            ino,
            node: NewNode {
                kind,
                ..NewNode::file()
            },
            time,
        };
        let op = make(Ino::ROOT, format!("directory-{at}"), directory, Kind::Directory);
        sides.pages.change(&mut base, &op).unwrap();
        for file in 0..50 {
            let ino = sides.next;
            sides.next = ino.next();
            let op = make(directory, format!("file-{file}"), ino, Kind::File);
            sides.pages.change(&mut base, &op).unwrap();
            files.push(ino);
        }
    }
    let names = NameHash::from(KEY);
    let (mut ours, mut theirs) = (sides.pages.cold(&base, names), sides.pages.cold(&base, names));
    for (branch, files) in [(&mut ours, &files[..5]), (&mut theirs, &files[5000..5005])] {
        for ino in files {
            let op = sides.write(*ino);
            sides.pages.change(branch, &op).unwrap();
        }
    }
    let cold = [&base, &ours, &theirs].map(|branch| sides.pages.cold(branch, names));
    sides.pages.loads();
    let terms = sides.terms("try");
    let mut merge = Merge::new(cold[0].clone(), cold[1].clone(), cold[2].clone(), terms);
    sides.pages.answer(|| merge.compare(usize::MAX));
    sides.pages.answer(|| merge.judge());
    assert_eq!(sides.pages.answer(|| merge.next_both()), None);
    sides.pages.answer(|| merge.finish());
    let loads = sides.pages.loads();
    assert!(loads < 60, "{loads} pages are read");
    assert_eq!(merge.answer().files.len(), 5);
}

#[test]
fn a_name_that_was_removed_is_told_by_that_name_and_the_others_are_not() {
    let mut sides = Sides::new(1);
    let mut base = Branch::new(KEY, ROOT);
    let name = |name: &str| Name::parse(name.as_bytes()).unwrap();
    let (parent, ino) = (Ino::ROOT, Ino(16));
    sides.next = Ino(17);
    let create = Op::Create {
        parent,
        name: name("one"),
        ino,
        node: NewNode::file(),
        time: sides.tick(),
    };
    let link = Op::Link {
        ino,
        parent,
        name: name("other"),
        time: sides.tick(),
    };
    for op in [create, link] {
        sides.pages.change(&mut base, &op).unwrap();
    }
    let (mut theirs, unlink) = (base.clone(), sides.tick());
    let unlink = Op::Unlink {
        parent,
        name: name("other"),
        time: unlink,
    };
    sides.pages.change(&mut theirs, &unlink).unwrap();
    let merged = sides.merge(&base, &base, &theirs);
    let told: Vec<_> = merged
        .files
        .iter()
        .map(|file| (&*file.path, &file.what))
        .collect();
    assert_eq!(told, [(&b"other"[..], &What::Removed)]);
    assert_eq!(
        see_paths(&sides.pages, &merged.branch),
        see_paths(&sides.pages, &theirs)
    );
}
