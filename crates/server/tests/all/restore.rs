//! What is at a path of a branch becomes what it was in another state, and nothing else changes.

use crate::world::{
    Holder, branch_name, checkpoint_ask, content, create, fork_ask, on_each_tier, open, says, who,
};
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{Ino, Kind, Name, Op, Timestamp};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::{Error, MarkAsk, Owner, RestoreAsk, Usage};

fn restore(drive: &Drive, path: &str, from: &str) -> Result<String, Error> {
    let ask = RestoreAsk {
        branch: branch_name("main"),
        path: path.as_bytes().into(),
        from: from.to_owned(),
    };
    drive.restore(&who("bob", true), &ask).map(|turned| turned.before)
}

fn names(drive: &Arc<Drive>, line: &str) -> Vec<String> {
    Holder::reader(drive, line).names()
}

fn read(drive: &Arc<Drive>, line: &str, name: &str) -> Vec<u8> {
    Holder::reader(drive, line).read(name)
}

/// Makes a branch `main` with `a`, `b` and a directory `sub`, names that state `good`, and changes `a` and `b` and removes `sub`.
fn changed(drive: &Arc<Drive>) {
    let mut main = Holder::hosted(drive, "main");
    let a = main.file("a", &content(1, 90_000));
    main.file("b", &content(2, 90_000));
    let sub = main.make(Ino::ROOT, "sub", Kind::Directory);
    let inner = main.make(sub, "inner", Kind::File);
    main.write(inner, &content(3, 90_000));
    main.ship();
    main.give_back();
    drive.checkpoint(&checkpoint_ask("main", "good")).unwrap();
    let mut main = Holder::hosted(drive, "main");
    main.write(a, &content(4, 90_000));
    let b = main.find("b").unwrap();
    main.write(b, &content(5, 90_000));
    let time = Timestamp::default();
    let name = |name: &str| Name::parse(name.as_bytes()).unwrap();
    for op in [
        Op::Unlink {
            parent: sub,
            name: name("inner"),
            time,
        },
        Op::Rmdir {
            parent: Ino::ROOT,
            name: name("sub"),
            time,
        },
    ] {
        main.try_change(op).unwrap();
    }
    main.ship();
    main.give_back();
}

#[test]
fn what_is_at_a_path_is_what_it_was_also_for_the_next_owner_and_what_the_branch_was_is_a_checkpoint() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        changed(&drive);
        assert_eq!(names(&drive, "main"), ["a", "b"]);
        let before = restore(&drive, "a", "good").unwrap();
        restore(&drive, "sub/inner", "good").unwrap();
        let hold = |drive: &Arc<Drive>| {
            assert_eq!(names(drive, "main"), ["a", "b", "sub"]);
            assert_eq!(read(drive, "main", "a"), content(1, 90_000));
            assert_eq!(
                read(drive, "main", "b"),
                content(5, 90_000),
                "nothing else changes"
            );
            assert_eq!(read(drive, &before, "a"), content(4, 90_000));
            assert_eq!(drive.check(true).unwrap(), [""; 0]);
        };
        hold(&drive);
        let drive = open(&bucket.copy());
        hold(&drive);
        drive
            .undo(&who("bob", true), &branch_name("main"), &before)
            .unwrap();
        assert_eq!(read(&drive, "main", "a"), content(4, 90_000));
        assert_eq!(names(&drive, "main"), ["a", "b"]);
    });
}

#[test]
fn contents_are_shared_and_none_is_written_again() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut main = Holder::hosted(&drive, "main");
    let file = main.file("file", &content(1, 200_000));
    main.ship();
    drive.checkpoint(&checkpoint_ask("main", "good")).unwrap();
    main.unlink("file");
    main.ship();
    main.give_back();
    let stored = || drive.usage().unwrap();
    let before = stored();
    restore(&drive, "file", "good").unwrap();
    let after = stored();
    let all = |usage: &Usage| {
        usage.lines.iter().map(|line| line.own).sum::<u64>() + usage.shared + usage.by_checkpoints
    };
    assert!(all(&after) < all(&before) + 60_000, "{before:?} {after:?}");
    assert_eq!(read(&drive, "main", "file"), content(1, 200_000));
    assert_eq!(
        Holder::reader(&drive, "main").find("file"),
        Some(file),
        "it is the same inode"
    );
}

#[test]
fn what_cannot_be_restored_is_refused_with_what_helps_and_leaves_nothing() {
    let drive = create(&MemoryBucket::new());
    changed(&drive);
    let mut main = Holder::hosted(&drive, "main");
    main.file("sub", b"in the way");
    main.ship();
    main.give_back();
    let lines = drive.branches().unwrap().len();
    for (path, from, expected) in [
        (
            "none",
            "good",
            "there is no none in good; `tenure log DRIVE@main`",
        ),
        ("a/below", "good", "there is no a/below in good"),
        ("sub/inner", "good", "sub is no directory in main"),
        ("", "good", "`tenure undo DRIVE@main` takes a whole branch back"),
        ("a", "main", "was not changed"),
        ("a", "no", "no branch or checkpoint no"),
    ] {
        let said = says(restore(&drive, path, from));
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(
        drive.branches().unwrap().len(),
        lines,
        "what was refused has made nothing"
    );
    restore(&drive, "sub", "good").unwrap();
    let source = Source::Branch(
        drive
            .branches()
            .unwrap()
            .iter()
            .find_map(|line| line.branch)
            .unwrap(),
    );
    drive.fork(&fork_ask(&source, "other")).unwrap();
    drive
        .mark(&who("bob", true), &branch_name("main"), &MarkAsk::Protected)
        .unwrap();
    let said = says(restore(&drive, "a", "good"));
    assert!(said.contains("main is protected"), "{said}");
}
