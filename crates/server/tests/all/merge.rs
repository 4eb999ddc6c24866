//! Merges through the calls of an owner: what is merged stays merged whatever becomes of the owner, and conflicts are settled.

use crate::shared::{Member, open_with};
use crate::world::{
    Holder, StillClock, branch_name, content, create, create_by, fork_ask, on_each_tier, open, says, who,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{ConflictKind, Ino, Kind, Name, Op, RenameMode, Timestamp, What};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::{Choice, Hold, MergeAsk, MergeTold, Owner, ResolveAsk, Standing, Unsettled};

fn ask(from: &str, into: &str) -> MergeAsk {
    MergeAsk::new(from, branch_name(into))
}

fn merge(drive: &Drive, from: &str, into: &str) -> MergeTold {
    drive.merge(&who("bob", true), &ask(from, into)).unwrap()
}

fn fork(drive: &Drive, from: &Holder, name: &str) {
    let source = Source::Branch(from.id.unwrap());
    drive.fork(&fork_ask(&source, name)).unwrap();
}

fn conflicts(drive: &Drive, name: &str) -> Vec<Standing> {
    let told = drive.conflicts(name, Ino(0)).unwrap();
    assert_eq!(told.behind, None);
    told.found
}

fn resolve(drive: &Drive, path: &str, choice: Choice) -> Result<String, tenure_wire::Error> {
    let ask = ResolveAsk {
        branch: branch_name("main"),
        path: path.as_bytes().into(),
        choice,
    };
    drive.resolve(&who("bob", true), &ask).map(|turned| turned.before)
}

fn whole(drive: &Arc<Drive>, line: &str) -> Vec<(String, Vec<u8>)> {
    let reader = Holder::reader(drive, line);
    let names = reader.names().into_iter();
    names.map(|name| (name.clone(), reader.read(&name))).collect()
}

fn told(told: &MergeTold) -> Vec<(String, What)> {
    let files = told.files.iter();
    let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    files.map(|file| (shown(&file.path), file.what.clone())).collect()
}

#[test]
fn both_sides_work_is_in_the_branch_also_for_the_next_owner_and_after_earlier_merges() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut main = Holder::hosted(&drive, "main");
        for (at, name) in ["both", "here", "there"].into_iter().enumerate() {
            main.file(name, &content(at as u64, 9000));
        }
        main.ship();
        fork(&drive, &main, "try");
        let mut other = Holder::remote(&drive, "try");
        let there = other.find("there").unwrap();
        other.write(there, &content(10, 200_000));
        other.file("new", &content(11, 300));
        other.ship();
        let here = main.find("here").unwrap();
        main.write(here, &content(12, 9000));
        main.unlink("both");
        main.ship();
        main.give_back();
        let first = merge(&drive, "try", "main");
        assert_eq!(
            told(&first),
            [("new".into(), What::Taken), ("there".into(), What::Taken)]
        );
        let all = vec![
            ("here".to_owned(), content(12, 9000)),
            ("new".to_owned(), content(11, 300)),
            ("there".to_owned(), content(10, 200_000)),
        ];
        assert_eq!(whole(&drive, "main"), all);
        assert_eq!(whole(&drive, &first.before.unwrap()).len(), 2);
        // Nothing is left to be merged, and only what comes later is.
        let again = merge(&drive, "try", "main");
        assert_eq!((again.before, again.files.len()), (None, 0));
        other.file("later", b"later");
        other.ship();
        let drive = open(&bucket.copy());
        assert_eq!(whole(&drive, "main"), all, "after its owner was killed");
        let next = merge(&drive, "try", "main");
        assert_eq!(told(&next), [("later".into(), What::Taken)]);
        drive.fold().unwrap();
        assert_eq!(whole(&drive, "main").len(), 4);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drive.close().unwrap();
    });
}

