//! Shipping: the log is cut into batches, and syncs are answered when their batch is durable.
//!
//! Invariant: one batch is on its way at a time; the next one carries everything that came meanwhile, so concurrent
//! syncs share a batch. A sync that is acknowledged covers every change that returned before the sync was asked. A batch
//! that the owner has accepted and cannot make durable yet, or whose outcome nobody told, is kept as it is and shipped again,
//! before any other.
//!
//! Where an owner or a store is behind a network, most of what fails heals by itself: who syncs waits then, and it is tried again, for
//! as long as a silent owner is waited for. On a disk of this machine he is told at once.
//!
//! The shipper does it, or the thread that asks where that is sooner: when nobody ships, little is to be shipped, and that
//! has been quick before. Whoever ships has said that changes are lost before another can find nothing to ship.

use crate::branch::{Branch, Inner, State, Threads};
use crate::kept::Kept;
use crate::log::Log;
use crate::retained::Retained;
use crate::wait;
use crate::wants::{InFlight, Scope, Turn, Waiter};
use std::sync::mpsc;
use std::time::Duration;
use tenure_model::{Batch, Digest, Failure, Ino, Op, Refusal};
use tenure_wire::shared::Sharer;
use tenure_wire::{Done, Error, Shipped};

/// Ops in bytes from which a batch is shipped without being asked.
pub(crate) const LOG_SHIP: usize = tenure_model::limits::BATCH_LEN_MAX / 4;
/// Ops in bytes, and batches, of which no more wait for an owner that takes none: a batch must stay one that it may take,
/// and memory has an end.
const LOG_MAX: usize = tenure_model::limits::BATCH_LEN_MAX / 2;
const CUTS_MAX: usize = 32;
/// Staged bytes that go along with any sync: they ride in the journal, and cost its one wait for the disk nothing.
pub(crate) const LITTLE: u64 = 32 << 10;
/// The longest that a sync may take on the thread that asks: where it takes longer, because the disk is slow or the thread
/// gets no processor, the way to the shipper and back is nothing.
const QUICK_MAX: Duration = Duration::from_millis(2);
/// How many of the next syncs are left to the shipper when one was not quick, at first and at most.
const LEFT_MIN: u32 = 16;
const LEFT_MAX: u32 = 4096;
/// How often in a lag the shipper looks whether something has waited for it.
const TICKS_PER_LAG: u32 = 10;
/// Times that names are chased whose bytes were staged meanwhile, before writers have to wait.
const CHASES_MAX: usize = 64;

/// What the shipper knows of the batches before.
pub(crate) struct Shipping {
    number: u64,
    previous: Digest,
    /// The batch that was accepted and is not durable yet.
    accepted: Option<Cut>,
    goal: Goal,
    haste: Haste,
}

/// Where batches go.
enum Goal {
    /// Into the branch.
    Branch,
    /// The branch is lost: into its stray, of whose name is heard with the first.
    Stray(Option<String>),
}

/// Whether the thread that asks for a sync does it.
struct Haste {
    /// How many of the next are left to the shipper.
    left: u32,
    /// How many will be when one is not quick: more when that happens again and again.
    next: u32,
}

/// What becomes a batch: the log, and the branch as it is with it.
pub(crate) type Cut = (Log, tenure_core::Branch);

/// What a cut covers.
enum Covers {
    /// The oldest of what waits.
    Some,
    /// Everything that was in the log.
    All,
}

impl State {
    /// Sets a long log aside as it is, so that no batch becomes longer than an owner takes: as soon as no name in it precedes
    /// its bytes.
    pub(crate) fn cut_long_log(&mut self) {
        let is_staged = |ino: &Ino| self.stage.file(*ino).is_some();
        if self.log.ops.len() >= LOG_SHIP && !self.log.named.iter().any(is_staged) {
            let log = std::mem::take(&mut self.log);
            self.cuts.push_back((log, self.branch.clone()));
        }
    }

    /// Tells whether nothing waits to be shipped, but for what may be on its way.
    pub(crate) fn has_shipped(&self) -> bool {
        self.log.is_empty() && self.cuts.is_empty() && self.stage.bytes() == 0
    }

    /// Tells whether all that is not durable here is so little that it costs the disk no more than one wait.
    fn is_little(&self) -> bool {
        let chunks = self.log.chunks.iter().map(|chunk| u64::from(chunk.len));
        let logged = self.log.ops.len() as u64 + chunks.sum::<u64>();
        self.cuts.is_empty() && self.stage.bytes() + logged <= LITTLE
    }

