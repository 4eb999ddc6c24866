//! An owner in memory: it answers the same to the same calls, notes each, and can be held at any of them.

use crate::carrier::{Served, dialling_to, serve_behind};
use crate::samples::{address, branch_info, drive, place, status, who};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_model::codec::Codec;
use tenure_model::record::Plan;
use tenure_model::{
    Address, Batch, BranchId, BranchName, Clock, Digest, DriveName, Epoch, Failure, Ino, InoRange,
    PackNumber, Refusal, SessionId, Timestamp, limits,
};
use tenure_wire::owner::SESSION_TTL;
use tenure_wire::unix::listen;
use tenure_wire::{
    Access, BranchInfo, CheckpointAsk, Chunk, Connection, Created, Delegation, Dial, DiffAsk, Differences,
    Done, Door, Error, ForkAsk, Greeting, Host, Lent, Limits, MergeAsk, MergeTold, Opened, Owner, Patience,
    Placed, Placings, ReclaimAsk, ReclaimTold, ResolveAsk, RestoreAsk, Room, Salvaged, ServerAddress,
    Service, Shared, Shipped, Standings, Status, Turned, Usage, Whereabouts, Who,
};

/// What a branch is here.
pub(crate) type Here = String;

/// How long a test waits for what must happen; it passes only when something is wrong.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    sessions: u64,
    open: BTreeSet<SessionId>,
    inos: u64,
    chunks: BTreeMap<Digest, Vec<u8>>,
    last: Option<(u64, Digest)>,
    /// Every call that has begun, in words.
    begun: Vec<String>,
    held: BTreeSet<&'static str>,
    /// What was drawn when the drive was made.
    birth: u8,
    /// Whether another owns the drive by now.
    is_deposed: bool,
}

/// The owner, and the process that hosts it.
#[derive(Default)]
pub(crate) struct Fake {
    state: Mutex<State>,
    changed: Condvar,
}

impl Fake {
    /// Makes calls of a kind wait from now on.
    pub(crate) fn hold(&self, kind: &'static str) {
        self.state.lock().held.insert(kind);
    }

    /// Lets calls of a kind go on.
    pub(crate) fn let_go(&self, kind: &'static str) {
        self.state.lock().held.remove(kind);
        self.changed.notify_all();
    }

    /// Returns what has begun so far.
    pub(crate) fn begun(&self) -> Vec<String> {
        self.state.lock().begun.clone()
    }

