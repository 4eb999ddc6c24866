//! One connection, from its acceptance to the end of what it leaves behind.
//!
//! It is greeted, its calls are read and given to whoever does that kind of work, and when its process has ended so have its
//! sessions. Invariant: a connection's batches are shipped one after the other, in the order
//! in which they came.

use super::address::ServerAddress;
use super::answer::{Spoken, Unanswered, answer};
use super::guest::Guest;
use super::outbox::{Outbox, Outgoing};
use super::patience::is_final;
use super::peer::{Peer, ends_within};
use super::pool::{Job, run};
use super::presence::VisitNumber;
use super::service::{Host, Station, Whereabouts};
use super::stream::Stream;
use super::window::Window;
use crate::frame::FrameReader;
use crate::message::{Call, GREETING_LEN_MAX, Hello, Kind, VERSION, Welcome};
use crate::owner::{Error, Owner};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Refusal, SessionId, limits};

/// Times that a greeting is read on: it comes at once from anybody who means well.
const GREETING_READS_MAX: usize = 16;
/// Bytes of a call that brings little: its chunks, and their digests.
const LITTLE_CALL_LEN_MAX: usize = 2 * limits::LITTLE_LEN_MAX;
/// How often a far client is told that somebody is there while its calls wait: before it takes silence for an end.
const LIFE_REST: Duration = Duration::from_secs(1);

/// A connection that was accepted.
pub(super) struct Visit {
    pub(super) outbox: Arc<Outbox>,
    station: Arc<Station>,
    number: VisitNumber,
    stream: Arc<Stream>,
    /// Who has come, where he has come by the network.
    guest: Option<Arc<Guest>>,
    window: Arc<Window>,
    ships: Mutex<Ships>,
}

/// Batches that wait for the one before them.
#[derive(Default)]
struct Ships {
    queue: VecDeque<Job>,
    is_running: bool,
}

impl Visit {
    pub(super) fn new(
        station: Arc<Station>,
        number: VisitNumber,
        stream: Stream,
        guest: Option<Arc<Guest>>,
    ) -> Arc<Self> {
        let stream = Arc::new(stream);
        Arc::new(Self {
            outbox: Outbox::new(stream.clone(), station.limits.stuck_max),
            station,
            number,
            stream,
            guest,
            window: Arc::default(),
            ships: Mutex::default(),
        })
    }