#[test]
fn a_conflict_is_kept_on_both_sides_until_it_is_settled() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut main = Holder::hosted(&drive, "main");
        for name in ["one", "two", "three", "four", "five"] {
            main.file(name, b"base");
        }
        main.ship();
        fork(&drive, &main, "try");
        let mut other = Holder::hosted(&drive, "try");
        for name in ["one", "two", "three", "four"] {
            let (here, there) = (main.find(name).unwrap(), other.find(name).unwrap());
            main.write(here, format!("here {name}").as_bytes());
            other.write(there, format!("there {name}").as_bytes());
        }
        main.unlink("five");
        let five = other.find("five").unwrap();
        other.write(five, b"there five");
        main.ship();
        other.ship();
        main.give_back();
        let merged = merge(&drive, "try", "main");
        assert_eq!(merged.conflicts, 5);
        let drive = open(&bucket.copy());
        let all: BTreeSet<String> = whole(&drive, "main").into_iter().map(|(name, _)| name).collect();
        let expected = ["one", "two", "three", "four"];
        let beside = expected.iter().map(|name| format!("{name}~try"));
        let names: BTreeSet<String> = expected.map(str::to_owned).into_iter().chain(beside).collect();
        assert!(all.is_superset(&names) && all.contains("five"), "{all:?}");
        let kinds: Vec<_> = conflicts(&drive, "main")
            .iter()
            .map(|one| one.conflict.kind)
            .collect();
        assert_eq!(
            kinds
                .iter()
                .filter(|kind| **kind == ConflictKind::Content)
                .count(),
            4
        );
        assert!(kinds.contains(&ConflictKind::RemovedHere));

        resolve(&drive, "one", Choice::Ours).unwrap();
        resolve(&drive, "two~try", Choice::Theirs).unwrap();
        resolve(&drive, "three", Choice::Both).unwrap();
        resolve(&drive, "four", Choice::Bytes(content(4, 3000))).unwrap();
        resolve(&drive, "five", Choice::Ours).unwrap();
        let said = says(resolve(&drive, "one", Choice::Ours));
        assert!(said.contains("no conflict at one"), "{said}");
        let is = || whole(&drive, "main");
        let expected = vec![
            ("four".to_owned(), content(4, 3000)),
            ("one".to_owned(), b"here one".to_vec()),
            ("three".to_owned(), b"here three".to_vec()),
            ("three~try".to_owned(), b"there three".to_vec()),
            ("two".to_owned(), b"there two".to_vec()),
        ];
        assert_eq!(is(), expected);
        assert!(conflicts(&drive, "main").is_empty());
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
        drive.fold().unwrap();
        assert_eq!(is(), expected);
    });
}

