//! Machines that were copied while they ran: two go on with one session, and each takes itself for the one.

use crate::owner::Watched;
use crate::world::{At, StillClock, create, make, name, options, who};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenure_client::{Branch, Error, Files, Salvage, SharedBranch};
use tenure_model::{Ino, NewNode, Refusal};
use tenure_store::MemoryBucket;
use tenure_wire::{Access, Opened, Owner};

const STALE: Error = Error::Refused(Refusal::Stale);

fn open() -> (Arc<Watched>, Opened) {
    let owner = Watched::new(create(Arc::new(MemoryBucket::new())).unwrap());
    let opened = owner.open(&who(At::Elsewhere)).unwrap();
    (Arc::new(owner), opened)
}

fn names(branch: &Branch) -> BTreeSet<String> {
    let listed = branch.list(Ino::ROOT, 0, false, BTreeSet::new, |names, entry, _| {
        names.insert(String::from_utf8_lossy(entry.name).into_owned());
        std::ops::ControlFlow::Continue(())
    });
    listed.unwrap()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// What the one that ships second has done is refused, which it is told, also that it cannot be saved. It takes nothing along when
/// it ends.
#[test]
fn of_two_copies_that_hold_a_branch_one_goes_on_and_the_other_is_told() {
    let (owner, opened) = open();
    let hold = || {
        let around = (Arc::new(StillClock) as _, Arc::new(()) as _);
        let access = ("main", Access::Exclusive);
        Branch::hold(owner.clone(), around, opened.clone(), access, options(1 << 20)).unwrap()
    };
    let (first, second) = (hold(), hold());
    make(&first, "of the first").unwrap();
    make(&second, "of the second").unwrap();
    first.sync_all().unwrap();
    assert_eq!(second.sync_all(), Err(STALE));
    assert_eq!(make(&second, "late").map(drop), Err(STALE));
    assert_eq!(second.close(), Err(STALE));
    assert_eq!(second.salvage(), Some(Salvage::Failed(STALE)));
    make(&first, "after").unwrap();
    first.sync_all().unwrap();
    assert_eq!(names(&first), set(["after", "of the first"]));
    first.close().unwrap();
    assert_eq!(owner.drive.check(true).unwrap(), [""; 0]);
}

/// The one that asks for something else under a number that the other has used is refused.
#[test]
fn of_two_copies_that_share_a_branch_one_goes_on_and_the_other_is_told() {
    let (owner, opened) = open();
    let share = || {
        let drive = owner.drive.clone();
        SharedBranch::join(
            drive,
            Arc::new(StillClock),
            opened.clone(),
            "main",
            options(1 << 20),
        )
        .unwrap()
    };
    let (first, second) = (share(), share());
    let make = |shared: &SharedBranch, text: &str| {
        let made = shared.create(Ino::ROOT, &name(text), &NewNode::file());
        made.map(|(ino, _)| ino)
    };
    let ino = make(&first, "of the first").unwrap();
    assert_eq!(make(&second, "of the second").map(drop), Err(STALE));
    assert_eq!(second.attr(ino).map(drop), Err(STALE));
    assert_eq!(second.close(), Err(STALE));
    make(&first, "after").unwrap();
    first.attr(ino).unwrap();
    first.close().unwrap();
    assert_eq!(owner.drive.check(true).unwrap(), [""; 0]);
}
