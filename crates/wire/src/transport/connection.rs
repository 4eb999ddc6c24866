//! An owner in another process, as a client here calls it.
//!
//! Each call travels as a message. When the owner ends, calls that may be made twice are made again to the next one: a
//! repeated batch is recognised by its number and digest, a repeated grant by its session. Calls that may not are answered
//! with a failure that says whether they may have been done.

use super::call::{
    Pending, Take, branches, bytes, created, delegations, differences, done, findings, heard, held, inos,
    locked, marks, merged, odd, opened, ordered, placed, placings, plan, proven, reclaimed, room, salvaged,
    sealed, seen, shipped, standings, status, taken, then, turned, usage,
};
use super::come::{borrowed, lent, next};
use super::group::groups;
use super::lane::{Again, Lane, Lost, Purpose, REPEATS_MAX};
use super::patience::{Dial, Patience};
use crate::line::{BranchInfo, CheckpointAsk, Created, ForkAsk, Usage};
use crate::message::{Answer, Ask, Hello, Request, Response, SESSIONS_MAX};
use crate::owner::{
    Access, Chunk, Delegation, DiffAsk, Differences, Done, Error, Hold, Lent, MergeAsk, MergeTold, Opened,
    Owner, Placed, ResolveAsk, RestoreAsk, Room, Salvaged, SealedPack, Shipped, Standings, Status, Turned,
    Who, identity,
};
use crate::reclaim::{Placings, ReclaimAsk, ReclaimTold};
use crate::review::{AcceptAsk, MarkAsk, Marked};
use crate::shared::{
    Borrow, Borrowed, Brought, Deed, Heard, LockAsk, Look, Next, Ordered, Seen, Sharer, Stand, Yield,
};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_model::codec::malformed;
use tenure_model::limits::LITTLE_LEN_MAX;
use tenure_model::record::Plan;
use tenure_model::{
    Address, Attr, Batch, BranchId, BranchName, Digest, DriveName, Failure, Ino, InoRange, Locked,
    PackNumber, Refusal, SessionId,
};

/// How long is waited for what is only told to a person, such as free space: who asks may be a thread that serves others.
const BRIEF_MAX: Duration = Duration::from_secs(5);
/// Messages with chunks that are underway before the first of them is answered.
const PLACES_AHEAD: usize = 8;

/// Who comes, and to which drive.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The drive that the calls are about; none to speak with the hosting process alone.
    pub drive: Option<DriveName>,
    /// Who comes.
    pub who: Who,
}

/// The owner of a drive in another process.
pub struct Connection {
    /// What is small and urgent, or rare.
    order: Lane,
    /// Pages and chunks on their way here.
    load: Lane,
    /// Chunks on their way there, but for a few.
    place: Lane,
    /// Sessions that were opened over it and not closed.
    sessions: Arc<Mutex<BTreeSet<SessionId>>>,
    /// Which drive it is, once a branch of it was lent.
    drive: Arc<OnceLock<Digest>>,
    patience: Patience,
}

impl Connection {
    /// Reaches the owner that `dial` finds. It is dialled again, on whatever thread notices, when a socket has ended.
    pub fn reach(dial: Dial, greeting: Greeting, patience: Patience) -> Result<Self, Error> {
        let sessions = Arc::new(Mutex::new(BTreeSet::new()));
        let identity = Arc::<OnceLock<Digest>>::default();
        let Greeting { drive, who } = greeting;
        let bulk = || {
            let (drive, who, identity) = (drive.clone(), who.clone(), identity.clone());
            let purpose = Purpose {
                is_first: false,
                hello: Box::new(move || Hello {
                    drive: drive.clone(),
                    who: who.clone(),
                    sessions: Vec::new(),
                    identity: identity.get().copied(),
                }),
                is_needed: Box::new(|| false),
            };
            Lane::new(dial.clone(), purpose, patience.clone())
        };
        let (load, place) = (bulk(), bulk());
        let (said, needed, seen) = (sessions.clone(), sessions.clone(), identity.clone());
        let purpose = Purpose {
            is_first: true,
            hello: Box::new(move || Hello {
                drive: drive.clone(),
                who: who.clone(),
                sessions: said.lock().iter().copied().collect(),
                identity: seen.get().copied(),
            }),
            is_needed: Box::new(move || !needed.lock().is_empty()),
        };
        let order = Lane::new(dial, purpose, patience.clone());
        order.connect()?;
        Ok(Self {
            order,
            load,
            place,
            sessions,
            drive: identity,
            patience,
        })
    }

