//! What is lent of a shared branch, as who has borrowed it sees it.

use crate::owner::Watched;
use crate::shared::{drive, share};
use crate::world::{At, StillClock, name, who};
use std::sync::Arc;
use tenure_client::{Error, Files};
use tenure_model::{Ino, Kind, NewNode, Op, Refusal, RenameMode, Timestamp};
use tenure_wire::shared::{Deed, Sharer};
use tenure_wire::{Access, Hold, Owner};

fn directory() -> NewNode {
    NewNode {
        kind: Kind::Directory,
        mode: 0o755,
        ..NewNode::file()
    }
}

#[test]
fn a_directory_that_is_lent_is_found_by_its_name_without_a_question() {
    let owner = Arc::new(Watched::new(drive()));
    let shared = share(owner.clone(), Arc::new(StillClock));
    let (lent, _) = shared.create(Ino::ROOT, &name("lent"), &directory()).unwrap();
    let (other, _) = shared.create(Ino::ROOT, &name("other"), &directory()).unwrap();
    shared.tend();
    shared.create(lent, &name("file"), &NewNode::file()).unwrap();
    let found = |at: &str| shared.lookup(Ino::ROOT, &name(at)).map(|(ino, _)| ino);
    assert_eq!((found("lent"), found("other")), (Ok(lent), Ok(other)));
    let before = owner.asked();
    assert_eq!(found("lent"), Ok(lent));
    assert_eq!(owner.asked(), before, "nobody is asked");
    assert_eq!(found("other"), Ok(other));
    assert_eq!(owner.asked(), before + 1, "it is not lent");
    let (here, there) = (name("lent"), name("moved"));
    let rename = |from, to| shared.rename(from, to, RenameMode::NoReplace).map(drop);
    rename((Ino::ROOT, &here), (other, &there)).unwrap();
    assert_eq!(found("lent"), Err(Refusal::NotFound.into()));
    rename((other, &there), (Ino::ROOT, &here)).unwrap();
    assert_eq!(found("lent"), Ok(lent));
}

/// Else nobody could have it for as long as its session is there.
#[test]
fn what_was_lent_without_its_holder_having_heard_so_is_given_back() {
    let owner = Arc::new(Watched::new(drive()));
    let shared = share(owner.clone(), Arc::new(StillClock));
    let (lent, _) = shared.create(Ino::ROOT, &name("lent"), &directory()).unwrap();
    shared.tend();
    owner.lose_loan();
    shared.create(lent, &name("mine"), &NewNode::file()).unwrap_err();
    let opened = owner.drive.open(&who(At::Elsewhere)).unwrap();
    let lease = owner.drive.lend(opened.session, "main", Access::Shared).unwrap();
    let other = Sharer {
        session: opened.session,
        branch: lease.branch.unwrap(),
    };
    let deed = Deed::Op(Op::Create {
        parent: lent,
        name: name("theirs"),
        ino: lease.inos.next,
        node: NewNode::file(),
        time: Timestamp { secs: 1, nanos: 0 },
    });
    let make = || owner.drive.act(other, 1, &deed, Hold::No).map(drop);
    assert!(matches!(make(), Err(Error::Refused(Refusal::Elsewhere { .. }))));
    shared.tend();
    make().unwrap();
}
