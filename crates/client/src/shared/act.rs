//! Acts: what changes the branch. Each is kept until it is durable.

use super::{Callers, Inner, Pending, Rests, State};
use crate::wait;
use std::sync::Arc;
use tenure_model::{Attr, Ino, Op, Refusal, Timestamp, limits};
use tenure_wire::owner::Hold;
use tenure_wire::shared::{Deed, Ordered, Place};
use tenure_wire::{Error, Owner};

/// Bytes of acts that are kept, about, before they are made durable: they must be one message.
const KEPT_MAX: usize = 24 << 20;

impl Inner {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Does something, and returns the inode that it is about.
    pub(super) fn act(&self, deed: Deed, hold: Hold) -> Result<Option<(Ino, Attr)>, Error> {
        wait::before_waiting()?;
        self.make_way(&deed)?;
        self.make_room(deed.weight())?;
        wait::before_acting()?;
        let deed = Arc::new(deed);
        let number = self.begin(&deed)?;
        let who = self.who;
        let ask = |owner: &dyn Owner<_>| owner.act(who, number, &deed, hold);
        let note = |state: &mut State, ordered: &Result<Ordered, Error>| match ordered {
            Ok(ordered) => {
                if let Some(pending) = state.pending.get_mut(&number) {
                    pending.place = Some(Place {
                        behind: ordered.behind,
                    });
                }
                if let (Hold::Open, Some((ino, _))) = (hold, ordered.inode) {
                    state.opens.add_told(ino);
                }
            }
            // It is asked again.
            Err(Error::Refused(Refusal::Elsewhere { .. })) => {}
            Err(_) => state.forget(number),
        };
        let mut rests = Rests::begin(self);
        let ordered = loop {
            match self.ask_then(Callers::Stay, ask, note) {
                Err(Error::Refused(Refusal::Elsewhere { .. })) => {
                    // It has not happened: who asks may leave, and must not later.
                    if let Err(error) = rests.rest().and_then(|()| wait::before_acting()) {
                        self.state.lock().forget(number);
                        break Err(error);
                    }
                }
                ordered => break ordered,
            }
        };
        self.note_seen();
        self.answered.notify_all();
        Ok(ordered?.inode)
    }

    pub(super) fn op(&self, op: Op) -> Result<Option<(Ino, Attr)>, Error> {
        self.act(Deed::Op(op), Hold::No)
    }

    /// As `op`, of what answers with an inode.
    pub(super) fn op_of_inode(&self, op: Op) -> Result<(Ino, Attr), Error> {
        self.op(op)?.ok_or(Refusal::NotFound.into())
    }

    fn begin(&self, deed: &Arc<Deed>) -> Result<u64, Error> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            let oldest = state
                .pending
                .iter()
                .find(|(_, pending)| pending.place.is_none())
                .map(|(number, _)| *number);
            if oldest.is_none_or(|oldest| state.last < oldest + limits::ACT_SPAN_MAX) {
                break;
            }
            self.answered.wait(&mut state);
        }
        state.last += 1;
        let number = state.last;
        state.bytes += deed.weight();
        let is_first = state.pending.is_empty();
        let pending = Pending {
            deed: Arc::clone(deed),
            place: None,
            since: self.clock.elapsed(),
        };
        state.pending.insert(number, pending);
        drop(state);
        if is_first {
            self.waiting.changed();
        }
        Ok(number)
    }

    /// Makes what is kept durable, when it is much.
    fn make_room(&self, weight: usize) -> Result<(), Error> {
        if self.state.lock().bytes + weight > KEPT_MAX {
            self.sync_now()?;
        }
        Ok(())
    }

    /// Makes an inode: `op` gets its number.
    pub(super) fn make(&self, hold: Hold, op: impl Fn(Ino) -> Op) -> Result<Option<(Ino, Attr)>, Error> {
        wait::before_waiting()?;
        let ino = self.take_ino()?;
        self.act(Deed::Op(op(ino)), hold)
    }

    fn take_ino(&self) -> Result<Ino, Error> {
        loop {
            if let Some(ino) = self.state.lock().inos.take() {
                return Ok(ino);
            }
            let session = self.who.session;
            let lent = self.ask(Callers::MayLeave, |owner| owner.lend_inos(session))?;
            let mut state = self.state.lock();
            if state.inos.next == state.inos.end {
                state.inos = lent;
            }
        }
    }
}

impl super::State {
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(pending) = self.pending.remove(&number) {
            self.bytes -= pending.deed.weight();
        }
    }
}
