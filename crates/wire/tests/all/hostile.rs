//! What comes from a socket may be anything: it is refused or ends its connection, and nothing else.

use crate::bytes::framed;
use crate::carrier::{Served, served};
use crate::fake::{limits, owner};
use crate::guests::greet;
use crate::samples::{hello, who};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tenure_model::Refusal;
use tenure_wire::Limits;
use tenure_wire::frame::FrameReader;
use tenure_wire::message::{Answer, Call, Hello, Request, Welcome};
use tenure_wire::{Error, Who};

/// Says something, and returns all that is answered until the connection is ended.
fn say(mut stream: UnixStream, bytes: &[u8]) -> Vec<u8> {
    // The other end may have heard enough.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answered = Vec::new();
    let _ = stream.read_to_end(&mut answered);
    answered
}

fn is_well(served: &Served) {
    assert!(owner(&served.connect()).room().is_ok());
}

pub(crate) fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as u8
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn greetings_of_any_bytes_are_answered_or_ended() {
    let served = served(limits());
    for seed in 0..300 {
        let bytes = bytes_of(seed, seed as usize % 120);
        say(served.stream(), &bytes);
        say(served.stream(), &framed(&[&bytes]));
        let mut damaged = hello().written();
        let at = seed as usize % damaged.len();
        damaged[at] ^= 1 << (seed % 8);
        say(served.stream(), &framed(&[&damaged]));
        damaged.truncate(at);
        say(served.stream(), &framed(&[&damaged]));
    }
    is_well(&served);
}

#[test]
fn calls_of_any_bytes_are_answered_or_ended() {
    let served = served(limits());
    for seed in 0..300 {
        let bytes = bytes_of(seed, seed as usize % 120);
        say(greet(&served).0, &bytes);
        say(greet(&served).0, &framed(&[&bytes]));
        say(greet(&served).0, &framed(&[&[1, 1], &bytes]));
        say(
            greet(&served).0,
            &[
                framed(&[&Call {
                    number: 1,
                    request: Request::Room,
                }
                .head()]),
                bytes,
            ]
            .concat(),
        );
    }
    is_well(&served);
}

#[test]
fn a_call_that_cannot_be_read_is_refused_and_the_connection_goes_on() {
    let served = served(limits());
    let (mut stream, _) = greet(&served);
    let mut bad = Call {
        number: 1,
        request: Request::Page(crate::samples::address(1)),
    }
    .head();
    bad.truncate(10);
    stream.write_all(&framed(&[&bad])).expect("somebody reads");
    stream
        .write_all(&framed(&[&Call {
            number: 2,
            request: Request::Room,
        }
        .head()]))
        .expect("somebody reads");
    let mut frames = FrameReader::new(4096);
    let mut outcomes = [0, 1].map(|_| {
        let bytes = frames
            .next(&mut &stream)
            .expect("it is a frame")
            .expect("there is an answer");
        let answer = Answer::parse(&bytes).expect("it is an answer");
        (
            answer.number,
            matches!(answer.outcome, Err(Error::Refused(Refusal::Because(_)))),
        )
    });
    outcomes.sort();
    assert_eq!(outcomes, [(1, true), (2, false)]);
}

#[test]
fn another_version_is_told_which_one_is_spoken_here() {
    let served = served(limits());
    let mut other = hello().written();
    other[8] = 42;
    other.extend(b"and whatever that version says");
    let answered = say(served.stream(), &framed(&[&other]));
    let bytes = FrameReader::new(4096)
        .next(&mut &answered[..])
        .expect("it is a frame")
        .expect("there is an answer");
    let welcome = Welcome::parse(&bytes).expect("it is an answer to a greeting");
    assert!(
        matches!(&welcome, Welcome::Refused(why) if why.contains("version 42") && why.contains("version 1"))
    );
}

#[test]
fn a_greeting_that_is_too_long_or_holds_too_many_sessions_is_not_let_in() {
    let served = served(limits());
    let long = Hello {
        who: Who {
            purpose: "x".repeat(5000),
            ..who()
        },
        ..hello()
    };
    assert_eq!(say(served.stream(), &framed(&[&long.written()])), b"");
    let many = Hello {
        sessions: (0..65).map(tenure_model::SessionId).collect(),
        ..hello()
    };
    let answered = say(served.stream(), &framed(&[&many.written()]));
    assert!(answered.windows(9).any(|words| words == b"malformed"));
    is_well(&served);
}

#[test]
fn who_does_not_greet_in_time_is_not_waited_for() {
    let served = served(Limits {
        greeting_max: Duration::from_millis(5),
        ..limits()
    });
    let mut silent = served.stream();
    let mut answered = Vec::new();
    silent.read_to_end(&mut answered).expect("it is ended");
    assert_eq!(answered, b"");
}

#[test]
fn who_greets_byte_by_byte_is_not_waited_for() {
    let served = served(limits());
    let mut stream = served.stream();
    let header = &framed(&[&[0; 4000]])[..8];
    stream.write_all(header).expect("somebody reads");
    // It ends long before the greeting is whole, or with it.
    for _ in 0..4000 {
        if stream.write_all(&[0]).is_err() {
            break;
        }
        std::thread::yield_now();
    }
    say(stream, &[]);
    is_well(&served);
}
