//! Branches and checkpoints that are asked for twice, have other names, or go by themselves.

use crate::world::{
    Holder, StillClock, branch_name, checkpoint_ask, checkpoint_name, content, create, create_by, drive_name,
    fork_ask, on_each_tier, open, options, says, who,
};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::record::{Plan, Source};
use tenure_model::{BranchId, RequestKey};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::{BranchInfo, CheckpointAsk, Created, ForkAsk, IfThere, Owner};

const HOUR: Duration = Duration::from_secs(3600);

fn main_of(drive: &Arc<Drive>) -> Source {
    Source::Branch(info(drive, "main").branch.unwrap())
}

fn info(drive: &Arc<Drive>, name: &str) -> BranchInfo {
    let all = drive.branches().unwrap();
    all.into_iter().find(|info| info.name == name).unwrap()
}

fn names(drive: &Arc<Drive>) -> Vec<String> {
    let all = drive.branches().unwrap();
    all.into_iter().map(|info| info.name).collect()
}

fn by_key(from: &Source, name: &str, key: &str) -> ForkAsk {
    ForkAsk {
        key: Some(RequestKey::parse(key).unwrap()),
        ..fork_ask(from, name)
    }
}

/// Makes time pass, and lets somebody come: what is due is done then.
fn pass(drive: &Arc<Drive>, clock: &StillClock, time: Duration) {
    clock.pass(time);
    let opened = drive.open(&who("grace", true)).unwrap();
    Owner::close(&**drive, opened.session).unwrap();
}

#[test]
fn a_branch_that_may_be_there_is_made_once_and_found_ever_after() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let ask = ForkAsk {
            if_there: IfThere::Take,
            ..fork_ask(&main_of(&drive), "try")
        };
        let made = drive.fork(&ask).unwrap();
        assert_eq!(made.found, None);
        let found = Created {
            found: Some("try".into()),
            ..made
        };
        assert_eq!(drive.fork(&ask).unwrap(), found);
        drop(drive);
        let drive = open(&bucket);
        assert_eq!(drive.fork(&ask).unwrap(), found);
        drive.checkpoint(&checkpoint_ask("main", "point")).unwrap();
        let point = ForkAsk {
            name: branch_name("point"),
            ..ask
        };
        assert!(
            says(drive.fork(&point)).contains("has a checkpoint point already"),
            "a checkpoint is no branch"
        );
    });
}

#[test]
fn a_request_with_a_key_makes_one_branch_whoever_asks_and_however_often() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let main = main_of(&drive);
        let ask = by_key(&main, "try", "job-7");
        let made = drive.fork(&ask).unwrap();
        let again = |drive: &Arc<Drive>| drive.fork(&ask).unwrap();
        assert_eq!((again(&drive).branch, made.found), (made.branch, None));
        drive.rename("try", &branch_name("kept")).unwrap();
        assert_eq!(
            again(&drive).found.as_deref(),
            Some("kept"),
            "it has another name now"
        );
        for other in [
            by_key(&main, "other", "job-7"),
            ForkAsk {
                length: Some(HOUR),
                ..ask.clone()
            },
        ] {
            let said = says(drive.fork(&other));
            assert!(
                said.contains("key job-7") && said.contains("it has made kept from branch main"),
                "{said}"
            );
        }
        // The next owner knows the key from the records, and the one after from the rows.
        drop(drive);
        let drive = open(&bucket);
        assert_eq!(again(&drive).branch, made.branch);
        drive.close().unwrap();
        let drive = open(&bucket);
        assert_eq!(again(&drive).branch, made.branch);
        assert_eq!(names(&drive), ["kept", "main"]);

        drive.delete_branch(&branch_name("kept")).unwrap();
        assert_eq!(
            again(&drive).found,
            None,
            "what it has made is gone, and its key with it"
        );
        drop(drive);
        assert_eq!(names(&open(&bucket)), ["main", "try"]);
    });
}

