//! Calls over a socket are the calls of the owner: the same in, the same out.

use crate::carrier::{Carrier, over_every_carrier, served, well_served};
use crate::fake::{Fake, Here, LONG, greeting, limits, owner, patience};
use crate::samples::{address, batch, branch, chunk, drive, place, who};
use std::fmt::Debug;
use std::sync::{Arc, mpsc};
use tenure_model::{Address, Batch, BranchId, Digest, Failure, Ino, PackNumber, Refusal, SessionId};
use tenure_wire::{
    Access, Choice, Connection, Error, Greeting, Owner, ReclaimAsk, ResolveAsk, Shared, Shipped, Who,
};

over_every_carrier!(
    calls_from_another_process_are_the_calls_of_the_owner,
    whoever_comes_from_another_process_is_not_hosted_whatever_it_says,
    a_branch_in_memory_never_crosses,
    an_answer_that_is_too_long_is_refused_and_the_connection_goes_on,
    a_call_that_is_too_long_is_refused_before_it_is_sent,
    a_read_longer_than_a_chunk_is_refused,
    many_threads_get_their_own_answers,
);

pub(crate) fn ship(owner: &dyn Owner<Here>, batch: Batch) -> Result<Shipped, Error> {
    let (send, receive) = mpsc::channel();
    owner.ship(
        batch,
        Some("never crosses".into()),
        Box::new(move |shipped| drop(send.send(shipped))),
    );
    receive.recv_timeout(LONG).expect("it is told")
}

/// Makes every call, good and bad, and returns what came of each.
fn outcomes(owner: &dyn Owner<Here>) -> Vec<String> {
    let mut all = Vec::new();
    let mut note = |outcome: &dyn Debug| all.push(format!("{outcome:?}"));
    let opened = owner.open(&who());
    note(&opened);
    let session = opened.expect("it is opened").session;
    note(&owner.renew(session));
    note(&owner.renew(SessionId(99)));
    note(&owner.lend(session, "main", Access::Exclusive));
    note(&owner.lend(session, "held", Access::Read));
    note(&owner.lend_inos(session));
    let long = vec![3; 1 << 20];
    let chunks: Vec<_> = [&b"short"[..], &long, b"x"].into_iter().map(chunk).collect();
    note(&owner.place(session, &chunks));
    note(&owner.place(session, &[]));
    note(&owner.place(
        session,
        &[tenure_wire::Chunk {
            digest: Digest([0; 32]),
            bytes: b"y",
        }],
    ));
    note(&owner.secure(session, &[place(1, 300)]));
    note(&ship(owner, batch(session, 1)));
    note(&ship(owner, batch(session, 2)));
    note(&ship(owner, batch(session, 2)));
    note(&ship(owner, batch(session, 9)));
    note(&owner.page(address(6)));
    let at = Address {
        pack: PackNumber(7),
        digest: Digest::of(&long),
    };
    for (start, len) in [(0, 1 << 20), (1000, 5), (0, 0), (1 << 20, 1)] {
        let mut out = vec![0; len];
        note(&owner.read(at, start, &mut out));
        note(&Digest::of(&out));
    }
    note(&owner.room());
    for ask in crate::lines::forks() {
        note(&owner.fork(&ask));
    }
    for ask in crate::lines::checkpoints() {
        note(&owner.checkpoint(&ask));
    }
    note(&owner.rename("try", &branch("kept")));
    note(&owner.set_plan(crate::lines::plan()));
    note(&owner.plan());
    note(&owner.usage());
    note(&owner.reclaim(ReclaimAsk::default()));
    note(&owner.forgo(session, crate::lines::placings()));
    note(&owner.delete_branch(&branch("main")));
    note(&owner.branches());
    note(&owner.diff(&crate::differences::ask()));
    note(&owner.contents("main", Ino(300), 5, 7));
    note(&owner.undo(&who(), &branch("main"), "before"));
    note(&owner.merge(&who(), &crate::turns::ask()));
    note(&owner.conflicts("main", Ino(5)));
    let settle = ResolveAsk {
        branch: branch("main"),
        path: (*b"src/lib").into(),
        choice: Choice::Both,
    };
    note(&owner.resolve(&who(), &settle));
    note(&owner.restore(&who(), &crate::turns::restore()));
    note(&owner.status());
    note(&owner.fold());
    note(&owner.check(false));
    note(&owner.give_back(session, BranchId(1)));
    note(&owner.close(session));
    note(&owner.close(session));
    all
}