    /// Fails when so much waits for the owner that nothing can be added to it.
    pub(crate) fn check_room(&self, op: &Op) -> Result<(), Error> {
        // What is staged was accepted before, and a name may be waiting for it.
        let is_settled = matches!(op, Op::Write { .. });
        if is_settled || (self.log.ops.len() < LOG_MAX && self.cuts.len() < CUTS_MAX) {
            return Ok(());
        }
        Err(Failure::DidNotHappen("too many changes wait for the bucket".into()).into())
    }
}

impl Shipping {
    /// Returns what is known before the first batch under a grant.
    pub(crate) fn begin(chain_start: Digest) -> Self {
        Shipping {
            number: 0,
            previous: chain_start,
            accepted: None,
            goal: Goal::Branch,
            haste: Haste {
                left: 0,
                next: LEFT_MIN,
            },
        }
    }

    /// Begins behind what the owner names, before the first batch.
    pub(crate) fn begin_behind(&mut self, start: Digest) {
        debug_assert_eq!(self.number, 0, "nothing was shipped");
        self.previous = start;
    }

    /// Goes on behind what the owner names, because the branch has become another state under this session.
    pub(crate) fn go_on_behind(&mut self, behind: Digest) {
        self.previous = behind;
    }

    /// Returns number and digest of the last batch.
    pub(crate) fn behind(&self) -> (u64, Digest) {
        (self.number, self.previous)
    }

    /// Tells whether no batch waits to become durable.
    pub(crate) fn has_all(&self) -> bool {
        self.accepted.is_none()
    }

    /// Has all batches from here on go into the stray.
    pub(crate) fn begin_salvage(&mut self) {
        if matches!(self.goal, Goal::Branch) {
            self.goal = Goal::Stray(None);
        }
    }

    /// Notes the name of the stray.
    pub(crate) fn note_stray(&mut self, name: String) {
        self.goal = Goal::Stray(Some(name));
    }

    /// Returns the name of the stray, where anything went into one.
    pub(crate) fn stray(&self) -> Option<&String> {
        match &self.goal {
            Goal::Branch => None,
            Goal::Stray(name) => name.as_ref(),
        }
    }
}

impl Haste {
    /// Tells whether the next sync is left to the shipper.
    fn leaves(&mut self) -> bool {
        let leaves = self.left > 0;
        self.left = self.left.saturating_sub(1);
        leaves
    }

    /// Hears how long one took on the thread that asked.
    fn note(&mut self, took: Duration) {
        if took > QUICK_MAX {
            self.left = self.next;
            self.next = (self.next * 2).min(LEFT_MAX);
        } else {
            self.next = (self.next - 1).max(LEFT_MIN);
        }
    }
}

impl Branch {
    /// Makes a file durable, with all names and attributes of the branch, and every file if it is the root; `done` is called once it is.
    pub fn sync(&self, ino: Ino, done: Done<()>) {
        self.ask(Scope::of(ino), done);
    }

    /// As `sync`, for a thread that serves others and may be gone for as long as a quick disk takes: the file is durable
    /// when this returns, unless it waits for other threads.
    pub fn sync_here(&self, ino: Ino, done: Done<()>) {
        match wait::without_waiting(|| self.inner.sync_little()) {
            Some(synced) => done(synced),
            None => self.sync(ino, done),
        }
    }

    /// Makes the whole branch durable.
    pub fn sync_all(&self) -> Result<(), Error> {
        let (send, receive) = mpsc::sync_channel(1);
        self.sync_all_then(Box::new(move |synced| drop(send.send(synced))));
        receive
            .recv()
            .unwrap_or_else(|_| Err(Failure::Unknown("the shipper has ended".into()).into()))
    }

    /// Makes the whole branch durable; `done` is called once it is.
    pub fn sync_all_then(&self, done: Done<()>) {
        self.ask(Scope::All, done);
    }

    /// Does what is due by the clock, where no thread does it: settles a full stage, ships what has waited for the lag, says
    /// that somebody is there.
    pub fn step(&self) {
        let inner = &self.inner;
        if inner.is_elsewhere {
            inner.renew();
        }
        if inner.is_stage_due() || inner.is_lag_over(Duration::ZERO) {
            inner.serve(Vec::new());
        }
    }

