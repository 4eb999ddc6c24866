//! Other servers of the same bucket: asked whether they own a drive, before it is taken over from them.

use crate::clock::MachineClock;
use crate::drives::{Asked, VERB};
use crate::place::Way;
use crate::reach;
use crate::servers::{self, TokenSource};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tenure_model::{DriveName, Epoch, Failure, Refusal};
use tenure_server::Peers;
use tenure_wire::{Connection, Error, Greeting, Patience, ServerAddress};

/// How long a server may take in all to say whether it owns a drive, with the way there: clients wait for that, and for the drive to
/// be taken over. One that is there needs five round trips, which take a second across the world at most; one that is too slow is
/// deposed, and loses nothing.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How this process asks others.
#[derive(Clone)]
pub(crate) struct Neighbours {
    way: Way,
    token: Option<TokenSource>,
}

impl Neighbours {
    /// Asks with a token that they know, if they need one.
    pub(crate) fn new(way: Way, token: Option<TokenSource>) -> Self {
        Neighbours { way, token }
    }

    /// Asks on a thread of its own: connecting and shaking hands have bounds that are each as long as all of it may take.
    fn ask_soon(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> Result<bool, Error> {
        let (neighbours, address, drive) = (self.clone(), address.clone(), drive.clone());
        let (say, said) = sync_channel(1);
        std::thread::Builder::new()
            .name("asking".into())
            // Nobody listens to what comes too late.
            .spawn(move || drop(say.send(neighbours.ask(&address, &drive, epoch))))
            .map_err(|error| Failure::DidNotHappen(format!("no thread can be started to ask: {error}")))?;
        said.recv_timeout(ANSWER_MAX)
            .unwrap_or_else(|_| Err(Failure::DidNotHappen("it has said nothing in time".into()).into()))
    }

    fn ask(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> Result<bool, Error> {
        let dial = servers::dial(vec![address.clone()], &self.way, self.token.clone(), None)
            .map_err(|error| Refusal::Because(format!("{error:#}")))?;
        let greeting = Greeting {
            drive: None,
            who: reach::who("asks who owns a drive".to_owned(), false),
        };
        let patience = Patience {
            reply_max: ANSWER_MAX,
            ..Patience::new(Arc::new(MachineClock))
        };
        let asked = Asked::Owns {
            drive: drive.to_string(),
            epoch: epoch.0,
        };
        let asked = serde_json::to_vec(&asked).expect("it is JSON");
        let said = Connection::reach(dial, greeting, patience)?.control(VERB, &asked, ANSWER_MAX)?;
        serde_json::from_slice(&said)
            .map_err(|_| Failure::DidNotHappen("what it says is no answer".into()).into())
    }
}

impl Peers for Neighbours {
    fn owns(&self, address: &ServerAddress, drive: &DriveName, epoch: Epoch) -> bool {
        match self.ask_soon(address, drive, epoch) {
            Ok(owns) => owns,
            // Who is there and lets this process ask nothing may own it all the same: he is asked by clients that may.
            Err(Error::Refused(why)) => {
                tracing::warn!(%address, %why, "a server cannot be asked whether it owns a drive");
                servers::is_of_a_server(&why)
            }
            Err(Error::Failed(why)) => {
                tracing::info!(%address, %why, "a server that owned a drive does not answer");
                false
            }
        }
    }
}