fn calls_from_another_process_are_the_calls_of_the_owner(carrier: Carrier) {
    let direct = Fake::default();
    let served = well_served(carrier);
    let connection = served.connect();
    assert_eq!(outcomes(owner(&connection)), outcomes(&direct));
    let calls = |fake: &Fake| {
        fake.begun()
            .into_iter()
            .filter(|call| !call.starts_with("place"))
            .collect::<Vec<_>>()
    };
    assert_eq!(calls(&served.fake), calls(&direct));
}

fn whoever_comes_from_another_process_is_not_hosted_whatever_it_says(carrier: Carrier) {
    let served = well_served(carrier);
    owner(&served.connect())
        .open(&Who {
            hosted: true,
            ..who()
        })
        .expect("it is opened");
    assert_eq!(served.fake.begun(), [format!("open {:?}", who())]);
}

fn a_branch_in_memory_never_crosses(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let lent = owner(&connection).lend(session, "here", Access::Read);
    assert!(
        matches!(lent, Err(Error::Failed(Failure::Unknown(_)))),
        "{lent:?}"
    );
    let lent = owner(&connection)
        .lend(session, "main", Access::Read)
        .expect("it is lent");
    assert!(matches!(lent.state, Shared::Stored { .. }));
}

#[test]
fn the_hosting_process_answers_words_with_and_without_a_drive() {
    let served = served(limits());
    let about_work = served.connect();
    let no_drive = Greeting {
        drive: None,
        ..greeting()
    };
    let about_none = Connection::reach(served.dialling(), no_drive, patience()).expect("somebody answers");
    for connection in [&about_work, &about_none] {
        assert_eq!(
            connection.control("echo", b"{\"a\":1}", LONG),
            Ok(b"{\"a\":1}".to_vec())
        );
        assert_eq!(
            connection.control("sing", b"", LONG),
            Err(Refusal::NotSupported.into())
        );
    }
    assert!(matches!(
        owner(&about_none).room(),
        Err(Error::Refused(Refusal::Because(_)))
    ));
    assert!(owner(&about_work).room().is_ok());
}

#[test]
fn a_panic_of_the_owner_is_a_failure_of_that_call_alone() {
    let served = served(limits());
    let connection = served.connect();
    let said = connection.control("panic", b"", LONG);
    assert!(
        matches!(said, Err(Error::Failed(Failure::Unknown(_)))),
        "{said:?}"
    );
    assert!(owner(&connection).room().is_ok());
}

fn an_answer_that_is_too_long_is_refused_and_the_connection_goes_on(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let found = owner(&connection).check(true);
    assert!(
        matches!(found, Err(Error::Refused(Refusal::Because(_)))),
        "{found:?}"
    );
    assert!(owner(&connection).check(false).is_ok());
}

fn a_call_that_is_too_long_is_refused_before_it_is_sent(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let long = Batch {
        ops: vec![0; tenure_model::limits::MESSAGE_LEN_MAX],
        ..batch(session, 1)
    };
    assert_eq!(ship(owner(&connection), long), Err(Refusal::TooLarge.into()));
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
}

fn a_read_longer_than_a_chunk_is_refused(carrier: Carrier) {
    let served = well_served(carrier);
    let mut out = vec![0; tenure_model::limits::CHUNK_LEN_MAX + 1];
    let read = owner(&served.connect()).read(address(1), 0, &mut out);
    assert_eq!(read, Err(Refusal::InvalidArgument.into()));
}

#[test]
fn who_asks_for_what_is_not_there_is_told_so() {
    let served = served(limits());
    let reach = |name: &str| {
        let greeting = Greeting {
            drive: Some(drive(name)),
            ..greeting()
        };
        Connection::reach(served.dialling(), greeting, patience()).map(drop)
    };
    assert_eq!(
        reach("other"),
        Err(Refusal::Because("there is no drive other".into()).into())
    );
    assert_eq!(
        reach("busy"),
        Err(Failure::DidNotHappen("the drive is being opened".into()).into())
    );
}

fn many_threads_get_their_own_answers(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = Arc::new(served.connect());
    let threads: Vec<_> = (0..20u64)
        .map(|thread| {
            let connection = connection.clone();
            std::thread::spawn(move || {
                for number in 0..20 {
                    let pack = (thread * 20 + number) % 256;
                    let page = owner(&connection).page(address(pack)).expect("there is a page");
                    assert!(page.iter().all(|byte| u64::from(*byte) == pack));
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("each page was the right one"));
}