    fn ask(&self, scope: Scope, done: Done<()>) {
        if self.broken() == Some(Error::Refused(Refusal::ReadOnly)) {
            // What cannot be changed is durable.
            return done(Ok(()));
        }
        let until = self.inner.clock.elapsed() + self.inner.options.sync_patience;
        let waiter = Waiter { scope, until, done };
        match self.inner.options.threads {
            Threads::Started => self.inner.waiting.ask(waiter),
            Threads::None => self.inner.serve(vec![waiter]),
        }
    }
}

impl Inner {
    /// The shipper's loop.
    pub(crate) fn run_shipper(&self) {
        let tick = self.tick();
        loop {
            match self.waiting.turn(tick) {
                Turn::Ship(waiters) => {
                    self.serve(waiters);
                    self.save();
                }
                Turn::Look if self.is_lost() => self.save(),
                Turn::Look => {
                    if self.is_lag_over(tick) {
                        if self.is_much_staged() {
                            self.waiting.settle();
                        } else {
                            self.serve(Vec::new());
                        }
                    }
                    let has_ended = !self.ended.is_empty();
                    if has_ended && self.ended.rests() {
                        self.waiting.settle();
                    }
                    if has_ended || self.waits_for().is_some() {
                        self.waiting.changed();
                    } else if self.state.write().frays.fall_due(0) {
                        // Nobody writes any more: what was written is put in shape.
                        self.waiting.settle();
                    }
                }
                Turn::End => return,
            }
        }
    }

    /// Returns how often it is looked whether something has waited.
    pub(crate) fn tick(&self) -> Duration {
        self.options.lag_max / TICKS_PER_LAG
    }

    /// Ships what the waiters want, and tells them.
    fn serve(&self, waiters: Vec<Waiter>) {
        let synced = self
            .check_broken()
            .and_then(|()| self.settle_for(&waiters))
            .inspect_err(|error| self.note_failure(error))
            .and_then(|()| self.ship(&mut self.shipping.lock()))
            .and_then(|()| self.settle_kept());
        let over = match &synced {
            Err(error) if self.may_heal(error) => self.waiting.wait_on(waiters, self.clock.elapsed()),
            Ok(()) | Err(_) => waiters,
        };
        for waiter in over {
            (waiter.done)(synced.clone());
        }
        if self.options.threads == Threads::None {
            match synced {
                Ok(()) => self.ship_merged(),
                Err(_) => self.save(),
            }
        }
    }

    /// Makes everything durable on the calling thread, where that is little and waits for nobody else.
    fn sync_little(&self) -> Option<Result<(), Error>> {
        let mut shipping = self.shipping.try_lock()?;
        let is_here = !self.is_far() && shipping.accepted.is_none();
        if !is_here || !self.waiting.is_idle() || !self.state.read().is_little() || shipping.haste.leaves() {
            return None;
        }
        let began = self.clock.elapsed();
        let settled = self.settle_all().inspect_err(|error| self.note_failure(error));
        let synced = settled.and_then(|()| self.ship(&mut shipping));
        shipping.haste.note(self.clock.elapsed().saturating_sub(began));
        (!wait::would_have_waited()).then_some(synced)
    }

    /// Merges what is due and ships it, where no thread does it.
    fn ship_merged(&self) {
        if self.merge() {
            // A failure is noted, and concerns nobody who waits: what they asked for is durable.
            drop(self.ship(&mut self.shipping.lock()));
        }
    }

    /// Settles what the waiters want durable, and everything where it is little: the less a crash takes from files whose names it
    /// leaves, the better. What has waited for the lag is the settler's, where there is one: nobody who syncs a file waits for what
    /// was written to others.
    fn settle_for(&self, waiters: &[Waiter]) -> Result<(), Error> {
        let asks = |is_asked: fn(&Scope) -> bool| waiters.iter().any(|waiter| is_asked(&waiter.scope));
        let has_asked_all = asks(|scope| matches!(scope, Scope::Files | Scope::All));
        if asks(|scope| matches!(scope, Scope::All)) {
            // What is forked or named next holds nothing that was removed before.
            self.drop_ended();
        }
        let (is_due, is_alone) = (
            self.is_lag_over(Duration::ZERO),
            self.options.threads == Threads::None,
        );
        if has_asked_all || !self.is_much_staged() || is_alone && (is_due || waiters.is_empty()) {
            return self.settle_all();
        }
        if is_due {
            self.waiting.settle();
        }
        waiters.iter().try_for_each(|waiter| match waiter.scope {
            Scope::File(ino) => self.settle(ino),
            Scope::Files | Scope::All => Ok(()),
        })
    }

