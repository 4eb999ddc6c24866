//! What a call becomes: a call of the owner, and its outcome an answer.
//!
//! Invariant: every call that was read is answered once, also when the owner forgets to or panics. Only an owner that has a newer
//! one answers nothing more: its connections end.

use super::guest::Guest;
use super::service::Host;
use super::visit::Visit;
use super::window::Slot;
use crate::message::{Answer, Ask, Call, Kind, Request, Response};
use crate::owner::{Error, Lent, Owner, Shared, Who};
use crate::shared::{Borrowed, Loan, Next, Seen, Sharer};
use crate::transport::outbox::Outgoing;
use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{Batch, DriveName, Failure, PackNumber, Refusal, limits};

/// How long a thread that loads waits for a client to take what was loaded: a live one takes it at once.
const LOAD_PATIENCE: Duration = Duration::from_millis(20);

/// Whom a connection speaks to.
pub(super) struct Spoken<B> {
    pub(super) host: Arc<dyn Host<B>>,
    /// The drive that it named, and its owner.
    pub(super) drive: Option<(DriveName, Arc<dyn Owner<B>>)>,
    /// Who speaks, where he has come by the network.
    pub(super) guest: Option<Arc<Guest>>,
}

impl<B> Spoken<B> {
    /// Returns who opens a session: what he says of himself, corrected.
    fn known(&self, who: Who) -> Who {
        let agent = self
            .guest
            .as_ref()
            .and_then(|guest| guest.agent().map(str::to_owned));
        Who {
            agent: agent.unwrap_or(who.agent),
            // Whoever comes by a stream is another process, whatever it says.
            hosted: false,
            ..who
        }
    }
}

/// A call that waits to be answered.
pub(super) struct Unanswered {
    visit: Arc<Visit>,
    number: u64,
    kind: Kind,
    slot: Option<Slot>,
    is_told: bool,
}

impl Unanswered {
    pub(super) fn new(visit: Arc<Visit>, number: u64, kind: Kind, slot: Slot) -> Self {
        Self {
            visit,
            number,
            kind,
            slot: Some(slot),
            is_told: false,
        }
    }

    fn tell(mut self, outcome: Result<Response<'static>, Error>) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Result<Response<'static>, Error>) {
        self.is_told = true;
        if let Err(Error::Failed(Failure::Fenced(why))) = &outcome {
            // Nobody here can answer for the drive any more: its client looks for who can, and asks there again.
            tracing::warn!("a connection is ended, because its drive has a newer owner: {why}");
            return self.visit.leave();
        }
        let slot = self.slot.take();
        let framed = self.framed(outcome, slot).or_else(|(broken, slot)| {
            let refusal = Refusal::Because(format!("the answer cannot be sent: {broken}"));
            self.framed(Err(refusal.into()), slot)
        });
        let patience = match self.kind {
            Kind::Page | Kind::Read | Kind::Sealed | Kind::Part | Kind::Contents => LOAD_PATIENCE,
            Kind::Open
            | Kind::Close
            | Kind::Renew
            | Kind::Lend
            | Kind::LendInos
            | Kind::GiveBack
            | Kind::Place
            | Kind::Secure
            | Kind::Ship
            | Kind::Order
            | Kind::Room
            | Kind::Fork
            | Kind::ForkFor
            | Kind::ForkStaged
            | Kind::Checkpoint
            | Kind::CheckpointFor
            | Kind::Rename
            | Kind::SetPlan
            | Kind::Plan
            | Kind::Usage
            | Kind::ReclaimRoom
            | Kind::Forgo
            | Kind::DeleteBranch
            | Kind::HaveShipped
            | Kind::Mark
            | Kind::Marks
            | Kind::Accept
            | Kind::Stand
            | Kind::Branches
            | Kind::Status
            | Kind::Fold
            | Kind::Check
            | Kind::Control
            | Kind::Act
            | Kind::Look
            | Kind::Hold
            | Kind::LetGo
            | Kind::Sync
            | Kind::Lock
            | Kind::Hear
            | Kind::Rejoin
            | Kind::Borrow
            | Kind::TakeBack
            | Kind::Prolong
            | Kind::LookAgain
            | Kind::Reclaim
            | Kind::Bring
            | Kind::Salvage
            | Kind::Take
            | Kind::Delegations
            | Kind::Diff
            | Kind::Undo
            | Kind::Merge
            | Kind::MergeUnsettled
            | Kind::Conflicts
            | Kind::Resolve
            | Kind::Restore => Duration::ZERO,
        };
        if let Ok(frame) = framed {
            self.visit.outbox.push(frame, patience);
        }
    }

