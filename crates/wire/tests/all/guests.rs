//! Sessions and connections: who is let in, how many, and what becomes of what they leave behind.

use crate::bytes::framed;
use crate::calls::ship;
use crate::carrier::{Carrier, Served, over_every_carrier, served, served_over};
use crate::fake::{LONG, greeting, limits, owner, patience};
use crate::samples::{batch, hello, who};
use parking_lot::Mutex;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::BranchId;
use tenure_wire::frame::FrameReader;
use tenure_wire::message::{Call, Hello, Request, Welcome};
use tenure_wire::{Connection, Dial, Error, Limits, Patience, Stream};

/// Greets over a plain socket and returns what is answered.
pub(crate) fn greet(served: &Served) -> (UnixStream, Option<Welcome>) {
    let mut stream = served.stream();
    // Somebody who is turned away may be so before he speaks.
    let _ = stream.write_all(&framed(&[&Hello {
        sessions: Vec::new(),
        ..hello()
    }
    .written()]));
    let answer = FrameReader::new(4096).next(&mut &stream).expect("it is a frame");
    (
        stream,
        answer.map(|bytes| Welcome::parse(&bytes).expect("it is an answer to a greeting")),
    )
}

over_every_carrier!(
    a_session_whose_connection_alone_has_ended_is_left_to_its_owner,
    two_hundred_connections_at_once_are_each_served,
);

/// Whether its client comes back is known by nobody here: it may have been cut off.
fn a_session_whose_connection_alone_has_ended_is_left_to_its_owner(carrier: Carrier) {
    let served = served_over(
        carrier,
        Limits {
            grace: Duration::ZERO,
            ..limits()
        },
    );
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    drop(connection);
    served.service.stop();
    assert_eq!(served.fake.open_sessions(), [session]);
}

#[test]
fn a_session_that_comes_back_is_let_in_once_what_it_asked_before_is_done() {
    let served = served(Limits {
        drain_max: LONG,
        ..limits()
    });
    let connection = served.connect();
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    served.fake.hold("give_back");
    std::thread::scope(|scope| {
        scope.spawn(|| owner(&connection).give_back(session, BranchId(1)));
        served.fake.wait_for("give_back", 1);
        let mut again = served.stream();
        let hello = Hello {
            sessions: vec![session],
            ..hello()
        };
        again.write_all(&framed(&[&hello.written()])).expect("it is open");
        again
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("it is not zero");
        let mut frames = FrameReader::new(4096);
        assert!(
            frames.next(&mut &again).is_err(),
            "the call before is not done yet"
        );
        let renewals = || served.fake.count(&format!("renew {session}"));
        assert_eq!(renewals(), 0, "it is not let in yet");
        served.fake.let_go("give_back");
        again.set_read_timeout(Some(LONG)).expect("it is not zero");
        let answer = frames
            .next(&mut &again)
            .expect("it is a frame")
            .expect("it is answered");
        assert_eq!(Welcome::parse(&answer), Ok(Welcome::In));
        // The connection before was ended for it, and may have come back as well by now.
        assert!((1..=2).contains(&renewals()));
    });
}

#[test]
fn a_session_whose_connection_was_cut_comes_back_and_goes_on() {
    let served = served(limits());
    let path = served.path().to_owned();
    let streams = Arc::new(Mutex::new(Vec::new()));
    let kept = streams.clone();
    let dialling: Dial = Arc::new(move || -> Result<Stream, Error> {
        let stream = UnixStream::connect(&path).expect("somebody listens");
        kept.lock()
            .push(stream.try_clone().expect("there are descriptors"));
        Ok(stream.into())
    });
    let connection = Connection::reach(dialling, greeting(), patience()).expect("somebody answers");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    streams.lock()[0].shutdown(Shutdown::Both).expect("it is open");
    served.fake.wait_for(&format!("renew {session}"), 1);
    assert!(ship(owner(&connection), batch(session, 1)).is_ok());
    served.service.stop();
    assert_eq!(served.fake.open_sessions(), [session]);
}

#[test]
fn only_so_many_connections_are_let_in_and_the_others_are_told() {
    let served = served(Limits {
        connections_max: 20,
        ..limits()
    });
    let mut guests: Vec<_> = (0..200).map(|_| greet(&served)).collect();
    let is_in = |(_, welcome): &(UnixStream, Option<Welcome>)| *welcome == Some(Welcome::In);
    assert_eq!(guests.iter().filter(|guest| is_in(guest)).count(), 20);
    let was_told = |welcome: &Option<Welcome>| matches!(welcome, Some(Welcome::In | Welcome::Later(_)));
    assert!(guests.iter().all(|(_, welcome)| was_told(welcome)));
    guests.clear();
    // Each attempt is answered, so that this ends once the places of those who left are free.
    while !is_in(&greet(&served)) {}
}

fn two_hundred_connections_at_once_are_each_served(carrier: Carrier) {
    let served = served_over(carrier, limits());
    let connections: Vec<_> = (0..200).map(|_| served.connect()).collect();
    served.fake.hold("room");
    std::thread::scope(|scope| {
        for connection in &connections {
            scope.spawn(move || assert!(owner(connection).room().is_ok()));
        }
        served.fake.wait_for("room", 8);
        // The work of all is done by a few; the tests beside this one have their own.
        let threads = threads_that_do_what_is_rare();
        assert!((8..100).contains(&threads), "{threads} threads");
        served.fake.let_go("room");
    });
    assert_eq!(served.fake.count("room"), 200);
}

fn threads_that_do_what_is_rare() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    // One that has ended meanwhile has no name.
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    threads
        .filter_map(name)
        .filter(|name| name.trim() == "tenure-rare")
        .count()
}

#[test]
fn a_connection_has_only_so_many_calls_underway_and_none_is_lost() {
    let served = served(limits());
    served.fake.hold("page");
    let (mut stream, welcome) = greet(&served);
    assert_eq!(welcome, Some(Welcome::In));
    let call = |number, request| framed(&[&Call { number, request }.head()]);
    for number in 0..200 {
        stream
            .write_all(&call(number, Request::Page(crate::samples::address(1))))
            .expect("somebody reads");
    }
    stream
        .write_all(&call(200, Request::Room))
        .expect("somebody reads");
    served.fake.wait_for("page", 16);
    assert_eq!((served.fake.count("page"), served.fake.count("room")), (16, 0));
    served.fake.let_go("page");
    let mut frames = FrameReader::new(1 << 20);
    for _ in 0..=200 {
        frames
            .next(&mut &stream)
            .expect("it is a frame")
            .expect("all are answered");
    }
    assert_eq!(served.fake.count("room"), 1);
}

#[test]
fn a_stop_ends_whatever_clients_do() {
    let served = served(Limits {
        drain_max: Duration::from_millis(20),
        ..limits()
    });
    served.fake.hold("page");
    let silent = served.stream();
    let (greeted, _) = greet(&served);
    let (mut half, _) = greet(&served);
    half.write_all(&framed(&[b"cut"])[..5]).expect("somebody reads");
    let few = Patience {
        redials_max: 3,
        ..patience()
    };
    let connection = Connection::reach(served.dialling(), greeting(), few).expect("somebody answers");
    std::thread::scope(|scope| {
        let page = scope.spawn(|| owner(&connection).page(crate::samples::address(1)));
        served.fake.wait_for("page", 1);
        served.service.stop();
        served.fake.let_go("page");
        // There is no next owner.
        assert!(page.join().expect("it is told").is_err());
    });
    drop((silent, greeted, half));
}
