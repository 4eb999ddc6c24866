//! Serving: other processes connect to a socket or a port and call the owners of this one.
//!
//! Invariant: connections, calls underway and threads are bounded, each kind of work has threads of its own, and a stop
//! comes to an end whatever clients do.

use super::address::ServerAddress;
use super::guest::Guest;
use super::pool::Pool;
use super::presence::{Presence, VisitNumber};
use super::stream::Stream;
use super::visit::Visit;
use super::web;
use crate::frame;
use crate::message::{GREETING_LEN_MAX, Welcome};
use crate::owner::{Error, Owner};
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::Timespec;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_model::{DriveName, Failure};

/// Threads that ship: a batch waits for the disk or a store most of its time, and those that wait together become durable together. So
/// one that waits for a thread waits twice.
const SHIPPERS_MAX: usize = 256;
/// Threads that have chunks made durable: they wait for the disk or a store.
const SECURERS_MAX: usize = 32;
/// Threads that load pages and chunks: they wait for the bucket most of their time.
const LOADERS_MAX: usize = 16;
/// Threads that take chunks: they hash and copy, so more than the processors of a small machine help nobody.
const PLACERS_MAX: usize = 4;
/// Threads that take few chunks at once: no bulk keeps them from it.
const LITTLE_MAX: usize = 4;
/// Threads that do what sessions ask that share a branch: what is long waits for the disk, and many wait together.
const ACTORS_MAX: usize = 32;
/// Threads that answer what such sessions ask: out of memory most of the time.
const LOOKERS_MAX: usize = 16;
/// Threads that hear what is given back, and who is there to whom something is lent: others wait for that, so it waits for nobody.
const LENDERS_MAX: usize = 8;
/// Threads for what is rare and short.
const RARE_MAX: usize = 8;
/// Threads that hear who is still there: no other work keeps them from it, or somebody would be taken for silent who is not.
const HEARERS_MAX: usize = 2;
/// Threads for words to this process: an unmount waits until everything is durable, and a status must not wait for it.
const CONTROLLERS_MAX: usize = 16;
/// Threads for what takes as long as the drive is large.
const LONG_MAX: usize = 2;
/// How long the listener rests when the system has no descriptors left.
const ACCEPT_REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Where the owner of a drive is.
pub enum Whereabouts<B> {
    /// In this process.
    Here(Arc<dyn Owner<B>>),
    /// At another server, to which clients are sent.
    Elsewhere(ServerAddress),
}

/// What serves in this process.
pub trait Host<B>: Send + Sync {
    /// Returns where the owner of a drive is; opening it may take a while. It is asked once for each connection.
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<B>, Error>;

    /// Does or tells what has to do with this process and no drive, such as the drives that it knows. What verbs there
    /// are, and what their arguments and answers mean, is between it and who asks: somebody of this machine, or whom a
    /// doorkeeper has let in to speak about no drive.
    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, Error>;
}

/// The bounds of a service.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; a mount has three.
    pub connections_max: usize,
    /// How long it is watched whether a process of this machine ends whose connection has ended: then its sessions are over
    /// at once. All others are over when the owner has not heard of them for long.
    pub grace: Duration,
    /// How long each part of a greeting may take.
    pub greeting_max: Duration,
    /// How long a client may read no answers: a stopped one is not to lose what it holds for that.
    pub stuck_max: Duration,
    /// How long a stop waits for what is underway.
    pub drain_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 2048,
            grace: Duration::from_secs(10),
            greeting_max: Duration::from_secs(5),
            stuck_max: Duration::from_secs(600),
            drain_max: Duration::from_secs(10),
        }
    }
}

/// Where others connect.
pub enum Door {
    /// A unix socket.
    Unix(UnixListener),
    /// A port.
    Web(web::Listener),
}

/// Sockets and ports that are served. It ends when it is dropped.
///
/// It should end before the drives of its host are closed: clients then look for the next owner instead of being told
/// that the drive was closed.
pub struct Service {
    station: Arc<Station>,
    acceptors: Mutex<Vec<Acceptor>>,
}

/// A thread that accepts, and what wakes it for its end.
struct Acceptor {
    thread: JoinHandle<()>,
    wake: Box<dyn FnOnce() + Send>,
}

/// Serves whoever connects, with threads of its own.
pub fn serve<B: 'static>(
    doors: impl IntoIterator<Item = Door>,
    host: Arc<dyn Host<B>>,
    limits: Limits,
) -> Result<Service, Error> {
    let failed = |error: io::Error| Failure::DidNotHappen(format!("nothing can be served: {error}"));
    let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let service = Service {
        station: Arc::new(Station::new(limits, stop)),
        acceptors: Mutex::default(),
    };
    for door in doors {
        let acceptor = match door {
            Door::Unix(listener) => accept_at_socket(&service.station, listener, &host),
            Door::Web(listener) => accept_at_port(&service.station, listener, &host),
        };
        service.acceptors.lock().push(acceptor.map_err(failed)?);
    }
    Ok(service)
}

