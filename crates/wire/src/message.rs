//! The conversation as bytes: a greeting, and then calls and their answers, each with a number that pairs them.
//!
//! Each kind of message is one file. A message is a head, written by [`Codec`](tenure_model::codec::Codec), and a tail:
//! the contents of chunks and pages, which are neither copied nor prefixed, because nothing follows them. Invariant: what
//! is parsed is what was written; no input makes a parser panic or allocate more than the input holds.

mod error;
mod fields;
mod greeting;
mod kind;
mod lent;
mod line;
mod merge;
mod reclaim;
mod request;
mod response;
mod review;
mod shared;
mod stand;

pub use greeting::{GREETING_LEN_MAX, Hello, SESSIONS_MAX, Welcome};
pub use kind::Kind;
pub use request::Request;
pub use response::Response;
pub use shared::Ask;

use crate::owner::Error;
use tenure_model::codec::{Malformed, Reader, malformed, put_varint};

/// The version of all messages: the first number in each of them.
pub const VERSION: u64 = 1;

/// Something that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Pairs it with its answer; on one connection none is given to two calls.
    pub number: u64,
    /// What is asked.
    pub request: Request<'a>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The number of the call.
    pub number: u64,
    /// What came of it.
    pub outcome: Result<Response<'a>, Error>,
}

/// The answer's kind when there is an error instead of a response.
const FAILED: u8 = 0;

impl<'a> Call<'a> {
    /// Returns the message without its tail.
    pub fn head(&self) -> Vec<u8> {
        let mut out = begun(self.number);
        self.request.write_head(&mut out);
        out
    }

    /// Returns the message's tail, in parts.
    pub fn tail(&self) -> impl Iterator<Item = &'a [u8]> + Clone + '_ {
        self.request.tail()
    }

    /// Returns the call that is all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (number, mut input) = opened(bytes)?;
        let request = Request::read(&mut input)?;
        input.end()?;
        Ok(Self { number, request })
    }

    /// Returns the number and the kind of the call that begins `bytes`, whatever stands behind.
    pub fn peek(bytes: &[u8]) -> Result<(u64, Kind), Malformed> {
        let (number, mut input) = opened(bytes)?;
        Ok((number, Kind::read(&mut input)?))
    }
}

impl<'a> Answer<'a> {
    /// Returns the message without its tail.
    pub fn head(&self) -> Vec<u8> {
        let mut out = begun(self.number);
        match &self.outcome {
            Ok(response) => response.write_head(&mut out),
            Err(error) => {
                out.push(FAILED);
                error::put_error(&mut out, error);
            }
        }
        out
    }

    /// Returns the message's tail, which may be empty.
    pub fn tail(&self) -> &[u8] {
        self.outcome.as_ref().map_or(&[], Response::tail)
    }

    /// Returns the answer that is all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (number, mut input) = opened(bytes)?;
        let outcome = match input.byte()? {
            FAILED => Err(error::error(&mut input)?),
            kind => Ok(Response::read(kind, &mut input)?),
        };
        input.end()?;
        Ok(Self { number, outcome })
    }

    /// Returns the number of the answer that begins `bytes`, whatever stands behind.
    pub fn peek(bytes: &[u8]) -> Result<u64, Malformed> {
        opened(bytes).map(|(number, _)| number)
    }
}

fn begun(number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_varint(&mut out, VERSION);
    put_varint(&mut out, number);
    out
}

fn opened(bytes: &[u8]) -> Result<(u64, Reader<'_>), Malformed> {
    let mut input = Reader::new(bytes);
    if input.varint()? != VERSION {
        return Err(malformed("message of this version"));
    }
    Ok((input.varint()?, input))
}
