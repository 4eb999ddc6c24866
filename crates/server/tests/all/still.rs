//! Branches that become another state while one session holds them whole: it stands still, and goes on from that.

use crate::world::{
    Holder, StillClock, branch_name, checkpoint_ask, content, create, create_by, on_each_tier, open, says,
    who,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_core::tree::Memory;
use tenure_core::{Branch, Totals, Tree};
use tenure_model::{Digest, Ino, Refusal};
use tenure_server::Drive;
use tenure_store::MemoryBucket;
use tenure_wire::shared::{Heard, Next, Sharer, Stand};
use tenure_wire::{Error, Owner, Shared};

fn sharer(holder: &Holder) -> Sharer {
    Sharer {
        session: holder.session,
        branch: holder.id.expect("it holds a branch"),
    }
}

fn still(holder: &Holder, known: Option<Vec<Ino>>) -> Stand {
    let behind = (holder.number, holder.previous);
    Stand::Still { behind, known }
}

/// Has a holder stand still as soon as it is told to; returns where it notes that it was.
fn stands_when_told(holder: &Holder, open: &[Ino]) -> mpsc::Receiver<Heard> {
    let (drive, who, stand) = (
        Arc::downgrade(&holder.drive),
        sharer(holder),
        still(holder, Some(open.to_vec())),
    );
    let (send, receive) = mpsc::channel();
    let told = move |heard: Result<Heard, Error>| {
        let heard = heard.expect("it holds the branch");
        if !heard.demands.is_empty() {
            let drive = drive.upgrade().expect("it has told so");
            assert_eq!(word(drive.stand(who, &stand)), Ok("stay"));
        }
        drop(send.send(heard));
    };
    holder.drive.hear(who, Box::new(told));
    receive
}

/// Asks what to do next.
fn next(holder: &Holder) -> Result<Next<Branch>, Error> {
    holder.drive.stand(sharer(holder), &still(holder, None))
}

/// Says in a word what a holder does next.
fn word(next: Result<Next<Branch>, Error>) -> Result<&'static str, Error> {
    Ok(match next? {
        Next::Stay => "stay",
        Next::Tell => "tell",
        Next::GoOn => "go on",
        Next::Became { .. } => "became",
    })
}

/// Takes what the branch has become.
fn take(holder: &mut Holder) {
    let Next::Became { behind, state } = next(holder).unwrap() else {
        panic!("the branch has become another state");
    };
    take_up(holder, behind, state);
    assert_eq!(
        word(holder.drive.stand(sharer(holder), &Stand::Gone)),
        Ok("go on")
    );
}

fn take_up(holder: &mut Holder, behind: Digest, state: Shared<Branch>) {
    holder.previous = behind;
    holder.branch = match state {
        Shared::Here(branch) => branch,
        Shared::Stored { root, inodes, bytes } => Branch::stored(
            [7; 16],
            Tree::stored(root, &Memory::new()),
            Totals { inodes, bytes },
        ),
        Shared::Kept => panic!("it is somewhere"),
    };
}

fn undo(drive: &Drive, to: &str) -> Result<String, Error> {
    let undone = drive.undo(&who("bob", true), &branch_name("main"), to);
    undone.map(|turned| turned.before)
}

fn names(drive: &Arc<Drive>, line: &str) -> Vec<String> {
    Holder::reader(drive, line).names()
}

/// Makes a drive whose branch has a checkpoint `good` with a file `kept`, and behind that a file `more`, all shipped by who holds it.
fn made(bucket: &MemoryBucket, hosted: bool) -> (Arc<Drive>, Holder) {
    let drive = create(bucket);
    let mut holder = match hosted {
        true => Holder::hosted(&drive, "main"),
        false => Holder::remote(&drive, "main"),
    };
    holder.file("kept", &content(1, 9000));
    holder.ship();
    drive.checkpoint(&checkpoint_ask("main", "good")).unwrap();
    holder.file("more", &content(2, 9000));
    holder.ship();
    (drive, holder)
}