impl Service {
    /// Asks the doorkeepers again about everybody who has come by the network: those whom they would not let in any more
    /// are answered what is underway, and then their connections end. Their sessions may come back as any others.
    pub fn review(&self) {
        for visit in self.station.present() {
            visit.review();
        }
    }

    /// Accepts nothing more, answers what is underway, and ends every connection. Sessions stay open, for the next owner.
    pub fn stop(&self) {
        let acceptors = std::mem::take(&mut *self.acceptors.lock());
        if acceptors.is_empty() {
            return;
        }
        self.station.begin_stop();
        for Acceptor { thread, wake } in acceptors {
            wake();
            // One that has panicked accepts nothing more either.
            let _ = thread.join();
        }
        self.station.finish_stop();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The threads for each kind of work, so that one kind never waits for another.
pub(super) struct Pools {
    pub(super) ship: Arc<Pool>,
    pub(super) load: Arc<Pool>,
    pub(super) place: Arc<Pool>,
    pub(super) little: Arc<Pool>,
    pub(super) secure: Arc<Pool>,
    pub(super) act: Arc<Pool>,
    pub(super) look: Arc<Pool>,
    pub(super) lend: Arc<Pool>,
    pub(super) rare: Arc<Pool>,
    pub(super) hear: Arc<Pool>,
    pub(super) control: Arc<Pool>,
    pub(super) long: Arc<Pool>,
}

impl Pools {
    fn new() -> Self {
        Self {
            ship: Pool::new("tenure-ship", SHIPPERS_MAX),
            load: Pool::new("tenure-load", LOADERS_MAX),
            place: Pool::new("tenure-place", PLACERS_MAX),
            little: Pool::new("tenure-little", LITTLE_MAX),
            secure: Pool::new("tenure-secure", SECURERS_MAX),
            act: Pool::new("tenure-act", ACTORS_MAX),
            look: Pool::new("tenure-look", LOOKERS_MAX),
            lend: Pool::new("tenure-lend", LENDERS_MAX),
            rare: Pool::new("tenure-rare", RARE_MAX),
            hear: Pool::new("tenure-hear", HEARERS_MAX),
            control: Pool::new("tenure-control", CONTROLLERS_MAX),
            long: Pool::new("tenure-long", LONG_MAX),
        }
    }

    fn stop(&self) {
        let Self {
            ship,
            load,
            place,
            little,
            secure,
            act,
            look,
            lend,
            rare,
            hear,
            control,
            long,
        } = self;
        [
            ship, load, place, little, secure, act, look, lend, rare, hear, control, long,
        ]
        .into_iter()
        .for_each(|pool| pool.stop());
    }
}

/// What all connections share.
pub(super) struct Station {
    pub(super) limits: Limits,
    pub(super) pools: Pools,
    pub(super) presence: Presence,
    /// Can be read from the stop on.
    stop: OwnedFd,
    is_stopping: AtomicBool,
    visits: Mutex<Visits>,
    left: Condvar,
}

#[derive(Default)]
struct Visits {
    last: VisitNumber,
    present: BTreeMap<VisitNumber, Arc<Visit>>,
    /// How many have ended and wait for their sessions to come back.
    lingering: usize,
}

impl Visits {
    fn is_over(&self) -> bool {
        self.present.is_empty() && self.lingering == 0
    }
}

impl Station {
    fn new(limits: Limits, stop: OwnedFd) -> Self {
        Self {
            limits,
            pools: Pools::new(),
            presence: Presence::default(),
            stop,
            is_stopping: AtomicBool::new(false),
            visits: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// Returns what can be read once the service stops.
    pub(super) fn stopping(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // A counter of one never overflows, and nothing else fails.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.present().iter().for_each(|visit| visit.hang_up());
    }

    fn finish_stop(&self) {
        self.present().iter().for_each(|visit| visit.hang_up());
        self.wait_until_all_left();
        self.present().iter().for_each(|visit| visit.cut());
        self.pools.stop();
        self.wait_until_all_left();
    }

    fn present(&self) -> Vec<Arc<Visit>> {
        self.visits.lock().present.values().cloned().collect()
    }

    /// Ends a connection that was left, and waits until what came over it is done.
    pub(super) fn end_visit(&self, number: VisitNumber) {
        let visit = self.visits.lock().present.get(&number).cloned();
        if let Some(visit) = visit {
            visit.finish(self.limits.drain_max);
        }
    }

    fn wait_until_all_left(&self) {
        let mut visits = self.visits.lock();
        self.left
            .wait_while_for(&mut visits, |visits| !visits.is_over(), self.limits.drain_max);
    }

    /// Lets a connection in, unless there are too many.
    fn enter(
        self: &Arc<Self>,
        stream: Stream,
        guest: Option<Arc<Guest>>,
    ) -> Result<Present, (Stream, String)> {
        let mut visits = self.visits.lock();
        let max = self.limits.connections_max;
        if self.is_stopping.load(Ordering::SeqCst) {
            return Err((stream, "the owner ends; try again later".into()));
        }
        if visits.present.len() >= max {
            let why = format!("the owner has {max} connections, as many as it takes; try again later");
            return Err((stream, why));
        }
        visits.last += 1;
        let number = visits.last;
        let visit = Visit::new(self.clone(), number, stream, guest);
        visits.present.insert(number, visit.clone());
        Ok(Present {
            station: self.clone(),
            number,
            visit,
        })
    }

    /// Takes a connection that has ended off those that count, though its sessions may come back.
    pub(super) fn linger(self: &Arc<Self>, number: VisitNumber) -> Lingering {
        let mut visits = self.visits.lock();
        visits.present.remove(&number);
        visits.lingering += 1;
        Lingering(self.clone())
    }

    fn rest(&self) {
        let mut ends = [PollFd::new(&self.stop, PollFlags::IN)];
        // A rest that is interrupted is a short one.
        let _ = poll(&mut ends, Some(&ACCEPT_REST));
    }
}

/// A connection that counts as long as this lives.
struct Present {
    station: Arc<Station>,
    number: VisitNumber,
    visit: Arc<Visit>,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.visit.cut();
        self.station.visits.lock().present.remove(&self.number);
        self.station.left.notify_all();
    }
}

/// A connection that has ended, until nothing of it is waited for.
pub(super) struct Lingering(Arc<Station>);

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.visits.lock().lingering -= 1;
        self.0.left.notify_all();
    }
}

fn accept_at_socket<B: 'static>(
    station: &Arc<Station>,
    listener: UnixListener,
    host: &Arc<dyn Host<B>>,
) -> io::Result<Acceptor> {
    let listener = Arc::new(listener);
    let (station, host, accepting) = (station.clone(), host.clone(), listener.clone());
    let thread = std::thread::Builder::new()
        .name("tenure-accept".into())
        .spawn(move || accept_all(&station, &accepting, &host))?;
    let wake = move || {
        // It is asked for nothing but to wake who accepts.
        let _ = rustix::net::shutdown(&*listener, rustix::net::Shutdown::Read);
    };
    Ok(Acceptor {
        thread,
        wake: Box::new(wake),
    })
}

