//! What a client does when an owner ends, and when the next one is found.

use crate::bytes::framed;
use crate::calls::ship;
use crate::carrier::{Carrier, again, over_every_carrier, serve_behind, served_over, well_served};
use crate::fake::{Fake, LONG, greeting, limits, owner, patience};
use crate::samples::{address, batch, branch, chunk, who};
use crate::script::{Owners, Script, Stage, absent, outcome, reads_and_ends, serves};
use crate::silent::is_silent;
use parking_lot::Mutex;
use std::io::Write;
use std::net::Shutdown;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure_model::record::Source;
use tenure_model::{BranchId, Digest, Failure, Refusal, RequestKey, SessionId};
use tenure_wire::message::{Call, Hello, Request, Response, Welcome};
use tenure_wire::{
    Access, Connection, Created, Dial, Error, ForkAsk, Limits, Patience, Room, Shipped, Stream,
};

pub(crate) fn is_unknown<T: std::fmt::Debug>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Failed(Failure::Unknown(_))))
}

pub(crate) fn is_not_done<T: std::fmt::Debug>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Failed(Failure::DidNotHappen(_))))
}

#[test]
fn a_batch_is_shipped_again_as_it_was_to_the_next_owner() {
    let (seen, calls) = mpsc::channel();
    let again = seen.clone();
    let owners = Owners::new(vec![
        Box::new(move |stage| {
            stage.greet(&Welcome::In);
            seen.send(stage.read()).expect("the test listens");
        }),
        Box::new(move |stage| {
            stage.greet(&Welcome::In);
            let message = stage.read();
            again.send(message.clone()).expect("the test listens");
            let number = Call::parse(&message.expect("there is a call"))
                .expect("it is a call")
                .number;
            stage.answer(
                number,
                Ok(Response::Shipped(Shipped {
                    digest: Digest([1; 32]),
                })),
            );
            stage.serve();
        }),
    ]);
    let connection = owners.reach(patience());
    assert_eq!(
        ship(owner(&connection), batch(SessionId(5), 1)),
        Ok(Shipped {
            digest: Digest([1; 32])
        })
    );
    assert_eq!(calls.recv(), calls.recv());
    drop(connection);
    owners.end();
}

#[test]
fn batches_that_are_underway_are_shipped_again_in_their_order() {
    let owners = Owners::new(vec![
        Box::new(|stage| {
            stage.greet(&Welcome::In);
            (0..3).for_each(|_| drop(stage.read().expect("there is a call")));
        }),
        Box::new(|stage| {
            stage.greet(&Welcome::In);
            for expected in 1..=3 {
                let message = stage.read().expect("there is a call");
                let call = Call::parse(&message).expect("it is a call");
                assert!(matches!(&call.request, Request::Ship(batch) if batch.number == expected));
                stage.answer(call.number, outcome(&call.request));
            }
            stage.serve();
        }),
    ]);
    let connection = owners.reach(patience());
    let (send, told) = mpsc::channel();
    for number in 1..=3 {
        let send = send.clone();
        let done = Box::new(move |shipped| drop(send.send((number, shipped))));
        owner(&connection).ship(batch(SessionId(5), number), None, done);
    }
    for number in 1..=3 {
        let digest = Digest([number as u8; 32]);
        assert_eq!(told.recv_timeout(LONG), Ok((number, Ok(Shipped { digest }))));
    }
    drop(connection);
    owners.end();
}

#[test]
fn a_fork_that_may_have_been_made_is_not_made_again() {
    let owners = Owners::new(vec![reads_and_ends(), serves()]);
    let connection = owners.reach(patience());
    let forked = owner(&connection).fork(&ForkAsk::new(Source::Branch(BranchId(1)), branch("try")));
    assert!(is_unknown(&forked), "{forked:?}");
    assert_eq!(owner(&connection).room(), Ok(Room { total: 2, free: 1 }));
    drop(connection);
    owners.end();
}

#[test]
fn a_fork_by_a_key_is_asked_for_again_at_the_next_owner() {
    let owners = Owners::new(vec![reads_and_ends(), serves()]);
    let connection = owners.reach(patience());
    let ask = ForkAsk {
        key: RequestKey::parse("job-7").ok(),
        ..ForkAsk::new(Source::Branch(BranchId(1)), branch("try"))
    };
    let found = Created {
        branch: BranchId(2),
        found: Some("try".into()),
    };
    assert_eq!(owner(&connection).fork(&ask), Ok(found));
    drop(connection);
    owners.end();
}

