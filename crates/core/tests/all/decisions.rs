//! A decision: what was read for it stays in memory until it is applied.

use crate::stored::{KEY, Pages, ROOT};
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_core::tree::Hand;
use tenure_core::{Branch, NameHash};
use tenure_model::{AttrChange, Extent, Ino, Name, NewNode, Op, Piece, Timestamp};

const FILE: Ino = Ino(16);
const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };

fn name() -> Name {
    Name::parse(b"file").expect("it is a name")
}

fn piece(at: u64, offset: u64) -> Piece {
    let extent = Extent::Inline(vec![at as u8; 90].into());
    Piece { offset, extent }
}

/// A branch with a file of a few hundred extents, all of it folded.
fn folded(pages: &mut Pages) -> Branch {
    let mut branch = Branch::new(KEY, ROOT);
    let node = NewNode::file();
    let create = Op::Create {
        parent: Ino::ROOT,
        name: name(),
        ino: FILE,
        node,
        time: TIME,
    };
    pages.change(&mut branch, &create).expect("no rule is against it");
    let write = Op::Write {
        ino: FILE,
        pieces: (0..300).map(|at| piece(at, at * 100)).collect(),
        size: 0,
        time: Some(TIME),
    };
    pages.change(&mut branch, &write).expect("no rule is against it");
    pages.fold(branch.tree());
    branch
}

/// Everything that can be done to the content of a file as a whole, or to the whole of a part of it.
fn ops() -> Vec<Op> {
    let (ino, time) = (FILE, TIME);
    let cut = |size| Op::SetAttr {
        ino,
        change: AttrChange {
            size: Some(size),
            ..AttrChange::default()
        },
        time,
    };
    let copy = |from_offset, to_offset, len| Op::Copy {
        from: ino,
        from_offset,
        to: ino,
        to_offset,
        len,
        time,
    };
    let write = |offset, len: u64| Op::Write {
        ino,
        pieces: (offset / 100..(offset + len) / 100)
            .map(|at| piece(at, at * 100 + 50))
            .collect(),
        size: 0,
        time: Some(time),
    };
    vec![
        cut(0),
        cut(1),
        cut(15_000),
        cut(29_989),
        Op::Punch {
            ino,
            offset: 0,
            len: 40_000,
            time,
        },
        Op::Punch {
            ino,
            offset: 1,
            len: 29_000,
            time,
        },
        Op::Punch {
            ino,
            offset: 10_000,
            len: 5_000,
            time,
        },
        Op::Insert {
            ino,
            offset: 0,
            len: 1,
            time,
        },
        Op::Insert {
            ino,
            offset: 0,
            len: 1 << 40,
            time,
        },
        Op::Insert {
            ino,
            offset: 15_000,
            len: 100,
            time,
        },
        Op::Collapse {
            ino,
            offset: 0,
            len: 1,
            time,
        },
        Op::Collapse {
            ino,
            offset: 0,
            len: 29_000,
            time,
        },
        Op::Collapse {
            ino,
            offset: 10_000,
            len: 10_000,
            time,
        },
        copy(0, 40_000, 29_990),
        copy(0, 15_000, 14_000),
        write(0, 30_000),
        write(10_000, 100),
    ]
}

#[test]
fn a_decision_about_many_pages_reads_each_that_it_changes() {
    let (mut pages, names) = (Pages::default(), NameHash::from(KEY));
    let branch = folded(&mut pages);
    for op in ops() {
        let [mut here, mut cold, mut sparse] = [
            branch.clone(),
            pages.cold(&branch, names),
            pages.sparse(&branch, names),
        ];
        let outcomes = [&mut here, &mut cold, &mut sparse].map(|branch| pages.change(branch, &op));
        assert!(
            outcomes[0].is_ok() && outcomes.iter().all(|outcome| *outcome == outcomes[0]),
            "{op:?}"
        );
        let records = [&here, &cold, &sparse].map(|branch| pages.records(branch));
        assert!(records.iter().all(|other| *other == records[0]), "{op:?}");
        [&here, &cold, &sparse]
            .into_iter()
            .for_each(|branch| pages.check(branch));
    }
}

#[test]
fn a_file_ends_without_a_look_at_its_content() {
    let mut pages = Pages::default();
    let mut branch = folded(&mut pages);
    let unlink = Op::Unlink {
        parent: Ino::ROOT,
        name: name(),
        time: TIME,
    };
    for op in [&unlink, &Op::Drop { ino: FILE }] {
        let mut sparse = pages.sparse(&branch, NameHash::from(KEY));
        pages.loads();
        pages.change(&mut sparse, op).expect("no rule is against it");
        let loads = pages.loads();
        assert!(loads < 20, "{loads} pages were read to {op:?}");
        pages.change(&mut branch, op).expect("no rule is against it");
    }
    assert_eq!((branch.totals().inodes, branch.totals().bytes), (1, 0));
    pages.check(&branch);
}

/// Tells a thread to end, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_branch_is_changed_while_another_thread_evicts_its_pages() {
    let mut pages = Pages::default();
    let evicted = folded(&mut pages);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut hand = Hand::default();
            while !done.load(Ordering::Relaxed) {
                evicted.tree().evict(&mut hand, 4000);
                std::thread::yield_now();
            }
        });
        let end = End(&done);
        for _ in 0..40 {
            let mut branch = evicted.clone();
            let insert = Op::Insert {
                ino: FILE,
                offset: 0,
                len: 7,
                time: TIME,
            };
            let inserted = pages
                .ask(|| branch.change(&insert))
                .expect("no rule is against it");
            assert_eq!(inserted.inode.map(|(_, attr)| attr.size), Some(29_997));
        }
        drop(end);
    });
    pages.check(&evicted);
}
