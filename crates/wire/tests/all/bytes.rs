//! The bytes of messages and frames: kept for ever, equal when read back, and no trap for who reads them.

use crate::errors::errors;
use crate::leases::welcomes;
use crate::samples::{any_outcome, any_request, hello, requests, responses};
use proptest::prelude::*;
use std::fmt::Write;
use std::io::{self, Read};
use tenure_model::limits::MESSAGE_LEN_MAX;
use tenure_wire::frame::{self, Broken, FrameReader, HEADER_LEN};
use tenure_wire::message::{Answer, Call, Hello, Kind, Request, Response, Welcome};

fn call_bytes(call: &Call<'_>) -> Vec<u8> {
    std::iter::once(&call.head()[..])
        .chain(call.tail())
        .collect::<Vec<_>>()
        .concat()
}

fn answer_bytes(answer: &Answer<'_>) -> Vec<u8> {
    [&answer.head()[..], answer.tail()].concat()
}

pub(crate) fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let header = frame::header(parts.iter().copied(), MESSAGE_LEN_MAX).expect("it is short enough");
    [&header[..], &parts.concat()].concat()
}

fn calls() -> Vec<(&'static str, Call<'static>)> {
    requests()
        .into_iter()
        .map(|(name, request)| (name, Call { number: 200, request }))
        .collect()
}

fn answers() -> Vec<(&'static str, Answer<'static>)> {
    let responses = responses()
        .into_iter()
        .map(|(name, response)| (name, Ok(response)));
    let errors = errors().into_iter().map(|(name, error)| (name, Err(error)));
    responses
        .chain(errors)
        .map(|(name, outcome)| (name, Answer { number: 200, outcome }))
        .collect()
}

#[test]
fn every_message_is_the_golden_bytes() {
    let mut found = String::new();
    let mut line = |kind: &str, name: &str, bytes: &[u8]| {
        write!(found, "{kind} {name}: ").expect("a string takes everything");
        bytes
            .iter()
            .for_each(|byte| write!(found, "{byte:02x}").expect("a string takes everything"));
        found.push('\n');
    };
    line("hello", "of two sessions", &hello().written());
    line(
        "hello",
        "to no drive",
        &Hello {
            drive: None,
            sessions: Vec::new(),
            ..hello()
        }
        .written(),
    );
    line(
        "hello",
        "to a drive that was seen",
        &Hello {
            identity: Some(tenure_wire::identity(&[7; 16])),
            ..hello()
        }
        .written(),
    );
    welcomes()
        .iter()
        .for_each(|(name, welcome)| line("welcome", name, &welcome.written()));
    calls()
        .iter()
        .for_each(|(name, call)| line("call", name, &call_bytes(call)));
    answers()
        .iter()
        .for_each(|(name, answer)| line("answer", name, &answer_bytes(answer)));
    line("frame", "of \"ab\" and \"c\"", &framed(&[b"ab", b"c"]));
    assert!(
        found == include_str!("../golden/messages.hex"),
        "the bytes are now\n{found}"
    );
}

#[test]
fn every_kind_of_message_has_golden_bytes() {
    let mut kinds: Vec<_> = requests().iter().map(|(_, request)| request.kind()).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, Kind::ALL);
}

#[test]
fn what_is_read_is_what_was_written() {
    assert_eq!(Hello::parse(&hello().written()), Ok(Ok(hello())));
    for (_, welcome) in welcomes() {
        assert_eq!(Welcome::parse(&welcome.written()), Ok(welcome));
    }
    for (_, call) in calls() {
        assert_eq!(Call::parse(&call_bytes(&call)), Ok(call));
    }
    for (_, answer) in answers() {
        assert_eq!(Answer::parse(&answer_bytes(&answer)), Ok(answer));
    }
}

#[test]
fn a_greeting_of_another_version_tells_its_version_whatever_follows() {
    let mut bytes = hello().written();
    bytes.truncate(8);
    bytes.extend([77, 0xff, 0xff, 0xff]);
    assert_eq!(Hello::parse(&bytes), Ok(Err(77)));
}

#[test]
fn a_message_with_more_bytes_than_it_needs_is_refused() {
    for (name, call) in calls() {
        // The chunks' contents are as long as their lengths say.
        let bytes = [call_bytes(&call), vec![0]].concat();
        assert!(Call::parse(&bytes).is_err(), "{name}");
    }
    for (name, answer) in answers() {
        if !matches!(answer.outcome, Ok(Response::Bytes(_))) {
            let bytes = [answer_bytes(&answer), vec![0]].concat();
            assert!(Answer::parse(&bytes).is_err(), "{name}");
        }
    }
}

