//! Reviews: what a staged branch has changed is accepted whole or by path, and a protected branch changes in no other way.

use crate::world::{
    Holder, StillClock, branch_name, checkpoint_ask, checkpoint_name, content, create, create_by, fork_ask,
    on_each_tier, open, says, who,
};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::record::Source;
use tenure_model::{AttrChange, Ino, Kind, Op, RequestKey, Timestamp, What, XattrMode, XattrName};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::{
    AcceptAsk, Access, Choice, Error, ForkAsk, MarkAsk, MergeAsk, MergeTold, Owner, ResolveAsk,
};

/// Makes a branch `main` and a staged one `fix` made from it, which nobody holds: `fix` has changed `a`, made `sub/b` and removed `c`.
fn made(drive: &Arc<Drive>) {
    let mut main = Holder::hosted(drive, "main");
    for (seed, name) in ["a", "c", "d"].into_iter().enumerate() {
        main.file(name, &content(seed as u64, 9000));
    }
    main.ship();
    let from = Source::Branch(main.id.unwrap());
    main.give_back();
    drive.fork(&fork_ask(&from, "fix")).unwrap();
    mark(drive, "fix", &MarkAsk::Staged(branch_name("main"))).unwrap();
    let mut fix = Holder::hosted(drive, "fix");
    let a = fix.find("a").unwrap();
    fix.write(a, &content(7, 9000));
    let sub = fix.make(Ino::ROOT, "sub", Kind::Directory);
    let b = fix.make(sub, "b", Kind::File);
    fix.write(b, &content(8, 9000));
    fix.unlink("c");
    fix.ship();
    fix.give_back();
}

fn mark(drive: &Drive, branch: &str, mark: &MarkAsk) -> Result<(), Error> {
    drive.mark(&who("bob", true), &branch_name(branch), mark)
}

fn accept(drive: &Drive, paths: &[&str]) -> Result<MergeTold, Error> {
    let paths = paths.iter().map(|path| path.as_bytes().into()).collect();
    let branch = branch_name("fix");
    drive.accept(&who("bob", true), &AcceptAsk { branch, paths })
}

fn names(drive: &Arc<Drive>, line: &str) -> Vec<String> {
    Holder::reader(drive, line).names()
}

fn read(drive: &Arc<Drive>, name: &str) -> Vec<u8> {
    Holder::reader(drive, "main").read(name)
}

#[test]
fn a_staged_branch_is_accepted_whole_and_the_next_owner_knows_it() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        let told = accept(&drive, &[]).unwrap();
        assert!(told.before.is_some() && told.conflicts == 0, "{told:?}");
        let drive = open(&bucket.copy());
        assert_eq!(names(&drive, "main"), ["a", "d", "sub"]);
        assert_eq!(read(&drive, "a"), content(7, 9000));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        let marks = drive.marks().unwrap();
        assert_eq!(
            (marks[0].branch.as_str(), marks[0].into.as_deref()),
            ("fix", Some("main"))
        );
        assert!(
            accept(&drive, &[]).unwrap().before.is_none(),
            "nothing is left of it"
        );
    });
}

#[test]
fn what_is_accepted_by_path_is_there_and_the_rest_stays_staged() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        // The directory comes along.
        accept(&drive, &["sub/b"]).unwrap();
        assert_eq!(names(&drive, "main"), ["a", "c", "d", "sub"]);
        assert_eq!(read(&drive, "a"), content(0, 9000));
        // It goes on.
        let mut main = Holder::hosted(&drive, "main");
        main.file("e", b"more");
        main.ship();
        main.give_back();
        accept(&drive, &["c"]).unwrap();
        assert_eq!(names(&drive, "main"), ["a", "d", "e", "sub"]);
        let said = says(accept(&drive, &["d"]));
        assert!(said.contains("nothing differs"), "{said}");
        let told = accept(&drive, &[]).unwrap();
        let taken: Vec<_> = told.files.iter().map(|file| (&*file.path, &file.what)).collect();
        assert_eq!(taken, [(&b"a"[..], &What::Taken)], "only the rest is left");
        assert_eq!(read(&drive, "a"), content(7, 9000));
        let drive = open(&bucket.copy());
        assert_eq!(names(&drive, "main"), ["a", "d", "e", "sub"]);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_is_accepted_by_path_has_its_mode_owner_and_capabilities() {
    let drive = create(&MemoryBucket::new());
    made(&drive);
    let mut fix = Holder::hosted(&drive, "fix");
    let a = fix.find("a").unwrap();
    let change = AttrChange {
        mode: Some(0o4755),
        uid: Some(7),
        gid: Some(8),
        ..AttrChange::default()
    };
    let time = Timestamp { secs: 2, nanos: 0 };
    fix.try_change(Op::SetAttr { ino: a, change, time }).unwrap();
    let name = XattrName::parse(b"security.capability").unwrap();
    let (value, mode) = (b"caps".as_slice().into(), XattrMode::Set);
    fix.try_change(Op::SetXattr {
        ino: a,
        name,
        value,
        mode,
        time,
    })
    .unwrap();
    fix.ship();
    fix.give_back();
    accept(&drive, &["a"]).unwrap();
    let main = Holder::reader(&drive, "main");
    let a = main.find("a").unwrap();
    let attr = main.ask(|branch| branch.attr(a)).unwrap();
    assert_eq!((attr.mode, attr.uid, attr.gid), (0o4755, 7, 8));
    let mut names = Vec::new();
    let listed = main.branch.xattrs(a, |name| names.push(name.to_vec()));
    assert!(listed.is_ok());
    assert_eq!(names, [b"security.capability".to_vec()]);
}

