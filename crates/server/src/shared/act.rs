//! Acts: each is decided, put into the journal's queue and made in one step, and durable with the next sync.

use super::Undone;
use super::changes::How;
use crate::drive::Inner;
use crate::holds::Claim;
use crate::order::{Live, Room};
use crate::state::permit::because;
use crate::vet::number_of;
use tenure_model::codec::Codec;
use tenure_model::limits::{FILE_LEN_MAX, INLINE_LEN_MAX};
use tenure_model::{Act, ActId, BranchId, ChunkPlace, Digest, Extent, Ino, Op, Piece, Record, Refusal};
use tenure_wire::shared::{Deed, Ordered, Sharer, WriteAt};
use tenure_wire::{Chunk, Error, Hold};

/// Bytes of a write that ride in the journal where its pack is on a disk: above it, waiting for the pack costs less than writing
/// them twice. Where a pack becomes durable only as a whole, every write rides in the journal.
const INLINE_MAX: usize = 64 << 10;

/// An act that is asked for, with its bytes in their places.
pub(super) struct Asked<'a> {
    pub(super) id: ActId,
    branch: BranchId,
    mark: Digest,
    deed: &'a Deed,
    content: Option<Content>,
}

/// Bytes that have their place, which is claimed until the act is in order or never will be.
struct Content {
    extent: Extent,
    chunks: Vec<ChunkPlace>,
    _claim: Option<Claim>,
}