    /// Returns how many calls have begun whose words start like this.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.state
            .lock()
            .begun
            .iter()
            .filter(|begun| begun.starts_with(words))
            .count()
    }

    /// Returns once so many calls have begun whose words start like this.
    pub(crate) fn wait_for(&self, words: &str, count: usize) {
        let mut state = self.state.lock();
        let is_missing = |state: &mut State| {
            state
                .begun
                .iter()
                .filter(|begun| begun.starts_with(words))
                .count()
                < count
        };
        let waited = self.changed.wait_while_for(&mut state, is_missing, LONG);
        assert!(
            !waited.timed_out(),
            "{count} of {words:?} should have begun: {:?}",
            state.begun
        );
    }

    /// Returns the sessions that are open.
    pub(crate) fn open_sessions(&self) -> Vec<SessionId> {
        self.state.lock().open.iter().copied().collect()
    }

    /// Returns the owner of a drive that was made with another draw.
    pub(crate) fn born(birth: u8) -> Arc<Self> {
        let fake = Self::default();
        fake.state.lock().birth = birth;
        Arc::new(fake)
    }

    /// Takes over what an owner before has made durable.
    pub(crate) fn after(other: &Fake) -> Arc<Self> {
        let before = other.state.lock();
        let state = State {
            sessions: before.sessions,
            open: before.open.clone(),
            inos: before.inos,
            chunks: before.chunks.clone(),
            last: before.last,
            birth: before.birth,
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Answers from now on that another owns the drive.
    pub(crate) fn depose(&self) {
        self.state.lock().is_deposed = true;
    }

    /// Tells whether another owns the drive by now.
    pub(crate) fn is_deposed(&self) -> bool {
        self.state.lock().is_deposed
    }

    fn begin<R>(&self, words: String, act: impl FnOnce(&mut State) -> Result<R, Error>) -> Result<R, Error> {
        let mut state = self.state.lock();
        let kind = words.split(' ').next().expect("there is a first word").to_owned();
        state.begun.push(words);
        self.changed.notify_all();
        self.changed
            .wait_while(&mut state, |state| state.held.contains(&*kind));
        if state.is_deposed {
            return Err(Failure::Fenced("epoch 3 has ended".into()).into());
        }
        act(&mut state)
    }
}

fn known(state: &State, session: SessionId) -> Result<(), Error> {
    if state.open.contains(&session) {
        Ok(())
    } else {
        Err(Refusal::Stale.into())
    }
}

impl Owner<Here> for Fake {
    fn open(&self, who: &Who) -> Result<Opened, Error> {
        self.begin(format!("open {who:?}"), |state| {
            state.sessions += 1;
            let session = SessionId(state.sessions);
            state.open.insert(session);
            Ok(Opened {
                session,
                epoch: Epoch(3),
                tier: "memory".into(),
                notices: vec!["nothing is kept".into()],
                session_ttl: SESSION_TTL,
            })
        })
    }

    fn identity(&self) -> Result<Option<Digest>, Error> {
        Ok(Some(tenure_wire::identity(&[self.state.lock().birth; 16])))
    }

    fn renew(&self, session: SessionId) -> Result<(), Error> {
        self.begin(format!("renew {session}"), |state| known(state, session))
    }

    fn close(&self, session: SessionId) -> Result<(), Error> {
        self.begin(format!("close {session}"), |state| {
            known(state, session)?;
            state.open.remove(&session);
            Ok(())
        })
    }

    fn lend(&self, session: SessionId, name: &str, access: Access) -> Result<Lent<Here>, Error> {
        self.begin(format!("lend {session} {name} {access:?}"), |state| {
            known(state, session)?;
            match name {
                "main" => Ok(Lent {
                    branch: Some(BranchId(1)),
                    hash_key: [state.birth; 16],
                    inos: InoRange {
                        next: Ino(16),
                        end: Ino(32),
                    },
                    state: Shared::Stored {
                        root: address(1),
                        inodes: 2,
                        bytes: 3,
                    },
                }),
                "here" => Ok(Lent {
                    branch: None,
                    hash_key: [state.birth; 16],
                    inos: InoRange {
                        next: Ino(0),
                        end: Ino(0),
                    },
                    state: Shared::Here("in memory".into()),
                }),
                _ => Err(Refusal::Held {
                    by: "somebody else".into(),
                }
                .into()),
            }
        })
    }

    fn lend_inos(&self, session: SessionId) -> Result<InoRange, Error> {
        self.begin(format!("lend_inos {session}"), |state| {
            known(state, session)?;
            state.inos += 10;
            Ok(InoRange {
                next: Ino(state.inos),
                end: Ino(state.inos + 10),
            })
        })
    }

    fn give_back(&self, session: SessionId, branch: BranchId) -> Result<(), Error> {
        self.begin(format!("give_back {session} {branch}"), |state| {
            known(state, session)
        })
    }

    fn place(&self, session: SessionId, chunks: &[Chunk<'_>]) -> Result<Vec<Placed>, Error> {
        let digests: Vec<_> = chunks.iter().map(|chunk| chunk.digest).collect();
        self.begin(format!("place {session} {digests:?}"), |state| {
            known(state, session)?;
            let mut places = Vec::new();
            for chunk in chunks {
                if Digest::of(chunk.bytes) != chunk.digest {
                    return Err(Refusal::Because("the digest is wrong".into()).into());
                }
                state.chunks.insert(chunk.digest, chunk.bytes.to_vec());
                let at = Address {
                    pack: PackNumber(7),
                    digest: chunk.digest,
                };
                places.push(Placed {
                    at,
                    ..place(7, chunk.bytes.len() as u32)
                });
            }
            Ok(places)
        })
    }

    fn secure(&self, session: SessionId, places: &[Placed]) -> Result<(), Error> {
        let digests: Vec<_> = places.iter().map(|place| place.at.digest).collect();
        self.begin(format!("secure {session} {digests:?}"), |state| {
            known(state, session)
        })
    }

    fn ship(&self, batch: Batch, _after: Option<Here>, done: Done<Shipped>) {
        let digest = Digest::of(&batch.written());
        let shipped = self.begin(format!("ship {} {}", batch.session, batch.number), |state| {
            known(state, batch.session)?;
            let (last, before) = state.last.unwrap_or((0, Digest([9; 32])));
            if (batch.number, digest) == (last, before) {
                return Ok(Shipped { digest });
            }
            if batch.number != last + 1 {
                return Err(Refusal::Stale.into());
            }
            state.last = Some((batch.number, digest));
            Ok(Shipped { digest })
        });
        done(shipped);
    }

    fn salvage(&self, batch: Batch, _after: Option<Here>, done: Done<Salvaged>) {
        let digest = Digest::of(&batch.written());
        done(
            self.begin(format!("salvage {} {}", batch.session, batch.number), |_| {
                let stray = "stray-main-loom-8".to_owned();
                Ok(Salvaged { digest, stray })
            }),
        );
    }

    fn take(&self, session: SessionId, name: &str) -> Result<(), Error> {
        self.begin(format!("take {session} {name}"), |state| known(state, session))
    }

    fn delegations(&self) -> Result<Vec<Delegation>, Error> {
        self.begin("delegations".into(), |_| Ok(crate::leases::delegations()))
    }

    fn page(&self, at: Address) -> Result<Vec<u8>, Error> {
        self.begin(format!("page {}", at.pack), |_| Ok(vec![at.pack.0 as u8; 4000]))
    }

    fn read(&self, at: Address, start: u32, out: &mut [u8]) -> Result<(), Error> {
        self.begin(format!("read {} {start} {}", at.digest, out.len()), |state| {
            let from = start as usize;
            let chunk = state.chunks.get(&at.digest);
            let part = chunk.and_then(|chunk| chunk.get(from..from + out.len()));
            let part = part.ok_or_else(|| Failure::Corrupt(format!("chunk {} is not there", at.digest)))?;
            out.copy_from_slice(part);
            Ok(())
        })
    }

    fn room(&self) -> Result<Room, Error> {
        self.begin("room".into(), |_| {
            Ok(Room {
                total: 1000,
                free: 10,
            })
        })
    }

    fn fork(&self, ask: &ForkAsk) -> Result<Created, Error> {
        self.begin(format!("fork {ask:?}"), |_| {
            let found = ask.is_repeatable().then(|| "there".to_owned());
            Ok(Created {
                branch: BranchId(8),
                found,
            })
        })
    }

    fn checkpoint(&self, ask: &CheckpointAsk) -> Result<Created, Error> {
        self.begin(format!("checkpoint {ask:?}"), |_| {
            Ok(Created {
                branch: BranchId(1),
                found: None,
            })
        })
    }

    fn rename(&self, name: &str, to: &BranchName) -> Result<(), Error> {
        self.begin(format!("rename {name} {to}"), |_| Ok(()))
    }

    fn set_plan(&self, plan: Plan) -> Result<(), Error> {
        self.begin(format!("set_plan {plan:?}"), |_| Ok(()))
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.begin("plan".into(), |_| Ok(Plan::default()))
    }

    fn delete_branch(&self, name: &BranchName) -> Result<(), Error> {
        self.begin(format!("delete_branch {name}"), |_| {
            Err(Refusal::Because(format!("{name} is the only branch")).into())
        })
    }

    fn diff(&self, ask: &DiffAsk) -> Result<Differences, Error> {
        self.begin(format!("diff {ask:?}"), |_| Ok(crate::differences::differences()))
    }

    fn contents(&self, name: &str, ino: Ino, offset: u64, len: u32) -> Result<Vec<u8>, Error> {
        self.begin(format!("contents {name} {ino} {offset} {len}"), |_| {
            Ok(vec![7; len as usize])
        })
    }

    fn undo(&self, who: &Who, branch: &BranchName, to: &str) -> Result<Turned, Error> {
        self.begin(format!("undo {who:?} {branch} {to}"), |_| {
            Ok(crate::turns::turned())
        })
    }

    fn merge(&self, who: &Who, ask: &MergeAsk) -> Result<MergeTold, Error> {
        self.begin(format!("merge {who:?} {ask:?}"), |_| Ok(crate::turns::told()))
    }

    fn conflicts(&self, name: &str, behind: Ino) -> Result<Standings, Error> {
        self.begin(format!("conflicts {name} {behind}"), |_| {
            Ok(crate::turns::standings())
        })
    }

    fn resolve(&self, who: &Who, ask: &ResolveAsk) -> Result<Turned, Error> {
        self.begin(format!("resolve {who:?} {ask:?}"), |_| {
            Err(Refusal::Because("there is no such conflict".into()).into())
        })
    }

    fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        self.begin(format!("restore {who:?} {ask:?}"), |_| Ok(crate::turns::turned()))
    }

    fn branches(&self) -> Result<Vec<BranchInfo>, Error> {
        self.begin("branches".into(), |_| Ok(vec![branch_info(), branch_info()]))
    }

    fn status(&self) -> Result<Status, Error> {
        self.begin("status".into(), |_| Ok(status()))
    }

    fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        self.begin(format!("reclaim {ask:?}"), |_| Ok(crate::lines::reclaimed()))
    }

    fn forgo(&self, session: SessionId, said: Placings) -> Result<Placings, Error> {
        self.begin(format!("forgo {session} {said:?}"), |_| Ok(said))
    }

    fn usage(&self) -> Result<Usage, Error> {
        self.begin("usage".into(), |_| Ok(crate::lines::usage()))
    }

    fn fold(&self) -> Result<(), Error> {
        self.begin("fold".into(), |_| {
            Err(Failure::NoSpace("the disk is full".into()).into())
        })
    }

    fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        self.begin(format!("check {deep}"), |_| match deep {
            // Longer than a message may be.
            true => Ok(vec!["x".repeat(1 << 20); (limits::MESSAGE_LEN_MAX >> 20) + 1]),
            false => Ok(vec!["one thing".into(), String::new()]),
        })
    }
}