#[test]
fn a_held_branch_becomes_another_state_and_its_holder_goes_on_from_that() {
    for hosted in [true, false] {
        on_each_tier(|bucket| {
            let (drive, mut holder) = made(&bucket, hosted);
            let heard = stands_when_told(&holder, &[]);
            let before = undo(&drive, "good").unwrap();
            assert_eq!(heard.try_recv().unwrap().demands[0].directory, Ino::ROOT);
            take(&mut holder);
            assert_eq!(holder.names(), ["kept"]);
            holder.file("next", &content(3, 9000));
            holder.ship();
            assert_eq!(names(&drive, "main"), ["kept", "next"]);
            assert_eq!(names(&drive, &before), ["kept", "more"]);
            // And once more.
            let _heard = stands_when_told(&holder, &[]);
            undo(&drive, &before).unwrap();
            take(&mut holder);
            holder.unlink("kept");
            holder.ship();
            assert_eq!(names(&drive, "main"), ["more"]);
            let drive = open(&bucket.copy());
            assert_eq!(names(&drive, "main"), ["more"]);
            assert_eq!(drive.check(true).unwrap(), [""; 0]);
        });
    }
}

#[test]
fn a_holder_that_stands_still_is_told_by_the_next_owner_what_has_become_of_its_branch() {
    on_each_tier(|bucket| {
        let (drive, mut holder) = made(&bucket, false);
        let _heard = stands_when_told(&holder, &[]);
        let unchanged = bucket.copy();
        undo(&drive, "good").unwrap();
        let changed = bucket.copy();
        // Before the turn was durable the holder goes on as if nothing had been.
        let mut early = holder.clone();
        early.drive = open(&unchanged);
        assert_eq!(word(next(&early)), Ok("go on"));
        early.file("early", b"bytes");
        early.ship();
        assert_eq!(names(&early.drive, "main"), ["early", "kept", "more"]);
        // Behind that it learns so, as often as it asks, and from whichever owner.
        for folds in [false, true] {
            let bucket = changed.copy();
            let mut late = holder.clone();
            late.drive = open(&bucket);
            if folds {
                late.drive.fold().unwrap();
                late.drive = open(&bucket.copy());
            }
            assert!(matches!(next(&late), Ok(Next::Became { .. })));
            take(&mut late);
            late.file("late", b"bytes");
            late.ship();
            assert_eq!(names(&late.drive, "main"), ["kept", "late"]);
        }
        take(&mut holder);
        holder.file("here", b"bytes");
        holder.ship();
    });
}

#[test]
fn who_goes_on_from_what_the_branch_was_is_told_that_it_is_over() {
    let bucket = MemoryBucket::new();
    let (drive, mut holder) = made(&bucket, false);
    let _heard = stands_when_told(&holder, &[]);
    undo(&drive, "good").unwrap();
    holder.file("unheard", b"bytes");
    assert_eq!(holder.try_ship(), Err(Refusal::Stale.into()));
    assert_eq!(names(&drive, "main"), ["kept"]);
}

#[test]
fn what_a_holder_has_open_stays_without_a_name_until_it_drops_it() {
    for hosted in [true, false] {
        let bucket = MemoryBucket::new();
        let (drive, mut holder) = made(&bucket, hosted);
        let more = holder.find("more").unwrap();
        let _heard = stands_when_told(&holder, &[more]);
        undo(&drive, "good").unwrap();
        take(&mut holder);
        assert_eq!(holder.names(), ["kept"]);
        let attr = holder.ask(|branch| branch.attr(more)).expect("it is open");
        assert_eq!((attr.nlink, attr.size), (0, 9000));
        holder.try_change(tenure_model::Op::Drop { ino: more }).unwrap();
        holder.ship();
        holder.give_back();
        assert_eq!(drive.check(true).unwrap(), [""; 0]);
    }
}