#[test]
fn a_branch_that_may_have_been_lent_whole_is_asked_for_again() {
    let owners = Owners::new(vec![reads_and_ends(), serves()]);
    let connection = owners.reach(patience());
    let lent = owner(&connection).lend(SessionId(5), "main", Access::Exclusive);
    assert!(lent.is_ok(), "{lent:?}");
    drop(connection);
    owners.end();
}

#[test]
fn a_drive_that_somebody_is_about_to_own_is_dialled_again() {
    let owners = Owners::new(vec![reads_and_ends(), serves()]);
    let (inner, dials) = (owners.dial(), Mutex::new(0));
    let dial: Dial = Arc::new(move || -> Result<Stream, Error> {
        *dials.lock() += 1;
        match *dials.lock() {
            2..10 => Err(Refusal::Held {
                by: "another heir".into(),
            }
            .into()),
            _ => inner.dial(),
        }
    });
    let connection = Connection::reach(dial, greeting(), patience()).expect("the first owner is there");
    assert!(ship(owner(&connection), batch(SessionId(5), 1)).is_ok());
    drop(connection);
    owners.end();
}

#[test]
fn a_call_that_no_owner_got_goes_to_the_next_one_whatever_it_is() {
    let (send, gone) = mpsc::channel();
    let owners = Owners::new(vec![
        Box::new(move |stage| {
            stage.greet(&Welcome::In);
            stage.stream.shutdown(Shutdown::Both).expect("it is open");
            send.send(()).expect("the test listens");
        }),
        Box::new(|stage| {
            stage.greet(&Welcome::In);
            let message = stage.read().expect("there is a call");
            let call = Call::parse(&message).expect("it is a call");
            assert!(matches!(call.request, Request::Control { verb: "unmount", .. }));
            stage.answer(call.number, Ok(Response::Bytes(b"done"[..].into())));
            stage.serve();
        }),
    ]);
    let connection = owners.reach(patience());
    gone.recv().expect("the first owner has gone");
    assert_eq!(connection.control("unmount", b"", LONG), Ok(b"done".to_vec()));
    drop(connection);
    owners.end();
}

#[test]
fn a_session_that_was_closed_before_the_owner_could_say_so_is_closed() {
    let stale: Script = Box::new(|stage| {
        stage.greet(&Welcome::In);
        let message = stage.read().expect("there is a call");
        stage.answer(
            Call::parse(&message).expect("it is a call").number,
            Err(Refusal::Stale.into()),
        );
        stage.serve();
    });
    let owners = Owners::new(vec![reads_and_ends(), stale]);
    let connection = owners.reach(patience());
    assert_eq!(owner(&connection).close(SessionId(5)), Ok(()));
    drop(connection);
    owners.end();
}

#[test]
fn a_refusal_to_close_a_session_that_was_asked_for_once_is_told() {
    let stale: Script = Box::new(|stage| {
        stage.greet(&Welcome::In);
        let message = stage.read().expect("there is a call");
        stage.answer(
            Call::parse(&message).expect("it is a call").number,
            Err(Refusal::Stale.into()),
        );
        stage.serve();
    });
    let owners = Owners::new(vec![stale]);
    let connection = owners.reach(patience());
    assert_eq!(owner(&connection).close(SessionId(5)), Err(Refusal::Stale.into()));
    drop(connection);
    owners.end();
}

#[test]
fn chunks_are_placed_again_at_the_next_owner() {
    let owners = Owners::new(vec![serves(), reads_and_ends(), serves()]);
    let connection = owners.reach(patience());
    let long = vec![1; 1 << 20];
    let chunks = [chunk(&long), chunk(b"one"), chunk(&long)];
    let places = owner(&connection)
        .place(SessionId(5), &chunks)
        .expect("they are placed");
    assert_eq!(
        places.iter().map(|place| place.len).collect::<Vec<_>>(),
        [1 << 20, 3, 1 << 20]
    );
    drop(connection);
    owners.end();
}

#[test]
fn a_lane_that_is_opened_between_two_owners_waits_for_the_next() {
    let owners = Owners::new(vec![serves(), absent(), absent(), absent(), serves()]);
    let connection = owners.reach(patience());
    let places = owner(&connection).place(SessionId(5), &[chunk(b"bytes")]);
    assert_eq!(places.map(|places| places.len()), Ok(1));
    drop(connection);
    owners.end();
}

#[test]
fn a_batch_that_ends_every_owner_is_given_up() {
    let owners = Owners::new((0..20).map(|_| reads_and_ends()).collect());
    let connection = owners.reach(patience());
    let shipped = ship(owner(&connection), batch(SessionId(5), 1));
    assert!(is_unknown(&shipped), "{shipped:?}");
    assert_eq!(
        *owners.dials.lock(),
        10,
        "one, eight times again, and one that was asked nothing"
    );
    drop(connection);
}