    /// Says a word to the process that hosts the owner, and returns what that answers within `within`. It is not said
    /// twice.
    pub fn control(&self, verb: &str, arguments: &[u8], within: Duration) -> Result<Vec<u8>, Error> {
        self.once(&Request::Control { verb, arguments }, bytes, within)
    }

    /// Makes a call that may be done twice.
    fn call<T>(&self, lane: &Lane, request: Request<'_>, take: Take<T>) -> Result<T, Error> {
        self.call_within(lane, request, take, self.patience.reply_max)
    }

    fn call_within<T>(
        &self,
        lane: &Lane,
        request: Request<'_>,
        take: Take<T>,
        within: Duration,
    ) -> Result<T, Error> {
        taken(&Pending::ask(lane, request, Again::Lane, within).wait()?, take)
    }

    /// Returns how long is waited for what is only told to a person.
    fn brief(&self) -> Duration {
        self.patience.reply_max.min(BRIEF_MAX)
    }

    /// Makes a call that must not be done twice: again only as long as no owner has got it.
    fn once<T>(&self, request: &Request<'_>, take: Take<T>, within: Duration) -> Result<T, Error> {
        let ask = || Pending::ask(&self.order, request.clone(), Again::Caller, within).wait();
        for _ in 0..REPEATS_MAX {
            match ask() {
                Err(Lost::NotSent(Error::Failed(Failure::DidNotHappen(_)))) => {}
                replied => return taken(&replied?, take),
            }
        }
        taken(&ask()?, take)
    }

    /// Makes a call that ends something: made twice, it finds nothing left to end.
    fn end(&self, request: Request<'_>) -> Result<(), Error> {
        let reply = Pending::ask(&self.order, request, Again::Lane, self.patience.reply_max).wait()?;
        match taken(&reply, done) {
            Err(Error::Refused(Refusal::Stale)) if reply.was_repeated => Ok(()),
            ended => ended,
        }
    }