#[test]
fn a_branch_has_another_name_and_whoever_holds_it_goes_on() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        drive.checkpoint(&checkpoint_ask("main", "point")).unwrap();
        drive.fork(&fork_ask(&main_of(&drive), "try")).unwrap();
        drive.rename("main", &branch_name("trunk")).unwrap();
        drive.rename("point", &branch_name("good")).unwrap();
        holder.file("file", &content(1, 9000));
        holder.ship();
        assert_eq!(info(&drive, "try").from, "branch trunk");
        assert!(info(&drive, "trunk").holder.is_some());
        assert!(says(drive.rename("main", &branch_name("x"))).contains("no branch or checkpoint main"));
        assert!(says(drive.rename("try", &branch_name("good"))).contains("has a checkpoint good already"));
        drive
            .fork(&fork_ask(&Source::Checkpoint(checkpoint_name("good")), "main"))
            .unwrap();
        drop((holder, drive));
        let drive = open(&bucket);
        assert_eq!(names(&drive), ["good", "main", "trunk", "try"]);
        assert_eq!(Holder::reader(&drive, "trunk").names(), ["file"]);
    });
}

#[test]
fn the_lineage_is_told_by_numbers_also_of_what_is_gone() {
    let drive = create(&MemoryBucket::new());
    drive.fork(&fork_ask(&main_of(&drive), "one")).unwrap();
    let one = info(&drive, "one");
    assert_eq!((one.line, one.base), (one.branch, Some(BranchId(1))));
    drive
        .fork(&fork_ask(&Source::Branch(one.branch.unwrap()), "two"))
        .unwrap();
    drive.delete_branch(&branch_name("one")).unwrap();
    let two = info(&drive, "two");
    assert_eq!((two.base, two.from.as_str()), (one.line, "branch one"));
    assert_eq!(info(&drive, "main").base, None);
}

#[test]
fn a_branch_goes_by_itself_when_its_time_is_over_and_nobody_holds_it() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let passing = |name: &str| ForkAsk {
            length: Some(2 * HOUR),
            ..fork_ask(&main_of(&drive), name)
        };
        drive.fork(&passing("free")).unwrap();
        drive.fork(&passing("held")).unwrap();
        drive
            .checkpoint(&CheckpointAsk {
                length: Some(HOUR),
                ..checkpoint_ask("main", "point")
            })
            .unwrap();
        let holder = Holder::hosted(&drive, "held");
        pass(&drive, &clock, HOUR - Duration::from_secs(1));
        assert_eq!(names(&drive), ["free", "held", "main", "point"]);
        pass(&drive, &clock, Duration::from_secs(1));
        assert_eq!(names(&drive), ["free", "held", "main"], "a checkpoint, too");
        pass(&drive, &clock, HOUR);
        assert_eq!(names(&drive), ["held", "main"], "somebody holds the other one");
        holder.give_back();
        pass(&drive, &clock, Duration::ZERO);
        assert_eq!(names(&drive), ["main"]);
        // The next owner's clock stands where this one's began: it is the records that count.
        drop(drive);
        assert_eq!(names(&open(&bucket)), ["main"]);
    });
}

#[test]
fn what_went_by_its_time_while_nobody_had_the_drive_open_is_gone_when_it_is_opened() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let ask = ForkAsk {
            length: Some(HOUR),
            ..fork_ask(&main_of(&drive), "try")
        };
        drive.fork(&ask).unwrap();
        drive.close().unwrap();
        let clock = Arc::<StillClock>::default();
        clock.pass(2 * HOUR);
        let drive = Drive::open(Arc::new(bucket), &drive_name(), options(&clock)).unwrap();
        clock.pass(Duration::from_secs(2));
        pass(&drive, &clock, Duration::ZERO);
        assert_eq!(names(&drive), ["main"]);
    });
}

#[test]
fn the_only_branch_of_a_drive_stays_though_its_time_is_over() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let ask = ForkAsk {
        length: Some(HOUR),
        ..fork_ask(&main_of(&drive), "try")
    };
    drive.fork(&ask).unwrap();
    drive.delete_branch(&branch_name("main")).unwrap();
    pass(&drive, &clock, 2 * HOUR);
    assert_eq!(names(&drive), ["try"]);
}