#[test]
fn with_no_owner_left_calls_fail_and_work_again_once_there_is_one() {
    let owners = Owners::new(vec![reads_and_ends()]);
    let connection = owners.reach(Patience {
        redials_max: 5,
        ..patience()
    });
    let shipped = ship(owner(&connection), batch(SessionId(5), 1));
    assert!(is_unknown(&shipped), "{shipped:?}");
    assert_eq!(*owners.dials.lock(), 6);
    let room = owner(&connection).room();
    assert!(is_not_done(&room), "{room:?}");
    owners.scripts.lock().push_back(serves());
    assert!(owner(&connection).room().is_ok());
    drop(connection);
    owners.end();
}

#[test]
fn the_first_owner_is_looked_for_once() {
    let owners = Owners::new(Vec::new());
    let reached = Connection::reach(owners.dial(), greeting(), patience()).map(drop);
    assert_eq!(
        reached,
        Err(Failure::DidNotHappen("nobody is there".into()).into())
    );
    assert_eq!(*owners.dials.lock(), 1);
}

#[test]
fn a_next_owner_that_refuses_is_believed() {
    let refuses: Script =
        Box::new(|stage| drop(stage.greet(&Welcome::Refused("the drive was deleted".into()))));
    let owners = Owners::new(vec![reads_and_ends(), refuses]);
    let connection = owners.reach(patience());
    let shipped = ship(owner(&connection), batch(SessionId(5), 1));
    assert!(is_unknown(&shipped), "{shipped:?}");
    assert!(format!("{shipped:?}").contains("the drive was deleted"));
    owners.end();
    assert_eq!(*owners.dials.lock(), 2);
}

#[test]
fn an_owner_that_has_no_time_is_asked_again() {
    let later: fn() -> Script = || Box::new(|stage| drop(stage.greet(&Welcome::Later("opening".into()))));
    let owners = Owners::new(vec![reads_and_ends(), later(), later(), serves()]);
    let connection = owners.reach(patience());
    assert!(ship(owner(&connection), batch(SessionId(5), 1)).is_ok());
    drop(connection);
    owners.end();
}

#[test]
fn a_client_with_a_session_comes_back_though_it_asks_nothing() {
    let (send, came) = mpsc::channel();
    let owners = Owners::new(vec![
        Box::new(|stage| {
            stage.greet(&Welcome::In);
            let message = stage.read().expect("there is a call");
            let call = Call::parse(&message).expect("it is a call");
            stage.answer(call.number, outcome(&call.request));
        }),
        Box::new(move |stage| {
            send.send(stage.greet(&Welcome::In)).expect("the test listens");
            stage.serve();
        }),
    ]);
    let connection = owners.reach(patience());
    owner(&connection).open(&who()).expect("it is opened");
    let hello = came.recv_timeout(LONG).expect("it comes back by itself");
    assert_eq!(
        hello,
        Hello {
            sessions: vec![SessionId(5)],
            ..crate::samples::hello()
        }
    );
    owner(&connection).close(SessionId(5)).expect("it is closed");
    drop(connection);
    owners.end();
}

#[test]
fn answers_that_make_no_sense_end_the_connection_and_not_the_client() {
    let nonsense: [fn(&mut Stage, u64); 5] = [
        |stage, _| stage.write(b"\xff\xff"),
        |stage, number| stage.answer(number + 1000, Ok(Response::Done)),
        |stage, _| drop(stage.stream.write_all(b"neither length nor checksum")),
        |stage, _| drop(stage.stream.write_all(&framed(&[b"whole"])[..9])),
        |stage, _| drop(stage.stream.write_all(&[0xff; 64])),
    ];
    for say in nonsense {
        let talks: Script = Box::new(move |stage| {
            stage.greet(&Welcome::In);
            let message = stage.read().expect("there is a call");
            say(stage, Call::parse(&message).expect("it is a call").number);
        });
        let owners = Owners::new(vec![talks, serves()]);
        let connection = owners.reach(patience());
        assert_eq!(owner(&connection).room(), Ok(Room { total: 2, free: 1 }));
        drop(connection);
        owners.end();
    }
}

#[test]
fn an_answer_to_another_call_is_not_taken_for_this_one() {
    let confuses: Script = Box::new(|stage| {
        stage.greet(&Welcome::In);
        let message = stage.read().expect("there is a call");
        stage.answer(
            Call::parse(&message).expect("it is a call").number,
            Ok(Response::Done),
        );
        stage.serve();
    });
    let owners = Owners::new(vec![confuses]);
    let connection = owners.reach(patience());
    let room = owner(&connection).room();
    assert!(is_unknown(&room), "{room:?}");
    assert!(owner(&connection).room().is_ok());
    drop(connection);
    owners.end();
}

