//! A bucket that fails as it is told: every fault that a real one has shown, at the call that a test names.
//!
//! It wraps any bucket and its disk, and counts their calls together, so that a test can fail each in turn.
//! Invariant: without a plan it changes nothing.

mod disk;
mod plan;

use crate::bucket::{Bucket, Put, Requests, missing_or_short};
use crate::disk::Disk;
use crate::key::Key;
use disk::FaultyDisk;
use parking_lot::Mutex;
pub use plan::{Call, CallKind, Fault, Plan};
use std::io::IoSliceMut;
use std::sync::Arc;
use tenure_model::Failure;

/// Is told of every call before it is made; may wait, as a slow network would.
pub type OnCall = Box<dyn Fn(&Call) + Send + Sync>;

/// A bucket that fails as its plan says.
pub struct FaultyBucket {
    inner: Arc<dyn Bucket>,
    faults: Arc<Faults>,
}

/// What the bucket, its disk and its files share.
struct Faults {
    state: Mutex<State>,
    on_call: Option<OnCall>,
}

struct State {
    plan: Plan,
    calls: Vec<Call>,
    halted: bool,
    outage: bool,
}

/// What is to be done about one call.
enum Turn {
    /// Do it.
    Go,
    /// Do not do it; fail so.
    Stop(Failure),
    /// Do it, with this fault.
    Bend(Fault),
}

impl FaultyBucket {
    /// Wraps a bucket.
    pub fn new(inner: Arc<dyn Bucket>, plan: Plan) -> Self {
        Self::watched(inner, plan, None)
    }

    /// Wraps a bucket and has every call told.
    pub fn watched(inner: Arc<dyn Bucket>, plan: Plan, on_call: Option<OnCall>) -> Self {
        let state = State {
            plan,
            calls: Vec::new(),
            halted: false,
            outage: false,
        };
        Self {
            inner,
            faults: Arc::new(Faults {
                state: Mutex::new(state),
                on_call,
            }),
        }
    }

    /// Gives another plan; calls are counted from 0 again.
    pub fn set_plan(&self, plan: Plan) {
        let mut state = self.faults.state.lock();
        state.plan = plan;
        state.calls.clear();
    }

    /// Begins or ends an outage: until it ends, every call fails and does nothing.
    pub fn set_outage(&self, outage: bool) {
        self.faults.state.lock().outage = outage;
    }

    /// Returns the calls since the plan was given.
    pub fn calls(&self) -> Vec<Call> {
        self.faults.state.lock().calls.clone()
    }
}

impl Faults {
    fn turn(&self, kind: CallKind, key: &Key) -> Turn {
        let mut state = self.state.lock();
        let call = Call {
            number: state.calls.len() as u64,
            kind,
            key: key.clone(),
        };
        state.calls.push(call.clone());
        let fault = state.plan.fault_at(&call);
        state.halted |= fault == Some(Fault::Halt);
        let (halted, outage) = (state.halted, state.outage);
        drop(state);
        if let Some(on_call) = &self.on_call {
            on_call(&call);
        }
        let says = |what: &str| format!("{kind:?} of {key}: {what}");
        if halted {
            return Turn::Stop(Failure::Unknown(says("the process has ended")));
        }
        if outage {
            return Turn::Stop(Failure::DidNotHappen(says("the bucket does not answer")));
        }
        match fault {
            None => Turn::Go,
            Some(Fault::Refuse) => Turn::Stop(Failure::DidNotHappen(says("refused"))),
            Some(Fault::NoSpace) => Turn::Stop(Failure::NoSpace(says("the disk is full"))),
            Some(Fault::LoseRequest) => Turn::Stop(Failure::Unknown(says("the request was lost"))),
            Some(fault) => Turn::Bend(fault),
        }
    }

    /// Makes a call that has no answer to bend: it fails before or after it was made, or not at all.
    fn call<T>(
        &self,
        kind: CallKind,
        key: &Key,
        make: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.turn(kind, key) {
            Turn::Go => make(),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(fault) => {
                let made = make()?;
                if fault == Fault::LoseReply {
                    return Err(reply_lost(kind, key));
                }
                Ok(made)
            }
        }
    }
}

fn reply_lost(kind: CallKind, key: &Key) -> Failure {
    Failure::Unknown(format!("{kind:?} of {key}: the reply was lost"))
}

/// Turns bytes into those of another object: as long, and none of them right.
fn turn_wrong(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

/// Spoils what was read: other bytes, too short, or no reply.
fn bend_parts(key: &Key, fault: Fault, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
    if fault == Fault::WrongBody {
        parts.iter_mut().for_each(|part| turn_wrong(part));
        return Ok(());
    }
    Err(if fault == Fault::ShortRead {
        missing_or_short(key)
    } else {
        reply_lost(CallKind::Get, key)
    })
}

impl Bucket for FaultyBucket {
    fn put_if_absent(&self, key: &Key, bytes: &[u8]) -> Result<Put, Failure> {
        match self.faults.turn(CallKind::Put, key) {
            Turn::Go => self.inner.put_if_absent(key, bytes),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(fault) => {
                let put = self.inner.put_if_absent(key, bytes)?;
                if fault == Fault::LoseReply {
                    return Err(reply_lost(CallKind::Put, key));
                }
                Ok(if fault == Fault::ClaimExists {
                    Put::Exists
                } else {
                    put
                })
            }
        }
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        match self.faults.turn(CallKind::Get, key) {
            Turn::Go => self.inner.get(key),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(fault) => {
                let mut found = self.inner.get(key)?;
                let bytes = found.as_deref_mut().unwrap_or_default();
                if fault != Fault::ShortRead {
                    bend_parts(key, fault, &mut [IoSliceMut::new(bytes)])?;
                } else if let Some(bytes) = &mut found {
                    bytes.truncate(bytes.len() / 2);
                }
                Ok(found)
            }
        }
    }

    fn get_parts(&self, key: &Key, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), Failure> {
        match self.faults.turn(CallKind::Get, key) {
            Turn::Go => self.inner.get_parts(key, offset, parts),
            Turn::Stop(failure) => Err(failure),
            Turn::Bend(fault) => {
                self.inner.get_parts(key, offset, parts)?;
                bend_parts(key, fault, parts)
            }
        }
    }

    fn size(&self, key: &Key) -> Result<Option<u64>, Failure> {
        self.faults.call(CallKind::Get, key, || self.inner.size(key))
    }

    fn list(&self, under: &str) -> Result<Vec<Key>, Failure> {
        let key = plan::listed(under);
        self.faults.call(CallKind::List, &key, || self.inner.list(under))
    }

    fn children(&self, under: &str) -> Result<Vec<String>, Failure> {
        let key = plan::listed(under);
        self.faults
            .call(CallKind::List, &key, || self.inner.children(under))
    }

    fn delete(&self, key: &Key) -> Result<(), Failure> {
        self.faults.call(CallKind::Delete, key, || self.inner.delete(key))
    }

    fn requests(&self) -> &Requests {
        self.inner.requests()
    }

    fn disk(&self) -> Option<Arc<dyn Disk>> {
        let inner = self.inner.disk()?;
        Some(Arc::new(FaultyDisk::new(inner, self.faults.clone())))
    }

    fn tier(&self) -> &'static str {
        self.inner.tier()
    }

    fn describe(&self) -> String {
        format!("{}, with faults", self.inner.describe())
    }
}
