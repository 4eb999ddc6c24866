//! The drives of a bucket or of a server: which there are, making one, deleting one.
//!
//! Both sides of what is said to a server about them are here.

use crate::clock::MachineClock;
use crate::hint;
use crate::place::Place;
use crate::reach;
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Refusal};
use tenure_server::{Drive, Listing, Part};
use tenure_store::Bucket;
use tenure_wire::{Connection, Greeting, Patience};

/// The word with which a server is asked about its drives.
pub(crate) const VERB: &str = "drives";
/// How long a server may take to answer: deleting a drive deletes every object of it.
const ANSWER_MAX: Duration = Duration::from_secs(600);
/// How long who makes a drive of the same name is waited for.
const CREATE_TRIES: u32 = 100;
const REST: Duration = Duration::from_millis(50);

/// What a server is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Asked {
    /// Which drives there are.
    List,
    /// What is there of others, which are none: whether each was to be deleted.
    Parts,
    /// To make one whose root belongs to a user and a group.
    Create { drive: String, uid: u32, gid: u32 },
    /// To delete one.
    Delete { drive: String },
    /// Whether it owns one, at an epoch or a later one.
    Owns { drive: String, epoch: u64 },
}

/// Returns what is asked with a word and its arguments.
pub(crate) fn asked(verb: &str, arguments: &[u8]) -> Result<Asked, Refusal> {
    let asked = (verb == VERB)
        .then(|| serde_json::from_slice(arguments).ok())
        .flatten();
    asked.ok_or_else(|| Refusal::Because(format!("this process does not know what `{verb}` asks for")))
}

/// Where drives are kept.
pub(crate) enum Drives {
    /// In a bucket that this process opens.
    Bucket(Arc<dyn Bucket>, Box<Place>),
    /// At a server.
    Server(Connection),
}

impl Drives {
    /// Returns those of a place that is there.
    pub(crate) fn of(place: &Place) -> Result<Self> {
        if place.server.is_named() {
            return Self::at(place);
        }
        Ok(Drives::Bucket(place.kept()?.open()?, Box::new(place.clone())))
    }

    /// Returns those of a place; a bucket that is not there is made.
    pub(crate) fn made(place: &Place) -> Result<Self> {
        if place.server.is_named() {
            return Self::at(place);
        }
        Ok(Drives::Bucket(place.kept()?.create()?, Box::new(place.clone())))
    }

    fn at(place: &Place) -> Result<Self> {
        let greeting = Greeting {
            drive: None,
            who: reach::who("tenure drive".to_owned(), false),
        };
        let dial = place.server.dial(&place.way, None)?;
        let connection = Connection::reach(dial, greeting, Patience::new(Arc::new(MachineClock)))
            .map_err(|error| place.server.no_server(error))?;
        Ok(Drives::Server(connection))
    }

    /// Lists them. What else stands among them a server writes into its log.
    pub(crate) fn list(&self) -> Result<Listing> {
        match self {
            Drives::Bucket(bucket, _) => Ok(tenure_server::list(bucket.as_ref())?),
            Drives::Server(connection) => {
                let names: Vec<String> = serde_json::from_slice(&ask(connection, &Asked::List)?)?;
                // A server of before does not know what is asked.
                let parts = ask(connection, &Asked::Parts).unwrap_or_else(|_| b"[]".to_vec());
                let parts: Vec<(String, bool)> = serde_json::from_slice(&parts)?;
                let parsed = |name: &String| DriveName::parse(name).map_err(|why| anyhow!(why));
                let part = |(name, is_deleted): &(String, bool)| {
                    let part = if *is_deleted { Part::Deleted } else { Part::Begun };
                    Ok((parsed(name)?, part))
                };
                Ok(Listing {
                    drives: names.iter().map(parsed).collect::<Result<_>>()?,
                    parts: parts.iter().map(part).collect::<Result<_>>()?,
                    unclear: Vec::new(),
                })
            }
        }
    }

    /// Makes a drive that belongs to this user.
    pub(crate) fn create(&self, name: &DriveName) -> Result<()> {
        let (uid, gid) = reach::user();
        match self {
            Drives::Bucket(bucket, place) => {
                hint::words::mean(name, place);
                Ok(created(bucket, name, (uid, gid))?.close()?)
            }
            Drives::Server(connection) => {
                let drive = name.to_string();
                ask(connection, &Asked::Create { drive, uid, gid }).map(drop)
            }
        }
    }

    /// Deletes a drive that nobody uses.
    pub(crate) fn delete(&self, name: &DriveName) -> Result<()> {
        match self {
            Drives::Bucket(bucket, place) => {
                hint::words::mean(name, place);
                reach::refuse_owned(place, bucket, name)?;
                Ok(tenure_server::delete(bucket.as_ref(), name, &deleter())?)
            }
            Drives::Server(connection) => {
                let drive = name.to_string();
                ask(connection, &Asked::Delete { drive }).map(drop)
            }
        }
    }
}

/// Makes a drive; who makes one of that name at the same moment is waited for, and has made it.
fn created(
    bucket: &Arc<dyn Bucket>,
    name: &DriveName,
    user: (u32, u32),
) -> Result<Arc<Drive>, tenure_wire::Error> {
    let mut tries = 1;
    loop {
        let beginning = reach::beginning(user);
        match Drive::create(Arc::clone(bucket), name, &beginning, reach::options(None)) {
            Err(tenure_wire::Error::Refused(Refusal::Held { .. })) if tries < CREATE_TRIES => {
                tries += 1;
                std::thread::sleep(REST);
            }
            made => return made,
        }
    }
}

/// Returns who holds a drive while it is deleted.
pub(crate) fn deleter() -> String {
    format!("process {} that deletes it", std::process::id())
}

fn ask(connection: &Connection, asked: &Asked) -> Result<Vec<u8>> {
    Ok(connection.control(VERB, &serde_json::to_vec(asked)?, ANSWER_MAX)?)
}