#[test]
fn a_connection_that_is_let_go_tells_who_waits() {
    let owners = Owners::new(vec![is_silent()]);
    let connection = owners.reach(patience());
    let (send, told) = mpsc::channel();
    owner(&connection).ship(
        batch(SessionId(5), 1),
        None,
        Box::new(move |shipped| drop(send.send(shipped))),
    );
    drop(connection);
    let shipped = told.recv_timeout(LONG).expect("it is told");
    assert!(is_unknown(&shipped), "{shipped:?}");
    owners.end();
}

#[test]
fn who_is_told_may_let_the_connection_go() {
    let owners = Owners::new(vec![serves()]);
    let connection = Arc::new(Mutex::new(Some(owners.reach(patience()))));
    let (send, told) = mpsc::channel();
    let last = connection.clone();
    let done = Box::new(move |_| {
        let taken = last.lock().take();
        drop(taken);
        let _ = send.send(());
    });
    let guard = connection.lock();
    owner(guard.as_ref().expect("it is there")).ship(batch(SessionId(5), 1), None, done);
    drop(guard);
    told.recv_timeout(LONG).expect("it did not wait for itself");
    owners.end();
}

#[test]
fn a_panic_of_who_is_told_leaves_nobody_waiting() {
    let owners = Owners::new(vec![serves(), serves()]);
    let connection = owners.reach(patience());
    owner(&connection).ship(
        batch(SessionId(5), 1),
        None,
        Box::new(|_| panic!("as the test wants")),
    );
    // It is answered, or told that nobody can answer any more; the next call has a reader of its own.
    let _ = owner(&connection).room();
    assert!(owner(&connection).room().is_ok());
    drop(connection);
    owners.end();
}

over_every_carrier!(
    a_client_goes_on_where_the_next_owner_has_taken_over,
    a_call_goes_on_at_the_next_owner_when_its_own_has_stopped_in_the_middle,
    what_is_underway_when_an_owner_stops_is_still_answered,
);

fn a_client_goes_on_where_the_next_owner_has_taken_over(carrier: Carrier) {
    let first = well_served(carrier);
    let connection = first.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    first.service.stop();
    let fake = Fake::after(&first.fake);
    let second = serve_behind(again(&first.address), &fake, limits());
    assert!(ship(owner(&connection), batch(session, 2)).is_ok());
    assert!(owner(&connection).place(session, &[chunk(b"bytes")]).is_ok());
    assert_eq!(fake.begun()[0], format!("renew {session}"));
    assert_eq!(first.fake.open_sessions(), [session], "a stop closes no session");
    drop(connection);
    second.stop();
}

fn a_call_goes_on_at_the_next_owner_when_its_own_has_stopped_in_the_middle(carrier: Carrier) {
    let first = served_over(
        carrier,
        Limits {
            drain_max: Duration::ZERO,
            ..limits()
        },
    );
    let connection = first.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    ["ship", "place", "page"]
        .into_iter()
        .for_each(|kind| first.fake.hold(kind));
    std::thread::scope(|scope| {
        let shipped = scope.spawn(|| ship(owner(&connection), batch(session, 1)));
        let placed = scope.spawn(|| owner(&connection).place(session, &[chunk(b"bytes")]));
        let page = scope.spawn(|| owner(&connection).page(address(9)));
        ["ship", "place", "page"]
            .into_iter()
            .for_each(|kind| first.fake.wait_for(kind, 1));
        first.service.stop();
        let fake = Fake::after(&first.fake);
        let _second = serve_behind(again(&first.address), &fake, limits());
        assert!(shipped.join().expect("it is told").is_ok());
        assert_eq!(
            placed.join().expect("it is told").map(|places| places.len()),
            Ok(1)
        );
        assert_eq!(page.join().expect("it is told"), Ok(vec![9; 4000]));
        assert_eq!(fake.count("ship"), 1);
        ["ship", "place", "page"]
            .into_iter()
            .for_each(|kind| first.fake.let_go(kind));
    });
}

fn what_is_underway_when_an_owner_stops_is_still_answered(carrier: Carrier) {
    let served = well_served(carrier);
    let connection = Arc::new(served.connect());
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    served.fake.hold("ship");
    let (send, told) = mpsc::channel();
    owner(&connection).ship(
        batch(session, 1),
        None,
        Box::new(move |shipped| drop(send.send(shipped))),
    );
    served.fake.wait_for("ship", 1);
    let fake = served.fake.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| served.service.stop());
        fake.let_go("ship");
    });
    assert!(told.recv_timeout(LONG).expect("it is told").is_ok());
    assert_eq!(served.fake.count("ship"), 1);
}
