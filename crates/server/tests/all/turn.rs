//! Branches that become another state as a whole: they go back to what they were, and nothing is lost by it.

use crate::borrower::Member as Borrower;
use crate::shared::Member;
use crate::world::{
    Holder, StillClock, beginning, branch_name, checkpoint_ask, content, create, create_by, drive_name,
    fork_ask, on_each_tier, open, options, says, who,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{Failure, Ino};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_store::faulty::{Fault, FaultyBucket, Plan};
use tenure_wire::shared::WriteAt;
use tenure_wire::{Error, Hold, Owner};

fn checkpoint(drive: &Drive, branch: &str, name: &str) {
    drive.checkpoint(&checkpoint_ask(branch, name)).unwrap();
}

fn undo(drive: &Drive, branch: &str, to: &str) -> Result<String, Error> {
    let undone = drive.undo(&who("bob", true), &branch_name(branch), to);
    undone.map(|turned| turned.before)
}

fn names(drive: &Arc<Drive>, line: &str) -> Vec<String> {
    Holder::reader(drive, line).names()
}

#[test]
fn a_branch_goes_back_to_a_checkpoint_and_what_it_was_is_another() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("kept", &content(1, 9000));
        holder.ship();
        checkpoint(&drive, "main", "good");
        holder.file("more", &content(2, 9000));
        holder.unlink("kept");
        holder.ship();
        holder.give_back();
        let before = undo(&drive, "main", "good").unwrap();
        let hold = |drive: &Arc<Drive>| {
            assert_eq!(names(drive, "main"), ["kept"]);
            assert_eq!(Holder::reader(drive, "main").read("kept"), content(1, 9000));
            assert_eq!(names(drive, &before), ["more"]);
            assert_eq!(drive.check(true).unwrap(), [""; 0]);
        };
        hold(&drive);
        // Its owner is killed: the next one finds the state and does not make it again.
        let drive = open(&bucket.copy());
        hold(&drive);
        drive.fold().unwrap();
        hold(&drive);
        let mut holder = Holder::hosted(&drive, "main");
        holder.file("next", b"life goes on");
        holder.ship();
        holder.give_back();
        // Going back can be undone as well.
        let again = undo(&drive, "main", &before).unwrap();
        assert_eq!(names(&drive, "main"), ["more"]);
        assert_eq!(names(&drive, &again), ["kept", "next"]);
        drive.close().unwrap();
        assert_eq!(
            names(&open(&bucket.copy()), "main"),
            ["kept"],
            "another copy is another drive"
        );
    });
}

#[test]
fn a_branch_whose_holder_goes_on_and_what_would_change_nothing_are_refused() {
    let drive = create(&MemoryBucket::new());
    let mut holder = Holder::hosted(&drive, "main");
    checkpoint(&drive, "main", "good");
    holder.file("file", b"bytes");
    holder.ship();
    // It hears nothing of what is asked of it.
    let said = says(undo(&drive, "main", "good"));
    assert!(said.contains("`tenure unmount` frees it"), "{said}");
    assert!(said.contains("ada on box-1"), "{said}");
    holder.give_back();
    undo(&drive, "main", "good").unwrap();
    let said = says(undo(&drive, "main", "good"));
    assert!(said.contains("main is what good is"), "{said}");
    let said = says(undo(&drive, "main", "no"));
    assert!(said.contains("no branch or checkpoint no"), "{said}");
    let said = says(undo(&drive, "good", "main"));
    assert!(said.contains("is a checkpoint and never changes"), "{said}");
    assert_eq!(
        drive.branches().unwrap().len(),
        3,
        "what was refused has made nothing"
    );
}

#[test]
fn a_branch_takes_up_what_another_is_and_each_goes_on_alone() {
    on_each_tier(|bucket| {
        let drive = create(&bucket);
        let mut main = Holder::hosted(&drive, "main");
        main.file("main", b"main");
        main.ship();
        let source = Source::Branch(main.id.unwrap());
        main.give_back();
        drive.fork(&fork_ask(&source, "try")).unwrap();
        let mut other = Holder::hosted(&drive, "try");
        other.file("try", b"try");
        other.ship();
        undo(&drive, "main", "try").unwrap();
        other.file("later", b"later");
        other.ship();
        assert_eq!(names(&drive, "main"), ["main", "try"]);
        let mut main = Holder::hosted(&drive, "main");
        main.file("own", b"own");
        main.ship();
        assert_eq!(names(&drive, "try"), ["later", "main", "try"]);
    });
}

