//! Owners that follow a script: what a client meets when it dials, one after the other.

use crate::bytes::framed;
use crate::fake::greeting;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use tenure_model::{BranchId, Digest, Failure, Refusal, SessionId, limits::MESSAGE_LEN_MAX};
use tenure_wire::frame::{Broken, FrameReader};
use tenure_wire::message::{Answer, Call, Hello, Request, Response, Welcome};
use tenure_wire::{Connection, Created, Dial, Error, Opened, Patience, Room, Shipped, Stream};

/// The owner's end of a socket, in a script's hands.
pub(crate) struct Stage {
    pub(crate) stream: UnixStream,
    pub(crate) frames: FrameReader,
}

impl Stage {
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        match self.frames.next(&mut &self.stream) {
            Ok(message) => message,
            // A client that ends with answers unread ends like this.
            Err(Broken::Stream(_)) => None,
            Err(broken) => panic!("the client writes frames: {broken}"),
        }
    }

    pub(crate) fn greet(&mut self, welcome: &Welcome) -> Hello {
        let hello = self.read().expect("a client greets");
        self.write(&welcome.written());
        Hello::parse(&hello)
            .expect("it is a greeting")
            .expect("it is of this version")
    }

    pub(crate) fn write(&mut self, message: &[u8]) {
        // A client that was given up does not listen.
        let _ = self.stream.write_all(&framed(&[message]));
    }

    pub(crate) fn answer(&mut self, number: u64, outcome: Result<Response<'_>, Error>) {
        let answer = Answer { number, outcome };
        self.write(&[&answer.head()[..], answer.tail()].concat());
    }

    /// Answers calls until the client ends.
    pub(crate) fn serve(&mut self) {
        while let Some(message) = self.read() {
            let call = Call::parse(&message).expect("it is a call");
            self.answer(call.number, outcome(&call.request));
        }
    }
}

/// What a good owner answers.
pub(crate) fn outcome(request: &Request<'_>) -> Result<Response<'static>, Error> {
    Ok(match request {
        Request::Open(_) => Response::Opened(Opened {
            session: SessionId(5),
            ..crate::leases::opened()
        }),
        Request::Ship(batch) | Request::Order(batch) => Response::Shipped(Shipped {
            digest: Digest([batch.number as u8; 32]),
        }),
        Request::Room => Response::Room(Room { total: 2, free: 1 }),
        Request::Place { chunks, .. } => Response::Placed(
            chunks
                .iter()
                .map(|chunk| crate::samples::place(1, chunk.bytes.len() as u32))
                .collect(),
        ),
        Request::Close(_) | Request::Secure { .. } => Response::Done,
        Request::Lend { .. } => Response::Lent(crate::samples::lent()),
        Request::Fork(ask) if ask.is_repeatable() => Response::Created(Created {
            branch: BranchId(2),
            found: Some(ask.name.to_string()),
        }),
        Request::Fork(_) | Request::Control { .. } => panic!("it must not come here: {request:?}"),
        Request::Renew(_)
        | Request::LendInos(_)
        | Request::GiveBack { .. }
        | Request::Page(_)
        | Request::Read { .. }
        | Request::Sealed(_)
        | Request::Part { .. }
        | Request::Checkpoint(_)
        | Request::Rename { .. }
        | Request::SetPlan(_)
        | Request::Plan
        | Request::Usage
        | Request::Reclaim(_)
        | Request::Forgo { .. }
        | Request::DeleteBranch(_)
        | Request::HaveShipped(_)
        | Request::Mark(..)
        | Request::Marks
        | Request::Accept(..)
        | Request::Branches
        | Request::Status
        | Request::Fold
        | Request::Check { .. }
        | Request::Salvage(_)
        | Request::Take { .. }
        | Request::Delegations
        | Request::Diff(_)
        | Request::Contents { .. }
        | Request::Undo { .. }
        | Request::Merge(..)
        | Request::Conflicts { .. }
        | Request::Resolve(..)
        | Request::Restore(..)
        | Request::Shared(..) => return Err(Refusal::NotSupported.into()),
    })
}

pub(crate) type Script = Box<dyn FnOnce(&mut Stage) + Send>;

/// Owners that are found one after the other; after the last there is none.
pub(crate) struct Owners {
    pub(crate) scripts: Mutex<VecDeque<Script>>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) dials: Mutex<usize>,
}

impl Owners {
    pub(crate) fn new(scripts: Vec<Script>) -> Arc<Self> {
        Arc::new(Self {
            scripts: Mutex::new(scripts.into()),
            threads: Mutex::default(),
            dials: Mutex::default(),
        })
    }

    pub(crate) fn dial(self: &Arc<Self>) -> Dial {
        let owners = self.clone();
        Arc::new(move || -> Result<Stream, Error> {
            *owners.dials.lock() += 1;
            let script = owners.scripts.lock().pop_front();
            let script = script.ok_or_else(|| Failure::DidNotHappen("nobody is there".into()))?;
            let (theirs, ours) = UnixStream::pair().expect("there are descriptors");
            let play = move || {
                script(&mut Stage {
                    stream: theirs,
                    frames: FrameReader::new(MESSAGE_LEN_MAX),
                })
            };
            owners.threads.lock().push(std::thread::spawn(play));
            Ok(ours.into())
        })
    }

    pub(crate) fn reach(self: &Arc<Self>, patience: Patience) -> Connection {
        Connection::reach(self.dial(), greeting(), patience).expect("the first owner is there")
    }

    /// Waits for every script to come to its end, and fails when one has failed.
    pub(crate) fn end(&self) {
        for thread in std::mem::take(&mut *self.threads.lock()) {
            thread.join().expect("the script went as written");
        }
    }
}

/// Reads one call and ends without an answer.
pub(crate) fn reads_and_ends() -> Script {
    Box::new(|stage| {
        stage.greet(&Welcome::In);
        stage.read().expect("there is a call");
    })
}

/// Ends before it has greeted.
pub(crate) fn absent() -> Script {
    Box::new(|stage| drop(stage.read()))
}

pub(crate) fn serves() -> Script {
    Box::new(|stage| {
        stage.greet(&Welcome::In);
        stage.serve();
    })
}
