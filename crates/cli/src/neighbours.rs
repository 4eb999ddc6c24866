//! Other servers of the same bucket: asked whether they own a drive, before it is taken over from them.

use crate::clock::MachineClock;
use crate::drives::{Asked, VERB};
use crate::place::Way;
use crate::reach;
use crate::servers::{self, TokenSource};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Epoch, Failure, Refusal};
use tenure_server::Peers;
use tenure_wire::{Connection, Error, Greeting, Patience, ServerAddress};

/// How long a server may take to say whether it owns a drive: clients wait for that, and for the drive to be taken over.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How this process asks others.
pub(crate) struct Neighbours {
    way: Way,
    token: Option<TokenSource>,
}

impl Neighbours {
    /// Asks with a token that they know, if they need one.
    pub(crate) fn new(way: Way, token: Option<TokenSource>) -> Self {
        Neighbours { way, token }
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
        match self.ask(address, drive, epoch) {
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