#[test]
fn a_thousand_branches_go_at_once() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    for number in 0..1000 {
        let ask = ForkAsk {
            length: Some(HOUR),
            ..fork_ask(&main_of(&drive), &format!("try-{number}"))
        };
        drive.fork(&ask).unwrap();
    }
    for _ in 0..4 {
        pass(&drive, &clock, HOUR);
    }
    assert_eq!(names(&drive), ["main"]);
}

fn hidden(drive: &Arc<Drive>) -> Vec<String> {
    let all = drive.branches().unwrap().into_iter();
    all.filter(|info| info.is_automatic)
        .map(|info| info.name)
        .collect()
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_branch_that_changes_has_a_checkpoint_every_ten_minutes_and_an_idle_one_has_none() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        drive.fork(&fork_ask(&main_of(&drive), "idle")).unwrap();
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("one", &content(1, 9000));
        holder.ship();
        pass(&drive, &clock, 9 * MINUTE);
        assert_eq!(hidden(&drive), [""; 0]);
        pass(&drive, &clock, MINUTE);
        let [first] = &hidden(&drive)[..] else {
            panic!("{:?}", hidden(&drive))
        };
        assert_eq!(first, "auto-1-20270115T081000Z");
        assert_eq!(Holder::reader(&drive, first).names(), ["one"]);
        pass(&drive, &clock, HOUR);
        assert_eq!(hidden(&drive).len(), 1, "nothing has changed");
        holder.file("two", b"2");
        holder.ship();
        pass(&drive, &clock, Duration::ZERO);
        assert_eq!(hidden(&drive).len(), 2, "the last one is long ago");
        holder.file("three", b"3");
        holder.ship();
        pass(&drive, &clock, 5 * MINUTE);
        assert_eq!(hidden(&drive).len(), 2, "the last one is not");
        assert!(hidden(&drive).iter().all(|name| name.starts_with("auto-1-")));
        // Who takes over knows what has changed, from the records and from the rows.
        drop((holder, drive));
        let drive = open(&bucket);
        drive.close().unwrap();
        let clock = Arc::<StillClock>::default();
        clock.pass(2 * HOUR);
        let drive = Drive::open(Arc::new(bucket), &drive_name(), options(&clock)).unwrap();
        clock.pass(Duration::from_secs(2));
        pass(&drive, &clock, Duration::ZERO);
        let last = hidden(&drive).pop().unwrap();
        assert_eq!(Holder::reader(&drive, &last).names(), ["one", "three", "two"]);
    });
}

#[test]
fn checkpoints_that_the_owner_makes_are_thinned_and_go() {
    let clock = Arc::<StillClock>::default();
    let drive = create_by(&clock, &MemoryBucket::new());
    let mut holder = Holder::hosted(&drive, "main");
    for number in 0..6 * 30 {
        holder.file(&format!("file-{number}"), b"x");
        holder.ship();
        pass(&drive, &clock, 10 * MINUTE);
    }
    let count = hidden(&drive).len();
    assert!((28..=31).contains(&count), "24 hours and the last one: {count}");
    pass(&drive, &clock, 25 * HOUR);
    assert_eq!(hidden(&drive), [""; 0], "nothing has changed for a day");
}

#[test]
fn a_plan_is_the_drives_own_and_no_checkpoints_are_made_where_it_says_so() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let never = Plan {
            every_secs: 0,
            ..Plan::default()
        };
        drive.set_plan(never).unwrap();
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("one", b"1");
        holder.ship();
        pass(&drive, &clock, HOUR);
        assert_eq!(hidden(&drive), [""; 0]);
        let none = Plan {
            keep_secs: 0,
            ..Plan::default()
        };
        assert!(says(drive.set_plan(none)).contains("let none be made"));
        drop((holder, drive));
        let drive = open(&bucket);
        assert_eq!(drive.plan().unwrap(), never);
        drive.close().unwrap();
        assert_eq!(open(&bucket).plan().unwrap(), never);
    });
}