impl Inner {
    pub(crate) fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        self.admitted(who)?;
        self.settle_seen(who)?;
        let asked = self.asked(who, number, deed)?;
        let ordered = self.in_order(|live| {
            live.share(who)?;
            self.order_act(live, &asked, hold)
        });
        if matches!(ordered, Err(Error::Refused(Refusal::Elsewhere { .. }))) {
            self.tell_holders(who.branch)?;
        }
        let ordered = ordered?;
        self.drop_adrift(who.branch)?;
        self.work_after_batch();
        Ok(ordered)
    }

    /// Makes durable what a session has seen of batches: an act of its own never outlives what it may have followed.
    fn settle_seen(&self, who: Sharer) -> Result<(), Error> {
        let seen = self.with(|live| {
            let member = live.share(who)?.members.get(&who.session);
            let saw = member.and_then(|member| member.saw);
            saw.map(|saw| Ok((live.journal()?.clone(), saw))).transpose()
        })?;
        let Some((journal, saw)) = seen else {
            return Ok(());
        };
        self.commit_through(&journal, saw)?;
        self.with(|live| {
            if let Some(member) = live.share(who)?.members.get_mut(&who.session) {
                member.saw = member.saw.filter(|last| *last > saw);
            }
            Ok(())
        })
    }

    /// Gives what an act brings its place, before the lock is taken.
    pub(super) fn asked<'a>(&self, who: Sharer, number: u64, deed: &'a Deed) -> Result<Asked<'a>, Error> {
        let content = match deed {
            Deed::Op(_) => None,
            Deed::Write { bytes, .. } => Some(self.content(bytes)?),
        };
        let chunks = content.as_ref().map_or(0, |content| content.chunks.len());
        if chunks > 0 {
            let journal = self.with(|live| live.journal().cloned())?;
            journal.reserve(deed.weight())?;
        }
        Ok(Asked {
            id: ActId {
                session: who.session,
                number,
            },
            branch: who.branch,
            mark: deed.mark(),
            deed,
            content,
        })
    }

    fn content(&self, bytes: &[u8]) -> Result<Content, Error> {
        if bytes.len() <= INLINE_LEN_MAX {
            return Ok(Content {
                extent: Extent::Inline(bytes.into()),
                chunks: Vec::new(),
                _claim: None,
            });
        }
        let chunk = Chunk {
            digest: Digest::of(bytes),
            bytes,
        };
        let placed = self.place_claimed(&[chunk], |places| self.holds.claim_for_now(places));
        let (mut places, filled, claim) =
            placed.map_err(|failure| self.health.before_anything(failure.into()))?;
        let mut place = places.remove(0);
        if filled {
            self.work_on_full_packs();
        }
        let at = place.at;
        place.inline = None;
        if !self
            .filling
            .is_durable(at.pack, place.offset + u64::from(place.len))
        {
            if self.filling.is_held() || bytes.len() <= INLINE_MAX {
                place.inline = Some(bytes.into());
            } else {
                self.filling.flush(std::iter::once(&place))?;
            }
        }
        let extent = Extent::Chunk {
            at,
            start: 0,
            len: place.len,
        };
        Ok(Content {
            extent,
            chunks: vec![place],
            _claim: Some(claim),
        })
    }

    /// Puts an act in order, or finds it there.
    pub(super) fn order_act(
        &self,
        live: &mut Live,
        asked: &Asked<'_>,
        hold: Hold,
    ) -> Result<Ordered, Undone> {
        let Asked { id, branch, .. } = *asked;
        let sharing = live.state.shares(id.session, branch)?;
        if let Some(mark) = sharing.mark(id) {
            if mark.digest != asked.mark {
                // Another client goes on with this session's numbers: a copy of the one that was here.
                return Err(Refusal::Stale.into());
            }
            return again(live, asked, (mark.behind, hold));
        }
        if sharing.is_long_past(id) {
            // It was answered long ago: this is a late copy of what was asked then.
            return Err(Refusal::InvalidArgument.into());
        }
        let quiet = live
            .shares
            .0
            .get(&branch)
            .and_then(|share| share.is_quiet(self.epoch));
        if let Some(asked) = quiet {
            return Err(Refusal::Elsewhere { asked }.into());
        }
        let (op, chunks) = asked.op(live)?;
        if number_of(&op).is_some_and(|ino| !live.state.may_use(id.session, ino)) {
            return Err(because("the act has an inode number that was not lent to its session").into());
        }
        let memory = self.memory.clone();
        let _held = memory.hold();
        let open = live.state.opened(branch).ok_or(Refusal::Stale)?;
        let touched = open.branch.touched(&op).map_err(Undone::Missing)?;
        drop(open);
        let now = self.options.clock.elapsed();
        let share = live.shares.0.entry(branch).or_default();
        if let Some(asked) = share.have_back(id.session, touched.all(), self.epoch, now) {
            return Err(Refusal::Elsewhere { asked }.into());
        }
        let decision = live.state.decide(branch, &op).map_err(Undone::of)?;
        let outcome = decision.outcome();
        let act = Act {
            id,
            branch,
            mark: asked.mark,
            chunks,
            op,
        };
        let behind = live.state.shares(id.session, branch)?.last;
        let bytes = Record::Act(act.clone()).written();
        self.enqueue_act(live, bytes)?;
        live.state.make(branch, decision);
        live.state.remember_act(&act);
        let share = live.shares.0.entry(branch).or_default();
        let made = touched.made.map(|made| made.ino);
        let changed = touched.all().chain(made);
        share.changes.note(changed, (id.session, How::Act), now);
        if let (Hold::Open, Some((ino, _)), Some(member)) =
            (hold, outcome.inode, share.members.get_mut(&id.session))
        {
            member.open.insert(ino);
        }
        if let Some(orphan) = outcome.orphan.filter(|orphan| !share.is_open(*orphan)) {
            share.adrift.insert(orphan);
        }
        Ok(Ordered {
            behind,
            inode: outcome.inode,
        })
    }

    /// Puts a record into the journal's queue; on a full disk what brings no contents may take the last of the room.
    fn enqueue_act(&self, live: &Live, bytes: Vec<u8>) -> Result<(), Error> {
        const SMALL: usize = 4096;
        let spare = (bytes.len() <= SMALL).then(|| bytes.clone());
        match (self.enqueue(live, (bytes, Room::Usual), Box::new(drop)), spare) {
            (Ok(_), _) => Ok(()),
            (Err((Error::Failed(tenure_model::Failure::NoSpace(_)), _)), Some(bytes)) => {
                let queued = self.enqueue(live, (bytes, Room::Last), Box::new(drop));
                queued.map(drop).map_err(|(error, _)| error)
            }
            (Err((error, _)), _) => Err(error),
        }
    }

    /// Drops inodes of a shared branch that have neither an entry nor anybody who has them open.
    pub(crate) fn drop_adrift(&self, branch: BranchId) -> Result<(), Error> {
        loop {
            let dropped = self.in_order(|live| {
                let Some(share) = live.shares.0.get_mut(&branch) else {
                    return Ok(false);
                };
                let Some(ino) = share.adrift.first().copied() else {
                    return Ok(false);
                };
                let is_open = share.is_open(ino);
                let record = Record::Dropped { branch, ino };
                if live.state.permits(&record).is_err() {
                    // All have left, and who has the branch now sees to it himself.
                    share.adrift.clear();
                    return Ok(false);
                }
                let memory = self.memory.clone();
                let _held = memory.hold();
                let open = live.state.opened(branch).ok_or(Refusal::Stale)?;
                let attr = open.branch.attr(ino).map_err(Undone::Missing)?;
                drop(open);
                if !is_open && attr.is_some_and(|attr| attr.nlink == 0) {
                    let decision = live.state.decide(branch, &Op::Drop { ino }).map_err(Undone::of)?;
                    self.enqueue_act(live, record.written())?;
                    live.state.make(branch, decision);
                }
                if let Some(share) = live.shares.0.get_mut(&branch) {
                    share.adrift.remove(&ino);
                }
                Ok(true)
            })?;
            if !dropped {
                return Ok(());
            }
        }
    }
}