/// Damages some bytes as a seed says.
fn damage(bytes: &mut Vec<u8>, seed: u64, changes: usize) {
    let mut seed = seed | 1;
    let mut number = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % below.max(1)
    };
    for _ in 0..changes {
        let at = number(bytes.len());
        match number(4) {
            0 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = number(256) as u8),
            1 => bytes.insert(at, number(256) as u8),
            2 => drop(bytes.drain(at..(at + 1).min(bytes.len()))),
            _ => bytes.truncate(at),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_call_is_read_as_it_was_written(number in any::<u64>(), request in any_request()) {
        let call = Call { number, request };
        let bytes = call_bytes(&call);
        prop_assert_eq!(Call::peek(&bytes), Ok((number, call.request.kind())));
        prop_assert_eq!(Call::parse(&bytes), Ok(call));
    }

    #[test]
    fn any_answer_is_read_as_it_was_written(number in any::<u64>(), outcome in any_outcome()) {
        let answer = Answer { number, outcome };
        let bytes = answer_bytes(&answer);
        prop_assert_eq!(Answer::peek(&bytes), Ok(number));
        prop_assert_eq!(Answer::parse(&bytes), Ok(answer));
    }

    #[test]
    fn damaged_messages_are_refused_or_are_what_would_be_written(
        request in any_request(),
        outcome in any_outcome(),
        seed in any::<u64>(),
        changes in 1usize..5,
    ) {
        let mut bytes = call_bytes(&Call { number: 1, request });
        damage(&mut bytes, seed, changes);
        if let Ok(call) = Call::parse(&bytes) {
            prop_assert_eq!(call_bytes(&call), bytes);
        }
        let mut bytes = answer_bytes(&Answer { number: 1, outcome });
        damage(&mut bytes, seed, changes);
        if let Ok(answer) = Answer::parse(&bytes) {
            prop_assert_eq!(answer_bytes(&answer), bytes);
        }
        for mut bytes in [hello().written(), Welcome::Later("why".into()).written()] {
            damage(&mut bytes, seed, changes);
            let _ = (Hello::parse(&bytes), Welcome::parse(&bytes));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_messages(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = (Call::parse(&bytes), Answer::parse(&bytes), Hello::parse(&bytes), Welcome::parse(&bytes));
        let behind_version = [&[1, 5][..], &bytes].concat();
        let _ = (Call::parse(&behind_version), Answer::parse(&behind_version));
    }

    #[test]
    fn damaged_frames_end_the_stream_or_are_lost_behind_a_length(
        seed in any::<u64>(),
        changes in 1usize..4,
    ) {
        let mut bytes = [framed(&[b"first"]), framed(&[&[7; 3000]]), framed(&[])].concat();
        let whole = [b"first".to_vec(), vec![7; 3000], vec![]];
        damage(&mut bytes, seed, changes);
        let mut frames = FrameReader::new(10_000);
        let mut stream = &bytes[..];
        while let Ok(Some(payload)) = frames.next(&mut stream) {
            prop_assert!(whole.contains(&payload));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn frames_come_out_whole_however_the_stream_is_cut(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40_000), 0..4),
        pieces in prop::collection::vec(1usize..20_000, 1..8),
    ) {
        let bytes: Vec<_> = payloads.iter().flat_map(|payload| framed(&[payload])).collect();
        let mut stream = Pieces { bytes: &bytes, pieces: pieces.iter().cycle(), is_due: true };
        let mut frames = FrameReader::new(MESSAGE_LEN_MAX);
        for payload in &payloads {
            prop_assert_eq!(next(&mut frames, &mut stream)?, Some(payload.clone()));
        }
        prop_assert_eq!(next(&mut frames, &mut stream)?, None);
    }
}

fn next(frames: &mut FrameReader, stream: &mut impl Read) -> Result<Option<Vec<u8>>, TestCaseError> {
    loop {
        match frames.next(stream) {
            Ok(frame) => return Ok(frame),
            Err(Broken::Stream(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(broken) => return Err(TestCaseError::fail(broken.to_string())),
        }
    }
}

/// A stream that yields pieces, and has nothing to read between two of them.
struct Pieces<'a, I> {
    bytes: &'a [u8],
    pieces: I,
    is_due: bool,
}

impl<'a, I: Iterator<Item = &'a usize>> Read for Pieces<'_, I> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.is_due = !self.is_due;
        if self.is_due {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let piece = *self.pieces.next().expect("they come again and again");
        let len = piece.min(out.len());
        self.bytes.read(&mut out[..len])
    }
}

#[test]
fn a_length_beyond_the_bound_is_refused_before_anything_is_reserved() {
    let mut bytes = framed(&[b"payload"]);
    bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let broken = FrameReader::new(MESSAGE_LEN_MAX).next(&mut &bytes[..]);
    assert!(matches!(
        broken,
        Err(Broken::TooLong {
            len_max: MESSAGE_LEN_MAX,
            ..
        })
    ));
    let long = [0; 100];
    assert!(matches!(
        frame::header([&long[..]].into_iter(), 99),
        Err(Broken::TooLong {
            len: 100,
            len_max: 99
        })
    ));
}

#[test]
fn a_stream_that_ends_within_a_frame_is_cut_not_ended() {
    let bytes = framed(&[b"payload"]);
    for len in 0..=bytes.len() {
        let mut frames = FrameReader::new(100);
        let mut stream = &bytes[..len];
        let found = frames.next(&mut stream);
        match len {
            0 => assert!(matches!(found, Ok(None))),
            len if len < HEADER_LEN + 7 => assert!(matches!(found, Err(Broken::Cut)), "at {len}"),
            _ => assert_eq!(found.expect("it is whole"), Some(b"payload".to_vec())),
        }
    }
}

#[test]
fn a_request_of_every_kind_is_dropped_when_cut_short() {
    for (name, call) in calls() {
        let bytes = call_bytes(&call);
        for len in 0..bytes.len() {
            let parsed = Call::parse(&bytes[..len]);
            assert!(parsed.is_err(), "{name} cut at {len} is {parsed:?}");
        }
        assert!(matches!(call.request, Request::Place { .. }) || call.tail().count() == 0);
    }
}