#[test]
fn conflicts_go_along_with_forks_and_checkpoints_and_undo() {
    let drive = create(&MemoryBucket::new());
    let mut main = Holder::hosted(&drive, "main");
    let file = main.file("file", b"base");
    main.ship();
    fork(&drive, &main, "try");
    let mut other = Holder::hosted(&drive, "try");
    other.write(file, b"there");
    other.ship();
    main.write(file, b"here");
    main.ship();
    main.give_back();
    let before = merge(&drive, "try", "main").before.unwrap();
    assert_eq!(conflicts(&drive, "main").len(), 1);
    let source = Source::Branch(Holder::reader(&drive, "main").id.unwrap());
    drive.fork(&fork_ask(&source, "copy")).unwrap();
    assert_eq!(conflicts(&drive, "copy"), conflicts(&drive, "main"));
    drive
        .undo(&who("bob", true), &branch_name("main"), &before)
        .unwrap();
    assert!(conflicts(&drive, "main").is_empty());
    assert_eq!(whole(&drive, "main"), [("file".to_owned(), b"here".to_vec())]);
    // A merge that was undone is made again with all that there was.
    assert_eq!(merge(&drive, "try", "main").conflicts, 1);
    assert_eq!(whole(&drive, "main").len(), 2);
    // What was settled on the copy is settled where that is merged.
    let ask = ResolveAsk {
        branch: branch_name("copy"),
        path: (*b"file").into(),
        choice: Choice::Theirs,
    };
    drive.resolve(&who("bob", true), &ask).unwrap();
    assert!(conflicts(&drive, "copy").is_empty());
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn what_has_conflicts_is_merged_only_if_they_are_to_come_along_and_those_settled_by_hand_are_none() {
    let drive = create(&MemoryBucket::new());
    let mut main = Holder::hosted(&drive, "main");
    let (one, two) = (main.file("one", b"base"), main.file("two", b"base"));
    main.ship();
    fork(&drive, &main, "try");
    fork(&drive, &main, "other");
    let mut other = Holder::hosted(&drive, "try");
    for file in [one, two] {
        other.write(file, b"there");
        main.write(file, b"here");
    }
    other.ship();
    main.ship();
    other.give_back();
    main.give_back();
    assert_eq!(merge(&drive, "main", "try").conflicts, 2);
    let bob = who("bob", true);
    for is_dry in [false, true] {
        let ask = MergeAsk {
            is_dry,
            ..ask("try", "other")
        };
        let said = says(drive.merge(&bob, &ask));
        assert!(
            said.contains("try has 2 conflicts") && said.contains("`tenure resolve`"),
            "{said}"
        );
    }
    // What is kept of the one is removed by hand, and what is kept of the other is moved to where it belongs.
    let mut try_ = Holder::hosted(&drive, "try");
    try_.unlink("one~main");
    try_.ship();
    let left = conflicts(&drive, "try");
    assert_eq!(left.len(), 1, "{left:?}");
    let rename = Op::Rename {
        from: Ino::ROOT,
        name: Name::parse(b"two~main").unwrap(),
        to: Ino::ROOT,
        new_name: Name::parse(b"two").unwrap(),
        mode: RenameMode::Replace,
        time: Timestamp::default(),
    };
    let all = MergeAsk {
        unsettled: Unsettled::Taken,
        ..ask("try", "other")
    };
    let told = drive.merge(&bob, &all).unwrap();
    assert_eq!(told.conflicts, 1, "{told:?}");
    assert_eq!(conflicts(&drive, "other").len(), 1, "it is a conflict there, too");
    try_.try_change(rename).unwrap();
    try_.ship();
    try_.give_back();
    assert_eq!(conflicts(&drive, "try"), []);
    merge(&drive, "try", "main");
    assert_eq!(
        whole(&drive, "main"),
        [
            ("one".to_owned(), b"there".to_vec()),
            ("two".to_owned(), b"here".to_vec())
        ]
    );
    assert_eq!(conflicts(&drive, "main"), []);
    assert_eq!(drive.check(true).unwrap(), [""; 0]);
}

#[test]
fn what_cannot_be_merged_is_refused_with_what_to_do() {
    let drive = create(&MemoryBucket::new());
    let mut main = Holder::hosted(&drive, "main");
    main.ship();
    fork(&drive, &main, "try");
    let mut other = Holder::hosted(&drive, "try");
    other.file("new", b"new");
    other.ship();
    let bob = who("bob", true);
    let said = says(drive.merge(&bob, &ask("try", "main")));
    assert!(said.contains("`tenure unmount` frees it"), "{said}");
    // What would become of it is told all the same.
    let dry = MergeAsk {
        is_dry: true,
        ..ask("try", "main")
    };
    let would = drive.merge(&bob, &dry).unwrap();
    assert_eq!(
        (told(&would), would.before),
        (vec![("new".into(), What::Taken)], None)
    );
    main.give_back();
    let said = says(drive.merge(&bob, &ask("main", "main")));
    assert!(said.contains("not into itself"), "{said}");
    let said = says(drive.merge(&bob, &ask("no", "main")));
    assert!(said.contains("no branch or checkpoint no"), "{said}");
    assert_eq!(whole(&drive, "main"), []);
    assert_eq!(drive.branches().unwrap().len(), 2, "nothing was made");
}

#[test]
fn a_merge_into_a_branch_that_is_shared_shows_at_once_and_acts_go_on() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let mut main = Holder::hosted(&drive, "main");
        main.file("base", b"base");
        main.ship();
        fork(&drive, &main, "try");
        main.give_back();
        let mut other = Holder::hosted(&drive, "try");
        other.file("there", &content(1, 9000));
        other.unlink("base");
        other.ship();
        let mut ada = Member::new(&drive, "ada");
        ada.create("here", Hold::Open).unwrap();
        let told = merge(&drive, "try", "main");
        assert_eq!(told.conflicts, 0);
        assert_eq!(
            ada.names(),
            BTreeSet::from(["here".to_owned(), "there".to_owned()])
        );
        ada.create("after", Hold::No).unwrap();
        ada.sync();
        let drive = open_with(&bucket.copy(), &clock);
        assert_eq!(whole(&drive, "main").len(), 3);
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn a_merge_costs_what_was_changed_whatever_else_there_is() {
    let bucket = MemoryBucket::new();
    let drive = create(&bucket);
    let mut main = Holder::hosted(&drive, "main");
    let mut directories = Vec::new();
    for directory in 0..100 {
        let parent = main.make(Ino::ROOT, &format!("directory-{directory}"), Kind::Directory);
        for file in 0..100 {
            main.make(parent, &format!("file-{file}"), Kind::File);
        }
        directories.push(parent);
    }
    main.ship();
    fork(&drive, &main, "try");
    let mut other = Holder::hosted(&drive, "try");
    for directory in &directories[..50] {
        other.make(*directory, "there", Kind::File);
    }
    for directory in &directories[50..] {
        main.make(*directory, "here", Kind::File);
    }
    main.ship();
    other.ship();
    main.give_back();
    drive.fold().unwrap();
    let before = drive.status().unwrap().journal_bytes;
    let told = merge(&drive, "try", "main");
    assert_eq!((told.files.len(), told.conflicts), (50, 0));
    let grown = drive.status().unwrap().journal_bytes - before;
    assert!(grown < 500, "a merge is {grown} bytes in the journal");
}

/// Returns lines that are more than a record holds, of which some are said.
fn lines(said: &[(usize, &str)]) -> Vec<u8> {
    let line = |at: usize| said.iter().find(|(line, _)| *line == at);
    let text: Vec<String> = (0..40)
        .map(|at| line(at).map_or(format!("line {at}\n"), |(_, text)| format!("{text}\n")))
        .collect();
    text.concat().into_bytes()
}

#[test]
fn contents_that_fit_are_made_one_by_drivers_and_are_there_for_the_next_owner() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut main = Holder::hosted(&drive, "main");
        let both = |here: &str, there: &str| {
            let of = |more: &str| format!("{{\n  \"a\": 1{more}\n}}\n").into_bytes();
            [of(""), of(here), of(there)]
        };
        let json = both(",\n  \"here\": 2", ",\n  \"there\": 3");
        let files = [
            (
                "text",
                [lines(&[]), lines(&[(3, "here 3")]), lines(&[(30, "that 30")])],
            ),
            ("package.json", json),
            (
                "all",
                [
                    b"base\n".to_vec(),
                    b"base\nhere\n".to_vec(),
                    b"base\nthere\n".to_vec(),
                ],
            ),
            (
                "none",
                [lines(&[]), lines(&[(3, "here 3")]), lines(&[(3, "that 3")])],
            ),
        ];
        for (name, [base, _, _]) in &files {
            main.file(name, base);
        }
        main.file(".tenureattributes", b"all merge=union\n");
        main.ship();
        fork(&drive, &main, "try");
        let mut other = Holder::hosted(&drive, "try");
        for (name, [_, here, there]) in &files {
            let ino = main.find(name).unwrap();
            main.write(ino, here);
            other.write(ino, there);
        }
        main.ship();
        other.ship();
        main.give_back();
        let merged = merge(&drive, "try", "main");
        let by = |name: &str| What::Merged(name.into());
        assert_eq!(
            told(&merged),
            [
                ("none".into(), What::Conflicted(ConflictKind::Content)),
                ("all".into(), by("union")),
                ("package.json".into(), by("json")),
                ("text".into(), by("text")),
            ]
        );
        let drive = open(&bucket.copy());
        let reader = Holder::reader(&drive, "main");
        assert_eq!(reader.read("text"), lines(&[(3, "here 3"), (30, "that 30")]));
        let text = String::from_utf8(reader.read("package.json")).unwrap();
        assert!(
            text.contains("\"here\": 2") && text.contains("\"there\": 3"),
            "{text}"
        );
        assert_eq!(reader.read("all"), b"base\nhere\nthere\n");
        assert_eq!(reader.read("none"), lines(&[(3, "here 3")]));
        assert_eq!(reader.read("none~try"), lines(&[(3, "that 3")]));
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}