#[test]
fn those_who_share_a_branch_see_what_it_has_become_and_keep_what_they_have_open() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let (mut ada, mut bob) = (Member::new(&drive, "ada"), Member::new(&drive, "bob"));
        ada.create("old", Hold::No).unwrap();
        ada.sync();
        checkpoint(&drive, "main", "good");
        let open = ada.create("open", Hold::Open).unwrap();
        ada.write(open, WriteAt::End, b"bytes").unwrap();
        let closed = bob.create("closed", Hold::No).unwrap();
        let before = undo(&drive, "main", "good").unwrap();
        assert_eq!(bob.names(), BTreeSet::from(["old".to_owned()]));
        assert_eq!(ada.read(open).unwrap(), b"bytes", "an open file stays");
        assert_eq!(ada.attr(open).unwrap().nlink, 0);
        assert!(bob.attr(closed).is_err(), "nobody has it open");
        ada.write(open, WriteAt::End, b" and more").unwrap();
        assert_eq!(ada.read(open).unwrap(), b"bytes and more");
        bob.create("new", Hold::No).unwrap();
        drive.let_go(ada.who, &[open]).unwrap();
        assert!(ada.attr(open).is_err());
        assert_eq!(
            names(&drive, &before).into_iter().collect::<BTreeSet<_>>(),
            BTreeSet::from(["closed".to_owned(), "old".to_owned(), "open".to_owned()])
        );
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    });
}

#[test]
fn what_is_lent_of_a_shared_branch_comes_back_before_it_becomes_another_state() {
    on_each_tier(|bucket| {
        let drive = create_by(&Arc::default(), &bucket);
        let mut ada = Borrower::new(&drive, "ada");
        checkpoint(&drive, "main", "good");
        assert!(ada.borrow(Ino::ROOT));
        let made = crate::shared::create_op(
            Ino::ROOT,
            "here",
            ada.inos.take().unwrap(),
            tenure_model::Kind::File,
        );
        ada.try_here(&made).unwrap().unwrap();
        let asked = undo(&drive, "main", "good");
        assert!(
            matches!(asked, Err(Error::Failed(Failure::DidNotHappen(_)))),
            "who has it is asked: {asked:?}"
        );
        ada.pump();
        let before = undo(&drive, "main", "good").unwrap();
        assert_eq!(names(&drive, "main"), [""; 0]);
        assert_eq!(
            names(&drive, &before),
            ["here"],
            "what was shipped then is not lost"
        );
        // Its copy is too old for anything.
        std::thread::sleep(std::time::Duration::ZERO);
        let borrowed = ada.borrow(Ino::ROOT);
        if borrowed {
            let name = crate::shared::named("here");
            let found = ada.local(|branch| branch.lookup(Ino::ROOT, &name));
            assert!(found.is_err(), "{found:?}");
        }
    });
}

/// Goes back and forth until something fails; returns what `main` may be.
fn live(bucket: Arc<FaultyBucket>, may_be: &mut Vec<Vec<String>>) -> Result<(), Error> {
    let drive = Drive::create(bucket, &drive_name(), &beginning(), options(&Arc::default()))?;
    let mut files = Vec::new();
    for at in 0..3 {
        drive.checkpoint(&checkpoint_ask("main", &format!("good-{at}")))?;
        let mut holder = Holder::new(&drive, "main", tenure_wire::Access::Exclusive, true)?;
        let ino = holder.try_make(Ino::ROOT, &format!("file-{at}"), tenure_model::Kind::File)?;
        let _ = ino;
        let was = files.clone();
        files.push(format!("file-{at}"));
        may_be.push(files.clone());
        holder.try_ship()?;
        *may_be = vec![files.clone()];
        drive.give_back(holder.session, holder.id.unwrap())?;
        may_be.push(was.clone());
        undo(&drive, "main", &format!("good-{at}"))?;
        *may_be = vec![was.clone()];
        may_be.push(files.clone());
        undo(&drive, "main", &format!("before-undo-{}", 3 + 3 * at))?;
        *may_be = vec![files.clone()];
        if at == 1 {
            drive.fold()?;
        }
    }
    drive.close()
}

#[test]
fn a_branch_that_goes_back_is_the_one_or_the_other_after_a_crash_at_any_call() {
    on_each_tier(|empty| {
        for number in 0.. {
            let bucket = empty.copy();
            let plan = Plan::none().at(number, Fault::Halt);
            let faulty = Arc::new(FaultyBucket::new(Arc::new(bucket.clone()), plan));
            let mut may_be = vec![Vec::new()];
            let lived = live(faulty, &mut may_be);
            for image in [bucket.copy(), bucket.after_power_loss(number)] {
                let Ok(drive) = crate::world::try_open(Arc::new(image)) else {
                    assert_eq!(may_be, [[""; 0]], "call {number}: what was made can be opened");
                    continue;
                };
                let is = names(&drive, "main");
                assert!(may_be.contains(&is), "call {number}: {is:?} and not {may_be:?}");
                assert_eq!(drive.check(true).unwrap(), [""; 0], "call {number}");
            }
            if let Err(error) = &lived {
                assert!(matches!(error, Error::Failed(_)), "call {number}: {error}");
            } else {
                assert!(number > 20, "a life of {number} calls is none");
                return;
            }
        }
    });
}
