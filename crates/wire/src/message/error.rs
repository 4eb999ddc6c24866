//! The bytes of refusals and failures. Their numbers stand for ever; a new one gets the next number.

use crate::owner::Error;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_bytes, put_varint};
use tenure_model::{Address, Failure, Refusal};

/// Failures have numbers from here on, refusals those below.
const FIRST_FAILURE: u8 = 128;

pub(super) fn put_error(out: &mut Vec<u8>, error: &Error) {
    match error {
        Error::Refused(refusal) => put_refusal(out, refusal),
        Error::Failed(failure) => put_failure(out, failure),
    }
}

pub(super) fn error(input: &mut Reader<'_>) -> Result<Error, Malformed> {
    let number = input.byte()?;
    if number < FIRST_FAILURE {
        Ok(refusal(number, input)?.into())
    } else {
        Ok(failure(number, input)?.into())
    }
}

fn put_refusal(out: &mut Vec<u8>, refusal: &Refusal) {
    let (number, text) = match refusal {
        Refusal::NotFound => (1, None),
        Refusal::Exists => (2, None),
        Refusal::NotDirectory => (3, None),
        Refusal::IsDirectory => (4, None),
        Refusal::NotEmpty => (5, None),
        Refusal::NameTooLong => (6, None),
        Refusal::InvalidName => (7, None),
        Refusal::InvalidArgument => (8, None),
        Refusal::TooManyLinks => (9, None),
        Refusal::TooLarge => (10, None),
        Refusal::NoSpace => (11, None),
        Refusal::NotPermitted => (12, None),
        Refusal::AccessDenied => (13, None),
        Refusal::ReadOnly => (14, None),
        Refusal::NoAttribute => (15, None),
        Refusal::Range => (16, None),
        Refusal::NotSupported => (17, None),
        Refusal::NoSuchOffset => (18, None),
        Refusal::Stale => (19, None),
        Refusal::Held { by } => (20, Some(by)),
        Refusal::Because(why) => (21, Some(why)),
        Refusal::NoChunk { at } => {
            out.push(22);
            return at.write(out);
        }
        Refusal::Unjoined => (23, None),
        Refusal::Elsewhere { asked } => {
            out.push(24);
            return put_varint(out, *asked);
        }
    };
    out.push(number);
    if let Some(text) = text {
        put_bytes(out, text.as_bytes());
    }
}

fn refusal(number: u8, input: &mut Reader<'_>) -> Result<Refusal, Malformed> {
    Ok(match number {
        1 => Refusal::NotFound,
        2 => Refusal::Exists,
        3 => Refusal::NotDirectory,
        4 => Refusal::IsDirectory,
        5 => Refusal::NotEmpty,
        6 => Refusal::NameTooLong,
        7 => Refusal::InvalidName,
        8 => Refusal::InvalidArgument,
        9 => Refusal::TooManyLinks,
        10 => Refusal::TooLarge,
        11 => Refusal::NoSpace,
        12 => Refusal::NotPermitted,
        13 => Refusal::AccessDenied,
        14 => Refusal::ReadOnly,
        15 => Refusal::NoAttribute,
        16 => Refusal::Range,
        17 => Refusal::NotSupported,
        18 => Refusal::NoSuchOffset,
        19 => Refusal::Stale,
        20 => Refusal::Held {
            by: input.text()?.to_owned(),
        },
        21 => Refusal::Because(input.text()?.to_owned()),
        22 => Refusal::NoChunk {
            at: Address::read(input)?,
        },
        23 => Refusal::Unjoined,
        24 => Refusal::Elsewhere {
            asked: input.varint()?,
        },
        _ => return Err(malformed("refusal")),
    })
}

fn put_failure(out: &mut Vec<u8>, failure: &Failure) {
    let (number, text) = match failure {
        Failure::DidNotHappen(text) => (128, text),
        Failure::Unknown(text) => (129, text),
        Failure::NoSpace(text) => (130, text),
        Failure::Corrupt(text) => (131, text),
        Failure::Fenced(text) => (132, text),
        Failure::Waits(text) => (133, text),
        Failure::Newer(text) => (134, text),
    };
    out.push(number);
    put_bytes(out, text.as_bytes());
}

fn failure(number: u8, input: &mut Reader<'_>) -> Result<Failure, Malformed> {
    let of = match number {
        128 => Failure::DidNotHappen,
        129 => Failure::Unknown,
        130 => Failure::NoSpace,
        131 => Failure::Corrupt,
        132 => Failure::Fenced,
        133 => Failure::Waits,
        134 => Failure::Newer,
        _ => return Err(malformed("failure")),
    };
    Ok(of(input.text()?.to_owned()))
}