    fn ask_place<'a>(&'a self, session: SessionId, chunks: &[Chunk<'_>]) -> Pending<'a> {
        let len: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        // What is little does not wait behind bulk that is on its way.
        let lane = if len <= LITTLE_LEN_MAX {
            &self.order
        } else {
            &self.place
        };
        let request = Request::Place {
            session,
            chunks: chunks.to_vec(),
        };
        Pending::ask(lane, request, Again::Caller, self.patience.reply_max)
    }

    /// Waits for the places of some chunks, and sends them again while owners end before they answer.
    fn placed(
        &self,
        session: SessionId,
        chunks: &[Chunk<'_>],
        asked: Pending<'_>,
    ) -> Result<Vec<Placed>, Error> {
        let mut reply = asked.wait();
        for _ in 0..REPEATS_MAX {
            match reply {
                Err(Lost::MaybeDone(_) | Lost::NotSent(Error::Failed(Failure::DidNotHappen(_)))) => {
                    reply = self.ask_place(session, chunks).wait();
                }
                Ok(_) | Err(Lost::NotSent(_)) => break,
            }
        }
        let places = taken(&reply?, placed)?;
        if places.len() == chunks.len() {
            Ok(places)
        } else {
            Err(odd(malformed("list of places")))
        }
    }
}

impl<B> Owner<B> for Connection {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        if self.sessions.lock().len() >= SESSIONS_MAX {
            return Err(Refusal::Because(format!("a connection has at most {SESSIONS_MAX} sessions")).into());
        }
        let opened = self.call(&self.order, Request::Open(who.clone()), opened)?;
        self.sessions.lock().insert(opened.session);
        if let Err(error) = self.order.come_back() {
            tracing::warn!(%error, "the owner that opened a session has gone");
        }
        Ok(opened)
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.call(&self.order, Request::Renew(session), done)
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        let ended = self.end(Request::Close(session));
        if !matches!(ended, Err(Error::Failed(_))) {
            self.sessions.lock().remove(&session);
        }
        ended
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<B>, Error> {
        let request = Request::Lend {
            session,
            name,
            access,
        };
        let lent: Lent<B> = self.call(&self.order, request, lent)?;
        // Of one that was lent before, it is the same: another drive is not reached any more.
        let _ = self.drive.set(identity(&lent.hash_key));
        Ok(lent)
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.call(&self.order, Request::LendInos(session), inos)
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.end(Request::GiveBack { session, branch })
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let mut places = Vec::with_capacity(chunks.len());
        let mut underway = VecDeque::with_capacity(PLACES_AHEAD);
        for group in groups(chunks) {
            if underway.len() == PLACES_AHEAD {
                let (group, asked) = underway.pop_front().expect("there are PLACES_AHEAD");
                places.extend(self.placed(session, group, asked)?);
            }
            underway.push_back((group, self.ask_place(session, group)));
        }
        for (group, asked) in underway {
            places.extend(self.placed(session, group, asked)?);
        }
        Ok(places)
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        let places = places.to_vec();
        self.call(&self.order, Request::Secure { session, places }, done)
    }

    fn ship(&self, batch: Batch, _after: Option<B>, told: Done<Shipped>) {
        let then = then(told, shipped);
        self.order
            .ask(Request::Ship(batch), Again::Lane, self.patience.reply_max, then);
    }

    fn order(&self, batch: &Batch) -> Result<Shipped, Error> {
        self.call(&self.order, Request::Order(batch.clone()), shipped)
    }

    fn act(&self, who: Sharer, number: u64, deed: &Deed, hold: Hold) -> Result<Ordered, Error> {
        let deed = Cow::Borrowed(deed);
        self.call(
            &self.order,
            Request::Shared(who, Ask::Act { number, deed, hold }),
            ordered,
        )
    }

    fn look(&self, who: Sharer, look: &Look, asked: u64) -> Result<Seen, Error> {
        let lane = match look {
            Look::Read { .. } => &self.load,
            Look::Attr(_)
            | Look::Lookup { .. }
            | Look::List { .. }
            | Look::Target(_)
            | Look::Xattr { .. }
            | Look::Xattrs(_)
            | Look::NextData(..)
            | Look::NextHole(..)
            | Look::Totals => &self.order,
        };
        let ask = Ask::Look(Cow::Borrowed(look), asked);
        self.call(lane, Request::Shared(who, ask), seen)
    }

    fn borrow(&self, who: Sharer, ask: &Borrow) -> Result<Borrowed<B>, Error> {
        self.call(&self.order, Request::Shared(who, Ask::Borrow(*ask)), borrowed)
    }

    fn take_back(&self, who: Sharer, given: &Yield) -> Result<(), Error> {
        let ask = Ask::TakeBack(Cow::Borrowed(given));
        self.call(&self.order, Request::Shared(who, ask), done)
    }

    fn prolong(&self, who: Sharer) -> Result<Duration, Error> {
        self.call(&self.order, Request::Shared(who, Ask::Prolong), proven)
    }

    fn hold(&self, who: Sharer, ino: Ino) -> Result<Attr, Error> {
        self.call(&self.order, Request::Shared(who, Ask::Hold(ino)), held)
    }

    fn let_go(&self, who: Sharer, inos: &[Ino]) -> Result<(), Error> {
        self.call(&self.order, Request::Shared(who, Ask::LetGo(inos.into())), done)
    }

    fn sync(&self, who: Sharer) -> Result<(), Error> {
        self.call(&self.order, Request::Shared(who, Ask::Sync), done)
    }

    fn lock(&self, who: Sharer, ask: &LockAsk) -> Result<Locked, Error> {
        self.call(&self.order, Request::Shared(who, Ask::Lock(*ask)), locked)
    }

    fn hear(&self, who: Sharer, told: Done<Heard>) {
        let then = then(told, heard);
        self.order.ask(
            Request::Shared(who, Ask::Hear),
            Again::Caller,
            self.patience.reply_max,
            then,
        );
    }

    fn stand(&self, who: Sharer, stand: &Stand) -> Result<Next<B>, Error> {
        let ask = Ask::Stand(Cow::Borrowed(stand));
        self.call(&self.order, Request::Shared(who, ask), next)
    }

    fn have_shipped(&self, branch: &BranchName) -> Result<(), Error> {
        self.call(&self.order, Request::HaveShipped(branch.clone()), done)
    }

    fn rejoin(&self, who: Sharer, brought: &Brought) -> Result<(), Error> {
        let ask = Ask::Rejoin(Cow::Borrowed(brought));
        self.call(&self.order, Request::Shared(who, ask), done)
    }

    fn salvage(&self, batch: Batch, _after: Option<B>, told: Done<Salvaged>) {
        let then = then(told, salvaged);
        self.order.ask(
            Request::Salvage(batch),
            Again::Lane,
            self.patience.reply_max,
            then,
        );
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.call(&self.order, Request::Take { session, name }, done)
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.call(&self.order, Request::Delegations, delegations)
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.call(&self.load, Request::Page(at), bytes)
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        let len = u32::try_from(out.len()).map_err(|_| Refusal::InvalidArgument)?;
        let request = Request::Read { at, start, len };
        let reply = Pending::ask(&self.load, request, Again::Lane, self.patience.reply_max).wait()?;
        let response = Answer::parse(&reply.bytes).map_err(odd)?.outcome?;
        let Response::Bytes(bytes) = response else {
            return Err(odd(malformed("response to this call")));
        };
        if bytes.len() != out.len() {
            return Err(odd(malformed("number of bytes")));
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn sealed(&self, pack: PackNumber) -> Result<Vec<SealedPack>, Error> {
        self.call(&self.load, Request::Sealed(pack), sealed)
    }

    fn part(&self, pack: PackNumber, tag: [u8; 8], offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let request = Request::Part {
            pack,
            tag,
            offset,
            len,
        };
        self.call(&self.load, request, bytes)
    }

    fn room(&self) -> Result<Room, Error> {
        self.call_within(&self.order, Request::Room, room, self.brief())
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        let request = Request::Fork(Cow::Borrowed(ask));
        if ask.is_repeatable() {
            return self.call(&self.order, request, created);
        }
        self.once(&request, created, self.patience.reply_max)
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        let request = Request::Checkpoint(Cow::Borrowed(ask));
        self.once(&request, created, self.patience.reply_max)
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        let to = to.clone();
        self.once(&Request::Rename { name, to }, done, self.patience.reply_max)
    }

    fn set_plan(&self, wanted: Plan) -> Result<(), Error> {
        self.call(&self.order, Request::SetPlan(wanted), done)
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.call(&self.order, Request::Plan, plan)
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.once(
            &Request::DeleteBranch(name.clone()),
            done,
            self.patience.reply_max,
        )
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.call_within(
            &self.order,
            Request::Diff(Cow::Borrowed(ask)),
            differences,
            self.patience.long_reply_max,
        )
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        let request = Request::Contents {
            name,
            ino,
            offset,
            len,
        };
        self.call(&self.load, request, bytes)
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        let request = Request::Undo {
            who: who.clone(),
            branch: branch.clone(),
            to,
        };
        self.once(&request, turned, self.patience.long_reply_max)
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        let request = Request::Merge(who.clone(), Cow::Borrowed(ask));
        self.once(&request, merged, self.patience.long_reply_max)
    }

    fn mark(&self, who: &Who, branch: &BranchName, mark: &MarkAsk) -> Result<(), Error> {
        let request = Request::Mark(who.clone(), branch.clone(), mark.clone());
        self.call(&self.order, request, done)
    }

    fn marks(&self) -> Result<Vec<Marked>, Error> {
        self.call(&self.order, Request::Marks, marks)
    }

    fn accept(&self, who: &Who, ask: &AcceptAsk) -> Result<MergeTold, Error> {
        let request = Request::Accept(who.clone(), Cow::Borrowed(ask));
        self.once(&request, merged, self.patience.long_reply_max)
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        let request = Request::Conflicts { name, behind };
        self.call(&self.order, request, standings)
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        let request = Request::Resolve(who.clone(), Cow::Borrowed(ask));
        self.once(&request, turned, self.patience.long_reply_max)
    }

    fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        let request = Request::Restore(who.clone(), Cow::Borrowed(ask));
        self.once(&request, turned, self.patience.long_reply_max)
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.call(&self.order, Request::Branches, branches)
    }

    fn status(&self) -> Result<Status, Error> {
        self.call_within(&self.order, Request::Status, status, self.brief())
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.call_within(&self.order, Request::Usage, usage, self.patience.long_reply_max)
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.call_within(
            &self.order,
            Request::Reclaim(ask),
            reclaimed,
            self.patience.long_reply_max,
        )
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.call(&self.order, Request::Forgo { session, said }, placings)
    }

    fn fold(&self) -> Result<(), Error> {
        self.call_within(&self.order, Request::Fold, done, self.patience.long_reply_max)
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.call_within(
            &self.order,
            Request::Check { deep },
            findings,
            self.patience.long_reply_max,
        )
    }
}