impl Asked<'_> {
    /// Returns the op that it is at this moment, and the chunks that this is the first to name.
    fn op(&self, live: &mut Live) -> Result<(Op, Vec<ChunkPlace>), Undone> {
        let (ino, at, time) = match self.deed {
            Deed::Op(Op::Write { pieces, .. }) if !pieces.is_empty() => {
                return Err(because("who shares a branch brings bytes, not their places").into());
            }
            Deed::Op(Op::Drop { .. }) => {
                return Err(because("who shares a branch asks for no such op").into());
            }
            Deed::Op(op) => return Ok((op.clone(), Vec::new())),
            Deed::Write { ino, at, time, .. } => (*ino, *at, *time),
        };
        let Content { extent, chunks, .. } = self.content.as_ref().ok_or(Refusal::InvalidArgument)?;
        let (extent, chunks) = (extent.clone(), chunks.clone());
        let offset = match at {
            WriteAt::Offset(offset) => offset,
            WriteAt::End => size_of(live, self.branch, ino)?,
        };
        let end = offset.checked_add(extent.len());
        end.filter(|end| *end <= FILE_LEN_MAX).ok_or(Refusal::TooLarge)?;
        let op = Op::Write {
            ino,
            pieces: vec![Piece { offset, extent }],
            size: 0,
            time: Some(time),
        };
        Ok((op, chunks))
    }

    /// Returns the inode that it is about, where that is known without the state.
    fn subject(&self) -> Option<Ino> {
        match self.deed {
            Deed::Write { ino, .. } => Some(*ino),
            Deed::Op(op) => match op {
                Op::Create { ino, .. }
                | Op::CreateUnnamed { ino, .. }
                | Op::Link { ino, .. }
                | Op::SetAttr { ino, .. }
                | Op::Write { ino, .. }
                | Op::Punch { ino, .. }
                | Op::Collapse { ino, .. }
                | Op::Insert { ino, .. }
                | Op::SetXattr { ino, .. }
                | Op::RemoveXattr { ino, .. }
                | Op::Drop { ino } => Some(*ino),
                Op::Copy { to, .. } => Some(*to),
                Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => None,
            },
        }
    }
}

/// Answers an act that is in order already: with its inode as it is now.
fn again(
    live: &mut Live,
    asked: &Asked<'_>,
    (behind, hold): (Option<ActId>, Hold),
) -> Result<Ordered, Undone> {
    let open = live.state.opened(asked.branch).ok_or(Refusal::Stale)?;
    let inode = match asked.subject() {
        None => None,
        Some(ino) => open
            .branch
            .attr(ino)
            .map_err(Undone::Missing)?
            .map(|attr| (ino, attr)),
    };
    let share = live.shares.0.entry(asked.branch).or_default();
    if let (Hold::Open, Some((ino, _)), Some(member)) =
        (hold, inode, share.members.get_mut(&asked.id.session))
    {
        member.open.insert(ino);
    }
    Ok(Ordered { behind, inode })
}

fn size_of(live: &mut Live, branch: BranchId, ino: Ino) -> Result<u64, Undone> {
    let open = live.state.opened(branch).ok_or(Refusal::Stale)?;
    let attr = open.branch.attr(ino).map_err(Undone::Missing)?;
    Ok(attr.ok_or(Refusal::NotFound)?.size)
}