#[test]
fn what_would_conflict_is_not_accepted() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        let mut main = Holder::hosted(&drive, "main");
        let a = main.find("a").unwrap();
        main.write(a, &content(9, 9000));
        main.ship();
        main.give_back();
        for paths in [&[][..], &["a"]] {
            let said = says(accept(&drive, paths));
            assert!(said.contains("1 change of it would conflict"), "{said}");
        }
        assert_eq!(read(&drive, "a"), content(9, 9000));
        accept(&drive, &["sub"]).unwrap();
        assert_eq!(names(&drive, "main"), ["a", "c", "d", "sub"]);
    });
}

#[test]
fn what_has_conflicts_that_nobody_has_settled_is_not_accepted() {
    let drive = create(&MemoryBucket::new());
    made(&drive);
    let mut main = Holder::hosted(&drive, "main");
    let a = main.find("a").unwrap();
    main.write(a, &content(9, 9000));
    main.ship();
    main.give_back();
    let merge = MergeAsk::new("main", branch_name("fix"));
    assert_eq!(drive.merge(&who("bob", true), &merge).unwrap().conflicts, 1);
    for paths in [&[][..], &["a~main"], &["a"]] {
        let said = says(accept(&drive, paths));
        assert!(said.contains("fix has 1 conflict that nobody"), "{said}");
    }
    accept(&drive, &["sub"]).unwrap();
    let settle = ResolveAsk {
        branch: branch_name("fix"),
        path: (*b"a").into(),
        choice: Choice::Theirs,
    };
    drive.resolve(&who("bob", true), &settle).unwrap();
    accept(&drive, &[]).unwrap();
    assert_eq!(names(&drive, "main"), ["a", "d", "sub"]);
}