fn accept_at_port<B: 'static>(
    station: &Arc<Station>,
    listener: web::Listener,
    host: &Arc<dyn Host<B>>,
) -> io::Result<Acceptor> {
    let stop = web::Stop::default();
    let (station, host, theirs) = (station.clone(), host.clone(), stop.clone());
    let greeting_max = station.limits.greeting_max;
    let admit = Arc::new(move |stream, guest| admit(&station, stream, Some(Arc::new(guest)), &host));
    let accept = move || {
        if let Err(error) = web::accept_all(listener, &theirs, greeting_max, admit) {
            tracing::error!(%error, "a port is not served");
        }
    };
    let thread = std::thread::Builder::new()
        .name("tenure-port".into())
        .spawn(accept)?;
    Ok(Acceptor {
        thread,
        wake: Box::new(move || stop.stop()),
    })
}

fn accept_all<B: 'static>(station: &Arc<Station>, listener: &UnixListener, host: &Arc<dyn Host<B>>) {
    loop {
        let accepted = listener.accept();
        if station.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => admit(station, stream.into(), None, host),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                ) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                station.rest();
            }
        }
    }
}

fn admit<B: 'static>(
    station: &Arc<Station>,
    stream: Stream,
    guest: Option<Arc<Guest>>,
    host: &Arc<dyn Host<B>>,
) {
    let present = match station.enter(stream, guest) {
        Ok(present) => present,
        Err((stream, why)) => return turn_away(&stream, &why),
    };
    let host = host.clone();
    let served = std::thread::Builder::new()
        .name("tenure-visit".into())
        .spawn(move || present.visit.run(host));
    if let Err(error) = served {
        tracing::warn!(%error, "no thread can be started for a connection");
    }
}

fn turn_away(stream: &Stream, why: &str) {
    tracing::warn!("a connection was turned away: {why}");
    let welcome = Welcome::Later(why.to_owned()).written();
    if let Ok(header) = frame::header([&welcome[..]].into_iter(), GREETING_LEN_MAX) {
        // The answer is shorter than a socket's buffer; a client that has gone does not need it.
        let _ = stream.send_all(&mut [&header[..], &welcome].map(IoSlice::new), Duration::ZERO);
    }
}