    fn framed(
        &self,
        outcome: Result<Response<'static>, Error>,
        slot: Option<Slot>,
    ) -> Result<Outgoing, (crate::frame::Broken, Option<Slot>)> {
        let answer = Answer {
            number: self.number,
            outcome,
        };
        let head = answer.head();
        let tail = if let Ok(Response::Bytes(bytes)) = answer.outcome {
            bytes.into_owned()
        } else {
            Vec::new()
        };
        Outgoing::new(head, tail, slot)
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.is_told {
            self.send(Err(Failure::Unknown(
                "the owner did not say what came of it".into(),
            )
            .into()));
        }
    }
}

/// Does what a message asks, and answers it.
pub(super) fn answer<B>(spoken: &Spoken<B>, message: &[u8], unanswered: Unanswered) {
    let request = match Call::parse(message) {
        Ok(call) => call.request,
        Err(malformed) => {
            let refusal = Refusal::Because(format!("the call cannot be read: {malformed}"));
            return unanswered.tell(Err(refusal.into()));
        }
    };
    if let Request::Control { verb, arguments } = request {
        let said = match spoken.guest.as_ref().and_then(|guest| guest.drive()) {
            Some(drive) => Err(Refusal::Because(format!(
                "who has come to the drive {drive} may say nothing to the server itself"
            ))
            .into()),
            None => spoken.host.control(verb, arguments),
        };
        return unanswered.tell(said.map(|bytes| Response::Bytes(bytes.into())));
    }
    match &spoken.drive {
        Some((drive, owner)) => answer_about(spoken, drive, &**owner, request, unanswered),
        None => unanswered.tell(Err(Refusal::Because(
            "this connection was opened to no drive".into(),
        )
        .into())),
    }
}

