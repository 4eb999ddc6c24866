//! Shipping: a holder's batch is looked at, ordered, and made durable, its chunks first.
//!
//! A session that shares a branch ships what is lent to it in the same way (`crate::shared`). Invariant: a batch is accepted whole or
//! not at all, only from the holder, only right behind the last one, and only when its chunks are durable or ride in the journal
//! with it.

use crate::drive::Inner;
use crate::order::Room;
use crate::place::{Load, NUMBER_BITS};
use crate::session::epoch_of;
use crate::shared::Decided;
use crate::state::permit::because;
use crate::state::{After, Open, Session, State, batch_digest};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenure_core::Branch;
use tenure_journal::Journal;
use tenure_model::codec::Codec;
use tenure_model::{
    Batch, BranchId, ChunkPlace, Digest, Epoch, Failure, Op, PackNumber, Record, Refusal, Seq, SessionId,
    limits,
};
use tenure_wire::{Chunk, Done, Error, Placed, Salvaged, Shipped};

/// Bytes of chunks that ride in the journal when a batch comes before they are durable: above it, waiting for the pack
/// costs less than writing them twice.
const INLINE_CHUNKS_MAX: u64 = 64 << 10;

/// Bytes of a batch's record up to which it may take the last of the journal's room, when it brings no contents.
const SMALL_LEN_MAX: usize = 64 << 10;

/// Where a batch is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// Into the branch that its session holds.
    Branch,
    /// Into the stray of a session that is over.
    Stray,
}

/// What is to be done with a batch.
enum Turn {
    /// It follows the last one: look at it and order it.
    Next(Session, Open),
    /// It was accepted before, as one of the latest: its holder has not heard so.
    Again,
}

/// A batch that may be ordered.
struct Prepared {
    aim: Aim,
    batch: Batch,
    digest: Digest,
    bytes: Vec<u8>,
    after: Prospect,
    /// The packs that it names.
    names: BTreeSet<PackNumber>,
}

/// What a batch makes of its branch.
enum Prospect {
    /// The branch is this then: nobody else changes it.
    Whole(Branch),
    /// It was decided on a state that others may have changed since.
    Part(Decided),
}

