//! A decision: what was read for it stays in memory until it is applied.

use crate::stored::{KEY, Pages, ROOT};
use std::sync::atomic::{AtomicBool, Ordering};
use tenure_core::Branch;
use tenure_core::tree::Hand;
use tenure_model::{Extent, Ino, Kind, Name, NewNode, Op, Piece, Timestamp};

const FILE: Ino = Ino(16);
const TIME: Timestamp = Timestamp { secs: 1, nanos: 0 };

/// A branch with a file of a few hundred extents, all of it folded.
fn folded(pages: &mut Pages) -> Branch {
    let mut branch = Branch::new(KEY, ROOT);
    let node = NewNode {
        kind: Kind::File,
        mode: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: Box::from([]),
    };
    let name = Name::parse(b"f").expect("it is a name");
    let create = Op::Create { parent: Ino::ROOT, name, ino: FILE, node, time: TIME };
    pages.change(&mut branch, &create).expect("no rule is against it");
    let piece = |at: u64| Piece { offset: 100 * at, extent: Extent::Inline(vec![at as u8; 90].into()) };
    let write = Op::Write { ino: FILE, pieces: (0..300).map(piece).collect(), size: 0, time: Some(TIME) };
    pages.change(&mut branch, &write).expect("no rule is against it");
    pages.fold(branch.tree());
    branch
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
            let insert = Op::Insert { ino: FILE, offset: 0, len: 7, time: TIME };
            let inserted = pages.ask(|| branch.change(&insert)).expect("no rule is against it");
            assert_eq!(inserted.inode.map(|(_, attr)| attr.size), Some(29_997));
        }
        drop(end);
    });
    pages.check(&evicted);
}