fn answer_about<B>(
    spoken: &Spoken<B>,
    drive: &DriveName,
    owner: &dyn Owner<B>,
    request: Request<'_>,
    unanswered: Unanswered,
) {
    let visit = unanswered.visit.clone();
    let outcome = match request {
        Request::Ship(batch) => return ship(owner, batch, unanswered),
        Request::Order(batch) => owner.order(&batch).map(Response::Shipped),
        Request::Shared(who, ask) => return answer_sharer(owner, who, ask, unanswered),
        Request::Salvage(batch) => return salvage(owner, batch, unanswered),
        Request::Take { session, name } => owner.take(session, name).map(|()| Response::Done),
        Request::Delegations => owner.delegations().map(Response::Delegations),
        Request::Diff(ask) => owner.diff(&ask).map(Response::Differences),
        Request::Contents {
            name,
            ino,
            offset,
            len,
        } => owner
            .contents(name, ino, offset, len)
            .map(|bytes| Response::Bytes(bytes.into())),
        Request::Undo { who, branch, to } => {
            let undone = owner.undo(&spoken.known(who), &branch, to);
            undone.map(Response::Turned)
        }
        Request::Merge(who, ask) => owner.merge(&spoken.known(who), &ask).map(Response::Merged),
        Request::Conflicts { name, behind } => owner.conflicts(name, behind).map(Response::Standings),
        Request::Resolve(who, ask) => owner.resolve(&spoken.known(who), &ask).map(Response::Turned),
        Request::Restore(who, ask) => owner.restore(&spoken.known(who), &ask).map(Response::Turned),
        Request::Open(who) => {
            let opened = owner.open(&spoken.known(who));
            opened.map(|opened| {
                visit.come(drive, opened.session);
                Response::Opened(opened)
            })
        }
        Request::Close(session) => owner.close(session).map(|()| {
            visit.forget(drive, session);
            Response::Done
        }),
        Request::Renew(session) => owner.renew(session).map(|()| Response::Done),
        Request::Lend {
            session,
            name,
            access,
        } => owner
            .lend(session, name, access)
            .and_then(crossing)
            .map(Response::Lent),
        Request::LendInos(session) => owner.lend_inos(session).map(Response::Inos),
        Request::GiveBack { session, branch } => owner.give_back(session, branch).map(|()| Response::Done),
        Request::Place { session, chunks } => owner.place(session, &chunks).map(Response::Placed),
        Request::Secure { session, places } => owner.secure(session, &places).map(|()| Response::Done),
        Request::Page(at) => owner.page(at).map(|bytes| Response::Bytes(bytes.into())),
        Request::Read { at, start, len } => read(owner, at, start, len),
        Request::Sealed(pack) => owner.sealed(pack).map(Response::Sealed),
        Request::Part {
            pack,
            tag,
            offset,
            len,
        } => part(owner, (pack, tag), offset, len),
        Request::Room => owner.room().map(Response::Room),
        Request::Fork(ask) => {
            let mut ask = ask.into_owned();
            ask.staged = ask.staged.map(|who| spoken.known(who));
            owner.fork(&ask).map(Response::Created)
        }
        Request::Checkpoint(ask) => owner.checkpoint(&ask).map(Response::Created),
        Request::Rename { name, to } => owner.rename(name, &to).map(|()| Response::Done),
        Request::SetPlan(plan) => owner.set_plan(plan).map(|()| Response::Done),
        Request::Plan => owner.plan().map(Response::Plan),
        Request::Usage => owner.usage().map(Response::Usage),
        Request::Reclaim(ask) => owner.reclaim(ask).map(Response::Reclaimed),
        Request::Forgo { session, said } => owner.forgo(session, said).map(Response::Placings),
        Request::DeleteBranch(name) => owner.delete_branch(&name).map(|()| Response::Done),
        Request::Mark(who, branch, mark) => {
            let marked = owner.mark(&spoken.known(who), &branch, &mark);
            marked.map(|()| Response::Done)
        }
        Request::Marks => owner.marks().map(Response::Marks),
        Request::Accept(who, ask) => owner.accept(&spoken.known(who), &ask).map(Response::Merged),
        Request::HaveShipped(name) => owner.have_shipped(&name).map(|()| Response::Done),
        Request::Branches => owner.branches().map(Response::Branches),
        Request::Status => owner.status().map(Response::Status),
        Request::Fold => owner.fold().map(|()| Response::Done),
        Request::Check { deep } => owner.check(deep).map(Response::Findings),
        Request::Control { .. } => unreachable!("it has gone to the host"),
    };
    unanswered.tell(outcome);
}

fn answer_sharer<B>(owner: &dyn Owner<B>, who: Sharer, ask: Ask<'_>, mut unanswered: Unanswered) {
    let outcome = match ask {
        Ask::Hear => {
            // It waits for what may never come, and nobody waits for it.
            unanswered.slot = None;
            let told = move |told: Result<_, Error>| unanswered.tell(told.map(Response::Heard));
            return owner.hear(who, Box::new(told));
        }
        Ask::Act { number, deed, hold } => owner.act(who, number, &deed, hold).map(Response::Ordered),
        Ask::Look(look, asked) => owner.look(who, &look, asked).map(|seen| match seen {
            Seen::Bytes(bytes) => Response::Bytes(bytes.into()),
            seen @ (Seen::Inode(..) | Seen::Entries(_) | Seen::Offset(_) | Seen::Totals { .. }) => {
                Response::Seen(seen)
            }
        }),
        Ask::Hold(ino) => {
            let held = owner.hold(who, ino);
            held.map(|attr| Response::Seen(Seen::Inode(ino, attr)))
        }
        Ask::LetGo(inos) => owner.let_go(who, &inos).map(|()| Response::Done),
        Ask::Sync => owner.sync(who).map(|()| Response::Done),
        Ask::Lock(ask) => owner.lock(who, &ask).map(Response::Locked),
        Ask::Rejoin(brought) => owner.rejoin(who, &brought).map(|()| Response::Done),
        Ask::Borrow(ask) => owner
            .borrow(who, &ask)
            .and_then(borrowed_crossing)
            .map(Response::Borrowed),
        Ask::TakeBack(given) => owner.take_back(who, &given).map(|()| Response::Done),
        Ask::Prolong => owner.prolong(who).map(Response::Proven),
        Ask::Stand(stand) => owner
            .stand(who, &stand)
            .and_then(next_crossing)
            .map(Response::Next),
    };
    unanswered.tell(outcome);
}