impl Inner {
    pub(crate) fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let hosted = self.with(|live| Ok(live.present(session)?.hosted))?;
        if chunks
            .iter()
            .any(|chunk| self.filling.should_learn(chunk.bytes.len()))
        {
            self.work_on_known();
        }
        for chunk in chunks {
            if chunk.bytes.is_empty() || chunk.bytes.len() > limits::CHUNK_LEN_MAX {
                return Err(Refusal::InvalidArgument.into());
            }
            if !hosted && Digest::of(chunk.bytes) != chunk.digest {
                return Err(Refusal::Because("a chunk's digest is not that of its bytes".into()).into());
            }
        }
        let placed = self.place_claimed(chunks, |places| self.holds.claim(session, places));
        let (places, any_filled, ()) =
            placed.map_err(|failure| self.health.before_anything(failure.into()))?;
        if !hosted {
            self.filling
                .hand_over(&places)
                .map_err(|failure| self.health.before_anything(failure.into()))?;
        }
        if any_filled {
            self.work_on_full_packs();
        }
        Ok(places)
    }

    /// Gives chunks their places, and claims those: again where a pack was given up in which one was found.
    pub(crate) fn place_claimed<R>(
        &self,
        chunks: &[Chunk<'_>],
        claim: impl Fn(&[ChunkPlace]) -> Result<R, BTreeSet<PackNumber>>,
    ) -> Result<(Vec<Placed>, bool, R), Failure> {
        let load = Load::of(chunks.iter().map(|chunk| chunk.bytes.len()).sum());
        let mut any_filled = false;
        loop {
            let mut places = Vec::with_capacity(chunks.len());
            for chunk in chunks {
                let (place, filled) = self.filling.place(chunk.digest, chunk.bytes, load)?;
                any_filled |= filled;
                places.push(place);
            }
            match claim(&places) {
                Ok(claim) => return Ok((places, any_filled, claim)),
                Err(shut) => self.filling.forget(&shut),
            }
        }
    }

    /// Makes chunks durable that have their places. Those that were lost with an earlier owner are refused: they have none any more.
    pub(crate) fn secure(&self, session: SessionId, places: &[ChunkPlace]) -> Result<(), Error> {
        self.with(|live| live.present(session).map(drop))?;
        for place in places.iter().filter(|place| self.is_of_earlier(place.at.pack)) {
            self.packs
                .find(place.at)?
                .ok_or(Refusal::NoChunk { at: place.at })?;
        }
        let flushed = self.filling.flush(places.iter());
        flushed.map_err(|failure| self.health.before_anything(failure.into()))
    }

    pub(crate) fn ship(&self, batch: Batch, after: Option<Branch>, done: Done<Shipped>) {
        let digest = batch_digest(&batch);
        let done: Done<()> = Box::new(move |durable| done(durable.map(|()| Shipped { digest })));
        self.take_in(Aim::Branch, (batch, digest), after, done);
    }

    /// Accepts a batch of a session that shares its branch: it is durable with the next sync.
    pub(crate) fn order_of_sharer(&self, batch: &Batch) -> Result<Shipped, Error> {
        if !self.is_of_sharer(batch)? {
            return Err(Refusal::Stale.into());
        }
        let digest = self.order_part(batch)?;
        self.drop_adrift(batch.branch)?;
        self.work_after_batch();
        Ok(Shipped { digest })
    }

    /// Puts a batch of a session that shares its branch in the order of all, or finds it there.
    pub(crate) fn order_part(&self, batch: &Batch) -> Result<Digest, Error> {
        let digest = batch_digest(batch);
        if let Turn::Next(session, open) = self.turn_of(Aim::Branch, batch, digest)? {
            let prepared = self.prepare_part((batch.clone(), digest), (&session, open));
            let prepared = prepared.map_err(|error| self.end_refused(batch, error))?;
            self.enqueue_batch(prepared, Box::new(drop))?;
        }
        Ok(digest)
    }

    /// Takes what a session that is over had not shipped, into its stray.
    pub(crate) fn salvage(&self, batch: Batch, after: Option<Branch>, done: Done<Salvaged>) {
        let stray = match self.change(|| self.stray_for(&batch)) {
            Ok(stray) => stray,
            Err(error) => return done(Err(error)),
        };
        let digest = batch_digest(&batch);
        let done: Done<()> = Box::new(move |durable| done(durable.map(|()| Salvaged { digest, stray })));
        self.take_in(Aim::Stray, (batch, digest), after, done);
    }

    fn take_in(&self, aim: Aim, (batch, digest): (Batch, Digest), after: Option<Branch>, done: Done<()>) {
        let prepared = self.change(|| {
            // What a session brings comes before what it ships: else that would follow on nothing.
            let is_part = aim == Aim::Branch && self.is_of_sharer(&batch)?;
            match self.turn_of(aim, &batch, digest)? {
                Turn::Next(session, open) if is_part => {
                    let prepared = self.prepare_part((batch.clone(), digest), (&session, open));
                    prepared
                        .map(Some)
                        .map_err(|error| self.end_refused(&batch, error))
                }
                Turn::Next(session, open) => self
                    .prepare(aim, (batch, digest), after, (&session, open.branch))
                    .map(Some),
                Turn::Again => Ok(None),
            }
        });
        match prepared {
            Ok(Some(prepared)) => self.order_batch(prepared, done),
            Ok(None) => done(self.settle_all()),
            Err(error) => done(Err(self.health.before_anything(error))),
        }
    }

    fn turn_of(&self, aim: Aim, batch: &Batch, digest: Digest) -> Result<Turn, Error> {
        self.with(|live| {
            let session = match aim {
                Aim::Branch => live.known(batch.session)?,
                Aim::Stray => live.lost(batch.session)?,
            };
            if live.state.was_accepted(batch, digest) {
                return Ok(Turn::Again);
            }
            let line = self.may_ship(aim, &live.state, batch)?;
            let open = live.state.opened(line).ok_or(Refusal::Stale)?;
            Ok(Turn::Next(session, open))
        })
    }

    /// Does all that needs no place in the order: decides the ops, and sees to the chunks.
    fn prepare(
        &self,
        aim: Aim,
        (batch, digest): (Batch, Digest),
        after: Option<Branch>,
        (session, before): (&Session, Branch),
    ) -> Result<Prepared, Error> {
        self.receive(&batch, session)?;
        let (after, names) = match after.filter(|_| session.hosted) {
            Some(after) => (after, BTreeSet::new()),
            None => self.decide_batch(before, &batch, session, |_, _| Ok(()))?,
        };
        self.secured(aim, (batch, digest), (Prospect::Whole(after), names))
    }

    /// As `prepare`, of a session that shares the branch: others may change it until the batch is ordered.
    fn prepare_part(
        &self,
        (batch, digest): (Batch, Digest),
        (session, before): (&Session, Open),
    ) -> Result<Prepared, Error> {
        self.receive(&batch, session)?;
        let mut touched = Vec::new();
        let note = |branch: &Branch, op: &Op| {
            if matches!(op, Op::Drop { .. }) {
                return Err(because("who shares a branch drops nothing").into());
            }
            touched.push(self.loader.ask(|| branch.touched(op))?);
            Ok(())
        };
        let (after, names) = self.decide_batch(before.branch, &batch, session, note)?;
        let decided = Decided {
            version: before.version,
            after,
            touched,
        };
        self.secured(Aim::Branch, (batch, digest), (Prospect::Part(decided), names))
    }

    fn receive(&self, batch: &Batch, session: &Session) -> Result<(), Error> {
        if batch.ops.len() > limits::BATCH_LEN_MAX {
            return Err(Refusal::TooLarge.into());
        }
        if !session.hosted {
            self.restore_chunks(&batch.chunks)?;
        }
        Ok(())
    }

    fn secured(
        &self,
        aim: Aim,
        (mut batch, digest): (Batch, Digest),
        (after, mut names): (Prospect, BTreeSet<PackNumber>),
    ) -> Result<Prepared, Error> {
        names.extend(batch.chunks.iter().map(|chunk| chunk.at.pack));
        self.secure_chunks(&mut batch.chunks)?;
        let record = Record::Batch(batch);
        let bytes = record.written();
        let Record::Batch(batch) = record else {
            unreachable!("it was made one just now")
        };
        Ok(Prepared {
            aim,
            batch,
            digest,
            bytes,
            after,
            names,
        })
    }

    /// Returns the line into which a batch goes, if it may go where it is to.
    fn may_ship(&self, aim: Aim, state: &State, batch: &Batch) -> Result<BranchId, Error> {
        // A holder that outlived an owner ships again what it knows not to be durable, as it was then.
        if !(epoch_of(batch.session)..=self.epoch).contains(&batch.epoch) {
            return Err(Refusal::Stale.into());
        }
        state.permits_batch(batch)?;
        let (line, _) = state.granted(batch).ok_or(Refusal::Stale)?;
        // The branch may have been taken just now: what goes into its stray is told nobody as if it were in the branch.
        if aim == Aim::Branch && line != batch.branch {
            return Err(Refusal::Stale.into());
        }
        Ok(line)
    }

    /// Puts back what an earlier owner had in memory alone when it ended, where the session has sent the bytes along. It is durable
    /// before the batch is ordered.
    fn restore_chunks(&self, chunks: &[ChunkPlace]) -> Result<(), Error> {
        let mut lost: BTreeMap<PackNumber, Vec<ChunkPlace>> = BTreeMap::new();
        let is_of_earlier = |chunk: &&ChunkPlace| chunk.inline.is_some() && self.is_of_earlier(chunk.at.pack);
        for chunk in chunks.iter().filter(is_of_earlier) {
            if self.packs.find(chunk.at)?.is_none() {
                lost.entry(chunk.at.pack).or_default().push(chunk.clone());
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let _alone = self.restoring.lock();
        for (pack, places) in lost {
            if self.holds.is_shut(pack) {
                return Err(Refusal::NoChunk { at: places[0].at }.into());
            }
            self.packs.restore(pack, &places)?;
        }
        Ok(())
    }

    /// Tells whether a pack was filled in the memory of an earlier owner.
    pub(crate) fn is_of_earlier(&self, pack: PackNumber) -> bool {
        let epoch = Epoch(pack.0 >> NUMBER_BITS);
        self.filling.is_held() && epoch > Epoch(0) && epoch < self.epoch
    }

    /// Sees to it that chunks are durable: few bytes ride in the journal, more are waited for.
    fn secure_chunks(&self, chunks: &mut [ChunkPlace]) -> Result<(), Error> {
        for chunk in chunks.iter_mut() {
            chunk.inline = None;
        }
        let mut undurable = self.filling.undurable(chunks);
        let len: u64 = undurable.iter().map(|chunk| u64::from(chunk.len)).sum();
        let inline_max = if self.filling.is_held() {
            limits::RIDING_LEN_MAX
        } else {
            INLINE_CHUNKS_MAX
        };
        if len > inline_max {
            return Ok(self.filling.flush(undurable.iter().map(|chunk| &**chunk))?);
        }
        for chunk in &mut undurable {
            chunk.inline = Some(self.packs.read(chunk.at)?.into());
        }
        Ok(())
    }

    /// Puts a batch in order, and makes it durable.
    fn order_batch(&self, prepared: Prepared, done: Done<()>) {
        // It is told by the journal when the batch is durable, or here when that must wait.
        let done = Arc::new(Mutex::new(Some(done)));
        let tell =
            move |told: Result<(), Error>| done.lock().take().into_iter().for_each(|done| done(told.clone()));
        let part_of = matches!(prepared.after, Prospect::Part(_)).then_some(prepared.batch.branch);
        match self.enqueue_batch(prepared, Box::new(tell.clone())) {
            Ok((journal, seq)) => {
                if let Err(error) = self.commit_through(&journal, seq) {
                    tell(Err(error));
                }
                if let Some(Err(error)) = part_of.map(|branch| self.drop_adrift(branch)) {
                    tracing::debug!(%error, "what is adrift is dropped with the next");
                }
                self.work_after_batch();
            }
            Err(error) => tell(self.proven(Err(error))),
        }
    }

    /// Puts a batch into the state and the journal's queue; `told` hears when it is durable.
    fn enqueue_batch(&self, prepared: Prepared, told: Done<()>) -> Result<(Arc<Journal>, Seq), Error> {
        let found = self.room_for(&prepared);
        let (journal, room) = found.map_err(|error| self.health.before_anything(error))?;
        let Prepared {
            aim,
            batch,
            digest,
            bytes,
            after,
            names,
        } = prepared;
        let mut unordered = Some((bytes, told));
        let ordered = self.in_order(|live| {
            self.may_ship(aim, &live.state, &batch)?;
            self.holds.name(&names).map_err(|pack| given_up(&batch, pack))?;
            let (after, lasting) = match &after {
                Prospect::Whole(after) => (after.clone(), None),
                Prospect::Part(decided) => {
                    let (after, lasting) = self.settle_decided(live, &batch, decided)?;
                    (after, Some(lasting))
                }
            };
            let (bytes, told) = unordered.take().expect("nothing is missing any more");
            let seq = self
                .enqueue(live, (bytes, room), told)
                .map_err(|(error, _)| error)?;
            live.state.adopt(&batch, digest, After::Branch(after));
            if let Some(lasting) = lasting {
                self.note_shipped(live, &batch, lasting);
            }
            Ok(seq)
        });
        match ordered {
            Ok(seq) => Ok((journal, seq)),
            Err(error) if matches!(after, Prospect::Part(_)) => Err(self.end_refused(&batch, error)),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that a batch has room in the journal.
    fn room_for(&self, prepared: &Prepared) -> Result<(Arc<Journal>, Room), Error> {
        let journal = self.with(|live| live.journal().cloned())?;
        // On a full disk, files can still be removed.
        if prepared.batch.chunks.is_empty() && prepared.bytes.len() <= SMALL_LEN_MAX {
            return Ok((journal, Room::Last));
        }
        journal.reserve(prepared.bytes.len())?;
        Ok((journal, Room::Usual))
    }

    /// Returns when everything that was accepted is durable.
    pub(crate) fn settle_all(&self) -> Result<(), Error> {
        let journal = self.with(|live| live.journal().cloned())?;
        self.commit_through(&journal, journal.last())
    }
}

/// Refuses a batch that names what was given up, with what is to be sent again.
fn given_up(batch: &Batch, pack: PackNumber) -> Refusal {
    let named = batch.chunks.iter().find(|chunk| chunk.at.pack == pack);
    match named {
        Some(chunk) => Refusal::NoChunk { at: chunk.at },
        None => because(&format!("the batch names what was given up with pack {pack}")),
    }
}