    /// Fails when this branch accepts nothing more: what it had not shipped then is lost, and never durable.
    fn check_broken(&self) -> Result<(), Error> {
        match &self.state.read().broken {
            None | Some(Error::Refused(Refusal::ReadOnly)) => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    pub(crate) fn ship(&self, shipping: &mut Shipping) -> Result<(), Error> {
        // What is missing from the log is durable or lost.
        self.check_broken()?;
        let shipped = self.ship_cuts(shipping);
        match &shipped {
            Ok(()) => self.waiting.set_shipped(),
            Err(error) => self.note_failure(error),
        }
        shipped
    }

    /// Shows others what was done here on what is lent: it is in the order of all, and becomes durable within the lag.
    pub(crate) fn show(&self) -> Result<(), Error> {
        self.check_broken()?;
        self.settle_all().inspect_err(|error| self.note_failure(error))?;
        self.ship(&mut self.shipping.lock())?;
        match self.kept.as_ref().is_some_and(Kept::is_much) {
            // The shipper makes some of it durable, before somebody has to wait for that.
            true => self.waiting.hurry(),
            false => self.waiting.changed(),
        }
        Ok(())
    }

    /// Makes durable what is in order only. Others may be shown more meanwhile.
    fn settle_kept(&self) -> Result<(), Error> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        let Some(last) = kept.last_ordered() else {
            // Of what is in a stray nobody is told that it is durable.
            return self.check_broken();
        };
        let who = Sharer {
            session: self.opened.session,
            branch: self.id.ok_or(Refusal::ReadOnly)?,
        };
        let synced = self.once_joined(|| self.owner.sync(who));
        synced.inspect_err(|error| self.note_failure(error))?;
        let chunks = kept.settle(last);
        if let Some(retained) = &self.retained {
            retained.forget(&chunks);
            retained.end_round();
        }
        Ok(())
    }

    /// Asks an owner; one that is new to the session is brought what it must know before.
    fn once_joined<R>(&self, mut ask: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        let answered = ask();
        let (Err(Error::Refused(Refusal::Unjoined)), Some(rejoin)) = (&answered, self.rejoins.get()) else {
            return answered;
        };
        rejoin()?;
        match ask() {
            Err(Error::Refused(Refusal::Unjoined)) => {
                // It was not reached, or is another one again.
                let why = "the owner has not heard yet what this session brings; try again";
                Err(Failure::DidNotHappen(why.into()).into())
            }
            answered => answered,
        }
    }

    /// Ships what is in the log, and before that what was cut off it.
    pub(crate) fn ship_cuts(&self, shipping: &mut Shipping) -> Result<(), Error> {
        if let Some(accepted) = shipping.accepted.take() {
            let shipped = self.ship_cut(shipping, &accepted);
            shipping.accepted = shipped.is_err().then_some(accepted);
            shipped?;
            self.waiting.set_in_flight(InFlight::default());
        }
        while let Some((cut, covers)) = self.cut()? {
            let shipped = self.ship_cut(shipping, &cut);
            match &shipped {
                Err(error) if self.may_be_accepted(error) => {
                    shipping.accepted = Some(cut);
                    return shipped;
                }
                // It is tried again; or the branch breaks, and says for as long as it is there how much was lost with it.
                Err(_) => self.state.write().cuts.push_front(cut),
                Ok(()) => {}
            }
            self.waiting.set_in_flight(InFlight::default());
            shipped?;
            if matches!(covers, Covers::All) {
                if self.kept.is_none() {
                    self.retained.iter().for_each(Retained::end_round);
                }
                break;
            }
        }
        Ok(())
    }

    fn ship_cut(&self, shipping: &mut Shipping, (log, after): &Cut) -> Result<(), Error> {
        let branch = self.id.ok_or(Refusal::ReadOnly)?;
        let batch = |shipping: &Shipping| Batch {
            session: self.opened.session,
            branch,
            epoch: self.opened.epoch,
            number: shipping.number + 1,
            previous: shipping.previous,
            chunks: log.chunks.clone(),
            ops: log.ops.clone(),
        };
        self.waiting.set_in_flight(InFlight {
            ops: log.count,
            contents: log.contents,
            since: log.oldest(),
        });
        let batch = batch(shipping);
        if let Some(kept) = &self.kept {
            if !kept.has_room() {
                self.settle_kept()?;
            }
            kept.keep(&batch);
        }
        let Shipped { digest } = self.once_joined(|| self.ship_batch(shipping, batch.clone(), after))?;
        shipping.number += 1;
        shipping.previous = digest;
        match (&self.kept, &shipping.goal) {
            (Some(kept), Goal::Branch) => kept.note_ordered(shipping.number, log),
            (Some(kept), Goal::Stray(_)) => drop(kept.settle(shipping.number)),
            (None, _) => {
                self.witness.shipped(log.count, log.contents);
                if let Some(retained) = &self.retained {
                    retained.forget(&log.chunks);
                }
            }
        }
        Ok(())
    }

    /// Ships a batch; once more with the bytes of its chunks where an owner that has ended had them in memory alone.
    fn ship_batch(
        &self,
        shipping: &mut Shipping,
        batch: Batch,
        after: &tenure_core::Branch,
    ) -> Result<Shipped, Error> {
        let mut ship_once = |batch| match shipping.goal {
            Goal::Branch if self.kept.is_some() => self.owner.order(&batch),
            Goal::Branch => self.ship_once(batch, after),
            Goal::Stray(_) => self.salvage_once(shipping, batch, Some(after.clone())),
        };
        let Some(retained) = &self.retained else {
            return ship_once(batch);
        };
        let shipped = ship_once(batch.clone());
        let is_lost = matches!(&shipped, Err(Error::Refused(Refusal::NoChunk { .. })));
        match retained.carried(&batch.chunks).filter(|_| is_lost) {
            Some(chunks) => ship_once(Batch { chunks, ..batch }),
            None => shipped,
        }
    }

    fn ship_once(&self, batch: Batch, after: &tenure_core::Branch) -> Result<Shipped, Error> {
        let (send, receive) = mpsc::sync_channel(1);
        let told = Box::new(move |shipped| drop(send.send(shipped)));
        self.owner.ship(batch, Some(after.clone()), told);
        receive
            .recv()
            .unwrap_or_else(|_| Err(Failure::Unknown("the owner has ended".into()).into()))
    }

    /// Takes the oldest cut; without any, the log and the branch as it is with it, once no name in it precedes its bytes.
    fn cut(&self) -> Result<Option<(Cut, Covers)>, Error> {
        for chase in 0.. {
            let mut state = self.state.write();
            if let Some(cut) = state.cuts.pop_front() {
                return Ok(Some((cut, Covers::Some)));
            }
            let staged = |ino: &Ino| state.stage.file(*ino).is_some();
            let behind: Vec<_> = state.log.named.iter().copied().filter(staged).collect();
            if behind.is_empty() || chase == CHASES_MAX {
                if state.log.is_empty() {
                    return Ok(None);
                }
                let log = std::mem::take(&mut state.log);
                return Ok(Some(((log, state.branch.clone()), Covers::All)));
            }
            drop(state);
            self.settle_named(behind)?;
        }
        unreachable!("the chases are counted")
    }

    /// Tells whether a batch is in the owner's order, or may be: an owner elsewhere knows it again when it comes back, or the
    /// next owner does.
    pub(crate) fn may_be_accepted(&self, error: &Error) -> bool {
        match error {
            Error::Failed(Failure::Waits(_)) => true,
            Error::Failed(Failure::Unknown(_)) => self.is_elsewhere,
            Error::Failed(_) | Error::Refused(_) => false,
        }
    }

    /// Tells whether what failed is worth waiting for: nobody here has to do anything before it works again. No space is none
    /// until somebody makes some.
    fn may_heal(&self, error: &Error) -> bool {
        let is_full = matches!(
            error,
            Error::Refused(Refusal::NoSpace) | Error::Failed(Failure::NoSpace(_))
        );
        let is_kept = is_not_done(error) || self.may_be_accepted(error);
        self.is_far() && self.options.threads == Threads::Started && is_kept && !is_full
    }

    fn note_failure(&self, error: &Error) {
        if wait::would_have_waited() {
            // Another thread will do it.
            return;
        }
        match error {
            error if is_not_done(error) || self.may_be_accepted(error) => {
                // They are tried again with the next look, or when somebody syncs.
                if self.waiting.set_fails(error.clone()) {
                    tracing::warn!(%error, "changes wait for the bucket");
                }
                self.waiting.changed();
            }
            error => self.break_down(error.clone()),
        }
    }
}

/// Tells whether a failed call certainly changed nothing, so that it may be made again.
pub(crate) fn is_not_done(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused(Refusal::NoSpace) | Error::Failed(Failure::NoSpace(_) | Failure::DidNotHappen(_))
    )
}
