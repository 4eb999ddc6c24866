//! The greeting: who comes, to which drive; and whether he is let in.
//!
//! The magic and the version of a [`Hello`], and all of a [`Welcome`], are the same in every version, so that two programs
//! of different versions can tell each other so.

use super::VERSION;
use super::fields::{drive_name, many, put_flag, put_text, session};
use crate::owner::Who;
use tenure_model::codec::{Codec, Malformed, Reader, malformed, put_varint};
use tenure_model::{Digest, DriveName, SessionId};

/// The first bytes of a greeting.
const MAGIC: &[u8; 8] = b"TNWIRE_1";
/// Bytes in a greeting: it comes from somebody who is not let in yet.
pub const GREETING_LEN_MAX: usize = 4096;
/// Sessions that one connection may keep alive: a process mounts a handful of branches.
pub const SESSIONS_MAX: usize = 64;

/// What a client says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The drive that the calls are about; none to speak with the process alone.
    pub drive: Option<DriveName>,
    /// Who comes.
    pub who: Who,
    /// The sessions that he had before a connection ended, and still needs.
    pub sessions: Vec<SessionId>,
    /// Which drive of that name he has seen before ([`identity`](crate::identity)).
    pub identity: Option<Digest>,
}

impl Hello {
    /// Returns the greeting's bytes.
    pub fn written(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_varint(&mut out, VERSION);
        put_flag(&mut out, self.drive.is_some());
        if let Some(drive) = &self.drive {
            put_text(&mut out, drive.as_str());
        }
        self.who.write(&mut out);
        put_varint(&mut out, self.sessions.len() as u64);
        self.sessions
            .iter()
            .for_each(|session| put_varint(&mut out, session.0));
        // Nothing stands for none: so it was before there was one.
        if let Some(identity) = &self.identity {
            out.extend_from_slice(&identity.0);
        }
        out
    }

    /// Returns the greeting that is all of `bytes`, or the version that speaks there if it is another.
    pub fn parse(bytes: &[u8]) -> Result<Result<Self, u64>, Malformed> {
        let mut input = Reader::new(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(malformed("greeting"));
        }
        let version = input.varint()?;
        if version != VERSION {
            return Ok(Err(version));
        }
        let drive = if input.flag()? {
            Some(drive_name(&mut input)?)
        } else {
            None
        };
        let who = Who::read(&mut input)?;
        let sessions = many(&mut input, session)?;
        let identity = if input.is_empty() {
            None
        } else {
            Some(input.digest()?)
        };
        input.end()?;
        if sessions.len() > SESSIONS_MAX {
            return Err(malformed("greeting of so many sessions"));
        }
        Ok(Ok(Self {
            drive,
            who,
            sessions,
            identity,
        }))
    }
}

/// What a client is told to its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// Calls are answered.
    In,
    /// It makes no sense to come again; a sentence says why.
    Refused(String),
    /// It may work later; a sentence says why.
    Later(String),
    /// The owner of the drive is at this address of a server.
    Elsewhere(String),
}

impl Welcome {
    /// Returns the answer's bytes.
    pub fn written(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let (number, text) = match self {
            Welcome::In => (0, ""),
            Welcome::Refused(why) => (1, why.as_str()),
            Welcome::Later(why) => (2, why.as_str()),
            Welcome::Elsewhere(address) => (3, address.as_str()),
        };
        out.push(number);
        put_text(&mut out, text);
        out
    }

    /// Returns the answer that is all of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(malformed("answer to a greeting"));
        }
        let (number, text) = (input.byte()?, input.text()?.to_owned());
        input.end()?;
        match (number, text) {
            (0, text) if text.is_empty() => Ok(Welcome::In),
            (1, why) => Ok(Welcome::Refused(why)),
            (2, why) => Ok(Welcome::Later(why)),
            (3, address) => Ok(Welcome::Elsewhere(address)),
            _ => Err(malformed("answer to a greeting")),
        }
    }
}