    /// Serves the connection until it has ended.
    pub(super) fn run<B: 'static>(self: &Arc<Self>, host: Arc<dyn Host<B>>) {
        let mut frames = FrameReader::new(GREETING_LEN_MAX);
        match self.greet(host, &mut frames) {
            Ok((spoken, peer)) => {
                self.welcome(&Welcome::In);
                frames.set_len_max(limits::MESSAGE_LEN_MAX);
                let spoken = Arc::new(spoken);
                self.read_calls(&spoken, &mut frames);
                self.window.finish();
                self.outbox.close();
                let _lingering = self.station.linger(self.number);
                self.close_sessions(&spoken, &peer);
            }
            Err(Some(welcome)) => {
                self.welcome(&welcome);
                self.outbox.close();
            }
            Err(None) => self.outbox.close(),
        }
    }

    /// Reads no more calls; what is underway is still answered.
    pub(super) fn hang_up(&self) {
        // A socket whose other end has gone reads nothing either.
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Reads no more calls of somebody who would not be let in any more.
    pub(super) fn review(&self) {
        if let Some(guest) = self.guest.as_ref().filter(|guest| !guest.may_stay()) {
            tracing::info!(?guest, "a connection is ended: its token does not count any more");
            self.hang_up();
        }
    }

    /// Reads no more calls, and waits until those that came are done, within a bound.
    pub(super) fn finish(&self, bound: Duration) {
        self.hang_up();
        self.window.wait_until_over(bound);
    }

    /// Waits for nothing any more.
    pub(super) fn cut(&self) {
        self.window.shut();
        self.outbox.close();
    }

    /// Answers nothing any more, whatever is underway.
    pub(super) fn leave(&self) {
        self.hang_up();
        self.cut();
    }

    /// Notes that a session is at this connection.
    pub(super) fn come(&self, drive: &DriveName, session: SessionId) {
        self.station.presence.come(drive, session, self.number);
    }

    /// Forgets a session that is over.
    pub(super) fn forget(&self, drive: &DriveName, session: SessionId) {
        self.station.presence.forget(drive, session);
    }

    /// Learns who comes; returns with what he is sent away, if with anything.
    fn greet<B>(
        &self,
        host: Arc<dyn Host<B>>,
        frames: &mut FrameReader,
    ) -> Result<(Spoken<B>, Peer), Option<Welcome>> {
        let peer = self
            .stream
            .peer()
            .map_err(|refusal| Some(Welcome::Refused(refusal.to_string())))?;
        self.stream
            .set_read_timeout(Some(self.station.limits.greeting_max))
            .map_err(|_| None)?;
        let mut stream = Sparing {
            stream: &self.stream,
            reads: GREETING_READS_MAX,
        };
        let Ok(Some(bytes)) = frames.next(&mut stream) else {
            return Err(None);
        };
        self.stream.set_read_timeout(None).map_err(|_| None)?;
        let hello = match Hello::parse(&bytes) {
            Ok(Ok(hello)) => hello,
            Ok(Err(version)) => return Err(Some(other_version(version))),
            Err(malformed) => return Err(Some(Welcome::Refused(malformed.to_string()))),
        };
        tracing::debug!(visit = self.number, who = ?hello.who, drive = ?hello.drive, "somebody has come");
        if let Some(guest) = self
            .guest
            .as_ref()
            .filter(|guest| hello.drive.as_ref() != guest.drive())
        {
            let why = match guest.drive() {
                Some(drive) => format!("who has come to the drive {drive} may speak about no other"),
                None => "who has come to the server itself may speak about no drive".to_owned(),
            };
            return Err(Some(Welcome::Refused(why)));
        }
        let drive = match hello.drive {
            Some(name) => {
                let owner = find(&*host, &name).map_err(|sent| Some(self.within_reach(sent)))?;
                let found = owner.identity().map_err(|error| Some(turned_away(&error)))?;
                if let (Some(seen), Some(found)) = (hello.identity, found)
                    && seen != found
                {
                    let why = format!(
                        "the drive {name} of this server is another drive than the {name} that was reached before: the server \
                         was given another bucket, or the drive was made anew"
                    );
                    return Err(Some(Welcome::Refused(why)));
                }
                Some((name, owner))
            }
            None => None,
        };
        let guest = self.guest.clone();
        let spoken = Spoken { host, drive, guest };
        self.take_up(&spoken, &hello.sessions);
        Ok((spoken, peer))
    }

    /// Returns what a client is told who is sent away: to a socket of this machine nobody is sent who has come by the network.
    fn within_reach(&self, away: Away) -> Welcome {
        match away {
            Away::Elsewhere(ServerAddress::Unix(path)) if self.guest.is_some() => Welcome::Later(format!(
                "a process on the server's machine owns the drive, and answers there alone, at unix:{}",
                path.display()
            )),
            Away::Elsewhere(address) => Welcome::Elsewhere(address.to_string()),
            Away::Turned(welcome) => welcome,
        }
    }

    /// Takes sessions up that come back from a connection that has ended.
    fn take_up<B>(&self, spoken: &Spoken<B>, sessions: &[SessionId]) {
        let Some((drive, owner)) = &spoken.drive else {
            return;
        };
        for session in sessions {
            // First it is here, so that nobody closes it meanwhile.
            let left = self.station.presence.come(drive, *session, self.number);
            // What it asked there is done before what it asks here, or a late repeat would undo it.
            if let Some(left) = left.filter(|left| *left != self.number) {
                self.station.end_visit(left);
            }
            match owner.renew(*session) {
                // One that shares a branch has more to say, and is asked for it when it says anything.
                Ok(()) | Err(Error::Refused(Refusal::Unjoined)) => {}
                Err(error) => {
                    tracing::debug!(session = session.0, %error, "a session came back that is not taken up");
                    self.forget(drive, *session);
                }
            }
        }
    }

    fn welcome(&self, welcome: &Welcome) {
        if let Ok(frame) = Outgoing::new(welcome.written(), Vec::new(), None) {
            self.outbox.push(frame, Duration::ZERO);
        }
    }

    /// Reads calls until the connection ends or makes no sense.
    fn read_calls<B: 'static>(self: &Arc<Self>, spoken: &Arc<Spoken<B>>, frames: &mut FrameReader) {
        loop {
            let message = match frames.next(&mut &*self.stream) {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(broken) => {
                    return tracing::debug!(visit = self.number, %broken, "a connection is ended");
                }
            };
            let Ok((number, kind)) = Call::peek(&message) else {
                return tracing::debug!(
                    visit = self.number,
                    "a connection is ended: what it sends is no call"
                );
            };
            let Some(slot) = self.window.enter(message.len(), LIFE_REST, || self.show_life()) else {
                return;
            };
            let unanswered = Unanswered::new(self.clone(), number, kind, slot);
            let (spoken, len) = (spoken.clone(), message.len());
            let job = Box::new(move || answer(&spoken, &message, unanswered));
            self.give((kind, len), job);
        }
    }

    /// Tells a far client that nobody has gone, though its calls are not read for a while.
    fn show_life(&self) {
        if let Some(far) = self.stream.far() {
            // One that cannot be told is found out where it is read.
            let _ = far.show_life();
        }
    }

    /// Gives a call of so many bytes to those who do its kind of work.
    fn give(self: &Arc<Self>, (kind, len): (Kind, usize), job: Job) {
        let pools = &self.station.pools;
        match kind {
            Kind::Ship | Kind::Order | Kind::Salvage => self.queue_ship(job),
            Kind::Page | Kind::Read | Kind::Sealed | Kind::Part | Kind::Contents => pools.load.take(job),
            Kind::Place if len <= LITTLE_CALL_LEN_MAX => pools.little.take(job),
            Kind::Place => pools.place.take(job),
            Kind::Secure => pools.secure.take(job),
            Kind::Act | Kind::Sync | Kind::Rejoin | Kind::Reclaim | Kind::Bring | Kind::Borrow => {
                pools.act.take(job);
            }
            Kind::Look | Kind::LookAgain | Kind::Hold | Kind::LetGo | Kind::Lock => pools.look.take(job),
            Kind::Hear | Kind::TakeBack | Kind::Prolong | Kind::Stand => pools.lend.take(job),
            Kind::Open
            | Kind::Close
            | Kind::Lend
            | Kind::LendInos
            | Kind::GiveBack
            | Kind::Room
            | Kind::Fork
            | Kind::ForkFor
            | Kind::ForkStaged
            | Kind::Checkpoint
            | Kind::CheckpointFor
            | Kind::Rename
            | Kind::SetPlan
            | Kind::Plan
            | Kind::DeleteBranch
            | Kind::HaveShipped
            | Kind::Mark
            | Kind::Marks
            | Kind::Accept
            | Kind::Branches
            | Kind::Take
            | Kind::Delegations
            | Kind::Diff
            | Kind::Undo
            | Kind::Merge
            | Kind::MergeUnsettled
            | Kind::Conflicts
            | Kind::Resolve
            | Kind::Restore
            | Kind::Status => pools.rare.take(job),
            Kind::Renew | Kind::Forgo => pools.hear.take(job),
            Kind::Control => pools.control.take(job),
            Kind::Fold | Kind::Check | Kind::Usage | Kind::ReclaimRoom => pools.long.take(job),
        }
    }

    fn queue_ship(self: &Arc<Self>, job: Job) {
        let mut ships = self.ships.lock();
        ships.queue.push_back(job);
        if !std::mem::replace(&mut ships.is_running, true) {
            drop(ships);
            let visit = self.clone();
            self.station.pools.ship.take(Box::new(move || visit.run_ships()));
        }
    }

    fn run_ships(&self) {
        loop {
            let mut ships = self.ships.lock();
            let Some(job) = ships.queue.pop_front() else {
                ships.is_running = false;
                return;
            };
            drop(ships);
            run(job);
        }
    }

    /// Closes what was opened here when the process that came has ended. Of anybody else nobody knows: he comes back, or the
    /// owner hears no more of him.
    fn close_sessions<B>(&self, spoken: &Spoken<B>, peer: &Peer) {
        let Some((_, owner)) = &spoken.drive else { return };
        let (station, grace) = (&self.station, self.station.limits.grace);
        let has_ended = match peer {
            Peer::Near(process) => {
                station.presence.is_any_at(self.number) && ends_within(process, grace, station.stopping())
            }
            Peer::Far => false,
        };
        let left = station.presence.give_up(self.number);
        for session in left.into_iter().filter(|_| has_ended) {
            match owner.close(session) {
                Ok(()) => tracing::info!(session = session.0, "a session was closed: its process has ended"),
                Err(error) => tracing::warn!(session = session.0, %error, "a session cannot be closed"),
            }
        }
    }
}