#[test]
fn a_turn_that_comes_to_nothing_lets_the_holder_go_on_as_before() {
    let bucket = MemoryBucket::new();
    let (drive, mut holder) = made(&bucket, true);
    drive.checkpoint(&checkpoint_ask("main", "same")).unwrap();
    let heard = stands_when_told(&holder, &[]);
    let said = says(undo(&drive, "same"));
    assert!(said.contains("main is what same is"), "{said}");
    assert!(!heard.try_recv().unwrap().demands.is_empty());
    assert_eq!(word(next(&holder)), Ok("go on"));
    holder.file("next", b"bytes");
    holder.ship();
    assert_eq!(names(&drive, "main"), ["kept", "more", "next"]);
}

#[test]
fn a_holder_that_says_nothing_loses_a_branch_that_is_to_become_another_state() {
    on_each_tier(|bucket| {
        let clock = Arc::<StillClock>::default();
        let drive = create_by(&clock, &bucket);
        let mut holder = Holder::remote(&drive, "main");
        drive.checkpoint(&checkpoint_ask("main", "good")).unwrap();
        holder.file("more", b"bytes");
        holder.ship();
        holder.file("unshipped", b"bytes");
        clock.pass(Duration::from_secs(6));
        undo(&drive, "good").unwrap();
        assert_eq!(names(&drive, "main"), [""; 0]);
        assert_eq!(word(next(&holder)), Err(Refusal::Stale.into()));
        let stray = holder.try_salvage().unwrap();
        assert_eq!(names(&drive, &stray), ["more", "unshipped"]);
    });
}

#[test]
fn who_asks_has_all_shipped_that_a_holder_had_done() {
    let bucket = MemoryBucket::new();
    let (drive, holder) = made(&bucket, false);
    let (asked, who) = (Arc::downgrade(&drive), sharer(&holder));
    let mut shipping = holder.clone();
    shipping.file("unshipped", b"bytes");
    let told = move |heard: Result<Heard, Error>| {
        assert!(!heard.expect("it holds the branch").demands.is_empty());
        let mut shipping = shipping;
        shipping.ship();
        let drive = asked.upgrade().expect("it has told so");
        let stands = drive.stand(who, &still(&shipping, Some(Vec::new())));
        assert_eq!(word(stands), Ok("stay"));
    };
    drive.hear(sharer(&holder), Box::new(told));
    drive.have_shipped(&branch_name("main")).unwrap();
    assert_eq!(names(&drive, "main"), ["kept", "more", "unshipped"]);
}

/// How far a holder comes before its process is killed.
#[derive(Clone, Copy, Debug)]
enum Step {
    Still,
    Became,
    Gone,
}

#[test]
fn a_holder_that_is_killed_at_any_step_leaves_the_branch_to_the_next_one_as_it_has_become() {
    for step in [Step::Still, Step::Became, Step::Gone] {
        on_each_tier(|bucket| {
            let clock = Arc::<StillClock>::default();
            let drive = create_by(&clock, &bucket);
            let mut holder = Holder::remote(&drive, "main");
            holder.file("kept", &content(1, 9000));
            holder.ship();
            drive.checkpoint(&checkpoint_ask("main", "good")).unwrap();
            holder.file("more", &content(2, 9000));
            holder.ship();
            let _heard = stands_when_told(&holder, &[]);
            let before = undo(&drive, "good").unwrap();
            match step {
                Step::Still => {}
                Step::Became => assert_eq!(word(next(&holder)), Ok("became")),
                Step::Gone => take(&mut holder),
            }
            // Nothing more is heard of it. Who needs the branch has it after the lease, and goes on from what it has become.
            clock.pass(Duration::from_secs(6));
            let mut other = Holder::remote(&drive, "main");
            assert_eq!(other.names(), ["kept"], "{step:?}");
            other.file("next", b"bytes");
            other.ship();
            let drives = [drive.clone(), open(&bucket.copy())];
            for drive in &drives {
                assert_eq!(names(drive, "main"), ["kept", "next"], "{step:?}");
                assert_eq!(names(drive, &before), ["kept", "more"], "{step:?}");
                assert_eq!(drive.check(true).unwrap(), [""; 0]);
            }
            holder.file("late", b"bytes");
            assert_eq!(holder.try_ship(), Err(Refusal::Stale.into()), "{step:?}");
        });
    }
}