/// A process that hosts the fake owner as the drive `work`.
pub(crate) struct Hosting(pub(crate) Arc<Fake>);

impl Host<Here> for Hosting {
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<Here>, Error> {
        match name.as_str() {
            "work" => Ok(Whereabouts::Here(self.0.clone())),
            "busy" => Err(Failure::DidNotHappen("the drive is being opened".into()).into()),
            _ => Err(Refusal::Because(format!("there is no drive {name}")).into()),
        }
    }

    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.begin(format!("control {verb}"), |_| match verb {
            "panic" => panic!("as the test wants"),
            "echo" => Ok(arguments.to_vec()),
            _ => Err(Refusal::NotSupported.into()),
        })
    }
}

/// A clock that stands still until it is moved.
#[derive(Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(
            u64::try_from(by.as_nanos()).expect("tests are short"),
            Ordering::SeqCst,
        );
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::since_epoch(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// Waits that end a test that would hang, and rest hardly at all.
pub(crate) fn patience() -> Patience {
    Patience {
        reply_max: LONG,
        long_reply_max: LONG,
        write_max: LONG,
        redial_rest: Duration::from_millis(1),
        redials_max: 1000,
        ..Patience::new(Arc::new(Hand::default()))
    }
}

/// Bounds that end a test that would hang.
pub(crate) fn limits() -> Limits {
    Limits {
        grace: LONG,
        greeting_max: LONG,
        drain_max: LONG,
        ..Limits::default()
    }
}

/// Serves a fake owner at a unix socket.
pub(crate) fn serve_at(path: &Path, fake: Arc<Fake>, limits: Limits) -> Service {
    let listener = listen(path).expect("nobody else listens there");
    serve_behind(Door::Unix(listener), &fake, limits)
}

pub(crate) fn dialling(path: &Path) -> Dial {
    dialling_to(&ServerAddress::Unix(path.to_owned()))
}

pub(crate) fn greeting() -> Greeting {
    Greeting {
        drive: Some(drive("work")),
        who: who(),
    }
}

impl Served {
    pub(crate) fn dialling(&self) -> Dial {
        dialling_to(&self.address)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::reach(self.dialling(), greeting(), patience()).expect("somebody answers")
    }

    /// Returns the path of the socket at which it is served.
    pub(crate) fn path(&self) -> &Path {
        let ServerAddress::Unix(path) = &self.address else {
            panic!("{} is no socket", self.address);
        };
        path
    }

    pub(crate) fn stream(&self) -> UnixStream {
        UnixStream::connect(self.path()).expect("somebody listens")
    }
}

/// Returns the connection as a client has it.
pub(crate) fn owner(connection: &Connection) -> &dyn Owner<Here> {
    connection
}