/// Why a client does not find the owner of its drive here.
enum Away {
    Elsewhere(ServerAddress),
    Turned(Welcome),
}

/// Finds the owner of a drive, or returns with what its client is sent away.
fn find<B>(host: &dyn Host<B>, name: &DriveName) -> Result<Arc<dyn Owner<B>>, Away> {
    match host.drive(name) {
        Ok(Whereabouts::Here(owner)) => Ok(owner),
        Ok(Whereabouts::Elsewhere(address)) => Err(Away::Elsewhere(address)),
        Err(error) => Err(Away::Turned(turned_away(&error))),
    }
}

fn turned_away(error: &Error) -> Welcome {
    let why = error.to_string();
    if is_final(error) {
        Welcome::Refused(why)
    } else {
        Welcome::Later(why)
    }
}

fn other_version(version: u64) -> Welcome {
    Welcome::Refused(format!(
        "the client speaks version {version} and this process version {VERSION}; use the same release of tenure for both"
    ))
}

/// A stream that is read only so many times.
struct Sparing<'a> {
    stream: &'a Stream,
    reads: usize,
}

impl Read for Sparing<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.reads = self.reads.checked_sub(1).ok_or(io::ErrorKind::TimedOut)?;
        (&mut &*self.stream).read(out)
    }
}