#[test]
fn a_protected_branch_changes_by_accepted_reviews_alone() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        let held = Holder::hosted(&drive, "main");
        assert!(says(mark(&drive, "main", &MarkAsk::Protected)).contains("in use"));
        held.give_back();
        drive.checkpoint(&checkpoint_ask("main", "point")).unwrap();
        mark(&drive, "main", &MarkAsk::Protected).unwrap();
        let drive = open(&bucket.copy());
        let refused = |said: String| assert!(said.contains("--staged"), "{said}");
        for access in [Access::Exclusive, Access::Shared] {
            let held = Holder::new(&drive, "main", access, true);
            refused(held.err().unwrap().to_string());
        }
        let ada = who("ada", true);
        refused(says(drive.undo(&ada, &branch_name("main"), "fix")));
        refused(says(drive.delete_branch(&branch_name("main"))));
        assert_eq!(names(&drive, "main"), ["a", "c", "d"], "it can be read");
        accept(&drive, &[]).unwrap();
        assert_eq!(names(&drive, "main"), ["a", "d", "sub"]);
        mark(&drive, "main", &MarkAsk::Unprotected).unwrap();
        let mut main = Holder::hosted(&drive, "main");
        main.file("own", b"bytes");
        main.ship();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_waits_for_no_review_is_not_accepted() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        let said = says(mark(&drive, "main", &MarkAsk::Staged(branch_name("main"))));
        assert!(said.contains("not into itself"), "{said}");
        mark(&drive, "fix", &MarkAsk::Unstaged).unwrap();
        let said = says(accept(&drive, &[]));
        assert!(said.contains("does not wait for a review"), "{said}");
        mark(&drive, "fix", &MarkAsk::Staged(branch_name("main"))).unwrap();
        drive.delete_branch(&branch_name("fix")).unwrap();
        assert_eq!(drive.marks().unwrap(), []);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn the_name_of_a_protected_branch_leads_to_nothing_else() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        made(&drive);
        let main = drive
            .branches()
            .unwrap()
            .iter()
            .find(|line| line.name == "main")
            .unwrap()
            .branch;
        let from = Source::Branch(main.unwrap());
        let hour = Duration::from_secs(3600);
        let passing = ForkAsk {
            length: Some(hour),
            ..fork_ask(&from, "passing")
        };
        drive.fork(&passing).unwrap();
        for name in ["main", "passing"] {
            mark(&drive, name, &MarkAsk::Protected).unwrap();
        }
        let into = MarkAsk::Staged(branch_name("fix"));
        let refused = |said: String| assert!(said.contains("main is protected"), "{said}");
        refused(says(drive.rename("main", &branch_name("old"))));
        refused(says(mark(&drive, "main", &into)));
        refused(says(drive.delete_branch(&branch_name("main"))));
        for there in [
            says(drive.rename("fix", &branch_name("main"))),
            says(drive.fork(&fork_ask(&from, "main"))),
            says(drive.checkpoint(&checkpoint_ask("fix", "main"))),
        ] {
            assert!(there.contains("has a branch main already"), "{there}");
        }
        clock.pass(hour * 2);
        assert_eq!(names(&drive, "passing"), ["a", "c", "d"]);
        assert_eq!(
            names(&drive, "passing"),
            ["a", "c", "d"],
            "it stays though its time is over"
        );
        mark(&drive, "passing", &MarkAsk::Unprotected).unwrap();
        mark(&drive, "main", &MarkAsk::Unprotected).unwrap();
        drive.rename("main", &branch_name("old")).unwrap();
    });
}

#[test]
fn what_is_said_of_a_branch_ends_by_the_word_that_ends_it() {
    let drive = create(&MemoryBucket::new());
    made(&drive);
    for ask in [MarkAsk::Protected, MarkAsk::Unprotected] {
        let said = says(mark(&drive, "fix", &ask));
        assert!(said.contains("`tenure branch unstage DRIVE fix`"), "{said}");
    }
    assert!(says(mark(&drive, "main", &MarkAsk::Unprotected)).contains("is not protected"));
    assert!(says(mark(&drive, "main", &MarkAsk::Unstaged)).contains("waits for no review"));
    mark(&drive, "fix", &MarkAsk::Unstaged).unwrap();
    assert!(says(accept(&drive, &[])).contains("does not wait for a review"));
    assert_eq!(drive.marks().unwrap(), []);
}

#[test]
fn a_staged_fork_is_made_by_one_record_and_once() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        made(&drive);
        drive.checkpoint(&checkpoint_ask("main", "point")).unwrap();
        let from = Source::Checkpoint(checkpoint_name("point"));
        let ask = ForkAsk {
            key: Some(RequestKey::parse("job-7").unwrap()),
            staged: Some(who("ada", true)),
            ..fork_ask(&from, "try")
        };
        let records = |drive: &Drive| drive.status().unwrap().journal_bytes;
        let before = records(&drive);
        drive.fork(&ask).unwrap();
        let length = records(&drive) - before;
        let line = |drive: &Drive, name: &str| {
            let mut lines = drive.branches().unwrap().into_iter();
            lines.find(|line| line.name == name).unwrap()
        };
        let mark = line(&drive, "try").mark.unwrap();
        assert_eq!(
            (mark.into.as_deref(), mark.branch.as_str()),
            (Some("main"), "try")
        );
        assert!(mark.by.contains("ada"), "{mark:?}");
        let drive = open(&bucket.copy());
        assert_eq!(line(&drive, "try").mark, Some(mark));
        assert_eq!(drive.fork(&ask).unwrap().found.as_deref(), Some("try"));
        let plain = ForkAsk {
            staged: None,
            ..ask.clone()
        };
        let said = says(drive.fork(&plain));
        assert!(said.contains("another request had the key"), "{said}");
        assert!(length < 400, "{length} bytes are more than one record");
    });
}