fn ship<B>(owner: &dyn Owner<B>, batch: Batch, unanswered: Unanswered) {
    owner.ship(
        batch,
        None,
        Box::new(move |shipped| unanswered.tell(shipped.map(Response::Shipped))),
    );
}

fn salvage<B>(owner: &dyn Owner<B>, batch: Batch, unanswered: Unanswered) {
    owner.salvage(
        batch,
        None,
        Box::new(move |salvaged| unanswered.tell(salvaged.map(Response::Salvaged))),
    );
}

fn read<B>(
    owner: &dyn Owner<B>,
    at: tenure_model::Address,
    start: u32,
    len: u32,
) -> Result<Response<'static>, Error> {
    let len = len as usize;
    if len > limits::CHUNK_LEN_MAX {
        return Err(Refusal::InvalidArgument.into());
    }
    let mut bytes = vec![0; len];
    owner.read(at, start, &mut bytes)?;
    Ok(Response::Bytes(Cow::Owned(bytes)))
}

fn part<B>(
    owner: &dyn Owner<B>,
    (pack, tag): (PackNumber, [u8; 8]),
    offset: u64,
    len: u32,
) -> Result<Response<'static>, Error> {
    if len as usize > limits::PART_LEN_MAX {
        return Err(Refusal::InvalidArgument.into());
    }
    let bytes = owner.part(pack, tag, offset, len)?;
    Ok(Response::Bytes(Cow::Owned(bytes)))
}

/// Returns what was lent as it can be told another process.
fn crossing<B>(lent: Lent<B>) -> Result<Lent<Infallible>, Error> {
    let Lent {
        branch,
        hash_key,
        inos,
        state,
    } = lent;
    Ok(Lent {
        branch,
        hash_key,
        inos,
        state: state_crossing(state)?,
    })
}

/// As [`crossing`], of what is lent of a shared branch.
fn borrowed_crossing<B>(borrowed: Borrowed<B>) -> Result<Borrowed<Infallible>, Error> {
    Ok(match borrowed {
        Borrowed::No => Borrowed::No,
        Borrowed::Behind => Borrowed::Behind,
        Borrowed::Lent(loan) => {
            let crossing = |(version, state)| Ok::<_, Error>((version, state_crossing(state)?));
            Borrowed::Lent(Loan {
                number: loan.number,
                parts: loan.parts,
                copy: loan.copy.map(crossing).transpose()?,
                behind: loan.behind,
            })
        }
    })
}

fn next_crossing<B>(next: Next<B>) -> Result<Next<Infallible>, Error> {
    Ok(match next {
        Next::Stay => Next::Stay,
        Next::Tell => Next::Tell,
        Next::GoOn => Next::GoOn,
        Next::Became { behind, state } => Next::Became {
            behind,
            state: state_crossing(state)?,
        },
    })
}

fn state_crossing<B>(state: Shared<B>) -> Result<Shared<Infallible>, Error> {
    match state {
        Shared::Stored { root, inodes, bytes } => Ok(Shared::Stored { root, inodes, bytes }),
        Shared::Kept => Ok(Shared::Kept),
        Shared::Here(_) => {
            let why = "the owner lent a branch in its memory to another process";
            Err(Failure::Unknown(why.into()).into())
        }
    }
}
