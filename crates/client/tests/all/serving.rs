//! Threads that must not wait for an owner that is elsewhere, and callers who are sent away while they wait.

use crate::world::{At, World, name, node, options};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tenure_client::wait::{Caller, for_caller, without_waiting, would_have_waited};
use tenure_client::{Branch, Error, Seek};
use tenure_model::{AttrChange, Ino, Kind, RenameMode, XattrMode, XattrName};

/// Returns a branch of which nothing is in memory, with a file `f` in a directory `d`, and their numbers.
pub(crate) fn cold(at: At) -> (World, Ino, Ino) {
    let world = World::new(at, options(1 << 20));
    let (dir, _) = world
        .branch
        .create(Ino::ROOT, &name("d"), &node(Kind::Directory))
        .unwrap();
    let (file, _) = world.branch.create(dir, &name("f"), &node(Kind::File)).unwrap();
    world.branch.write(file, 0, Bytes::from(vec![7; 10_000])).unwrap();
    world.branch.sync_all().unwrap();
    (world.reopen(), dir, file)
}

/// What may be asked of a branch.
type Call = fn(&Branch, Ino, Ino) -> Result<(), Error>;

const READS: [Call; 8] = [
    |branch, dir, _| branch.lookup(dir, &name("f")).map(drop),
    |branch, _, file| branch.attr(file).map(drop),
    |branch, _, file| branch.read(file, 0, 100, &mut Vec::new()),
    |branch, dir, _| {
        let visit =
            |(): &mut (), _: tenure_client::DirEntry<'_>, _: Option<&_>| std::ops::ControlFlow::Continue(());
        branch.list(dir, 2, true, || (), visit)
    },
    |branch, _, file| branch.xattrs(file).map(drop),
    |branch, _, file| branch.seek(file, 0, Seek::Data).map(drop),
    |branch, _, _| branch.room().map(drop),
    |branch, dir, _| branch.parent(dir).map(drop),
];

const CHANGES: [Call; 9] = [
    |branch, dir, _| branch.create(dir, &name("new"), &node(Kind::File)).map(drop),
    |branch, dir, _| branch.create_unnamed(dir, &node(Kind::File)).map(drop),
    |branch, dir, file| branch.link(file, dir, &name("more")).map(drop),
    |branch, dir, _| {
        branch
            .rename((dir, &name("f")), (dir, &name("g")), RenameMode::Replace)
            .map(drop)
    },
    |branch, _, file| {
        let size = Some(0);
        branch
            .set_attr(
                file,
                &AttrChange {
                    size,
                    ..AttrChange::default()
                },
            )
            .map(drop)
    },
    |branch, _, file| branch.punch(file, 0, 4096),
    |branch, _, file| branch.copy((file, 0), (file, 20_000), 100).map(drop),
    |branch, _, file| {
        let user = XattrName::parse(b"user.a").unwrap();
        branch.set_xattr(file, user, b"b", XattrMode::Create)
    },
    |branch, dir, _| branch.unlink(dir, &name("f")).map(drop),
];

#[test]
fn what_would_wait_for_an_owner_elsewhere_fails_before_it_has_changed_anything() {
    for call in READS.into_iter().chain(CHANGES) {
        let (world, dir, file) = cold(At::Elsewhere);
        let branch = &world.branch;
        without_waiting(|| {
            assert!(call(branch, dir, file).is_err() && would_have_waited());
        });
        assert_eq!(branch.unsynced().ops, 0);
        call(branch, dir, file).unwrap();
    }
}

#[test]
fn an_owner_in_this_process_is_never_waited_for() {
    for call in READS.into_iter().chain(CHANGES) {
        let (world, dir, file) = cold(At::Here);
        without_waiting(|| call(&world.branch, dir, file)).unwrap();
    }
}

#[test]
fn staged_bytes_that_must_be_placed_elsewhere_stay_staged() {
    let (world, _, file) = cold(At::Elsewhere);
    let branch = &world.branch;
    branch.attr(file).unwrap();
    branch.write(file, 0, Bytes::from_static(b"staged")).unwrap();
    without_waiting(|| {
        assert!(branch.seek(file, 0, Seek::Hole).is_err() && would_have_waited());
    });
    assert_eq!(branch.unsynced().bytes, 6);
    assert_eq!(branch.seek(file, 0, Seek::Hole), Ok(10_000));
    assert_eq!(branch.unsynced().bytes, 6, "settled, and not durable");
}

/// Is sent away during its first wait.
#[derive(Default)]
struct Leaves {
    waits: AtomicUsize,
}

impl Caller for Leaves {
    fn may_wait(&self) -> bool {
        self.waits.fetch_add(1, Ordering::Relaxed) == 0
    }

    fn may_act(&self) -> bool {
        self.waits.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn nothing_is_changed_for_a_caller_who_was_sent_away_while_it_waited() {
    for call in CHANGES {
        let (world, dir, file) = cold(At::Elsewhere);
        let caller = Arc::new(Leaves::default());
        assert!(for_caller(caller.clone(), || call(&world.branch, dir, file)).is_err());
        assert!(caller.waits.load(Ordering::Relaxed) > 0);
        assert_eq!(world.branch.unsynced().ops, 0);
        call(&world.branch, dir, file).unwrap();
    }
}

#[test]
fn a_cut_to_nothing_that_does_not_come_about_leaves_what_was_written() {
    let (world, _, file) = cold(At::Elsewhere);
    let branch = &world.branch;
    branch.write(file, 0, Bytes::from_static(b"staged")).unwrap();
    let size = Some(0);
    let change = AttrChange {
        size,
        ..AttrChange::default()
    };
    let cut = for_caller(Arc::new(Leaves::default()), || branch.set_attr(file, &change));
    assert!(cut.is_err());
    assert_eq!(branch.unsynced().bytes, 6);
    branch.set_attr(file, &change).unwrap();
    assert_eq!((branch.unsynced().bytes, branch.attr(file).unwrap().size), (0, 0));
}
