//! How a command gets at a drive: it opens it itself, or asks the process that owns it.

mod used;

pub(crate) use used::{drive_for, drive_to_read, whom};

use crate::clock::{MachineClock, random};
use crate::drives::{self, Asked};
use crate::error::Told;
use crate::hint;
use crate::home;
use crate::neighbours::Neighbours;
use crate::place::Place;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Branch;
use tenure_model::{BranchName, DriveName, Epoch, Failure, Refusal};
use tenure_server::{Beginning, Drive, Options, Peers};
use tenure_store::{Bucket, Cache, OverlayBucket};
use tenure_wire::{
    BranchInfo, Connection, Dial, Door, Greeting, Host, Limits, Owner, Patience, ServerAddress, Service,
    Whereabouts, Who, serve, unix,
};

/// The branch that is meant where none is named.
pub(crate) const MAIN: &str = "main";

/// How long a command waits for a drive whose owner is about to end or to listen.
const TRIES: u32 = 100;
const REST: Duration = Duration::from_millis(50);
/// How long a socket may take to let us in.
const DIAL_MAX: Duration = Duration::from_secs(5);

pub(crate) type AnyOwner = Arc<dyn Owner<Branch>>;

/// What a drive is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To look at it: where its bucket cannot be written, it is read all the same.
    Read,
    /// To change it, or to let others do so.
    Change,
    /// To change it, or else to look at it.
    Either,
}

/// Bytes of room below which who only looks at a drive writes nothing to its disk: opening it takes about as many.
const ROOM_TO_OPEN: u64 = 4 << 20;

/// A drive that this process owns, and at whose socket it answers others.
pub(crate) struct Hosting {
    drive: Arc<Drive>,
    service: Option<Service>,
    /// Why it is only looked at, if so: then nothing is written, and nobody else answered.
    unwritable: Option<String>,
}

impl Hosting {
    /// Lets others reach a drive that was opened with that socket.
    pub(crate) fn begin(drive: Arc<Drive>, socket: &Path) -> Result<Self, tenure_wire::Error> {
        let listener = unix::listen(socket)?;
        let host = Arc::new(OneDrive(Arc::clone(&drive)));
        let service = serve::<Branch>([Door::Unix(listener)], host, Limits::default())?;
        Ok(Hosting {
            drive,
            service: Some(service),
            unwritable: None,
        })
    }

    /// Opens a drive whose bucket cannot be written: what opening and looking write stays in memory. Those who look keep out who
    /// would write, and each other not.
    fn look(bucket: &Arc<dyn Bucket>, name: &DriveName, why: String) -> Result<Self, tenure_wire::Error> {
        let over = Arc::new(OverlayBucket::over(Arc::clone(bucket)));
        Ok(Hosting {
            drive: Drive::open(over, name, options(None))?,
            service: None,
            unwritable: Some(why),
        })
    }

    /// Sends the others away, to look for the next owner, and lets the drive go.
    fn end(mut self) -> Result<(), tenure_wire::Error> {
        if let Some(service) = self.service.take() {
            service.stop();
        }
        if self.unwritable.is_some() {
            return Ok(());
        }
        self.drive.close()
    }
}

/// Serves the drive that this process owns.
struct OneDrive(Arc<Drive>);

impl Host<Branch> for OneDrive {
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<Branch>, tenure_wire::Error> {
        if name == self.0.name() {
            return Ok(Whereabouts::Here(Arc::clone(&self.0) as AnyOwner));
        }
        Err(Refusal::Because(format!("this process serves {} and not {name}", self.0.name())).into())
    }

    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, tenure_wire::Error> {
        match drives::asked(verb, arguments)? {
            Asked::Owns { drive, epoch } => {
                let owns =
                    drive == self.0.name().as_str() && self.0.is_open() && self.0.epoch() >= Epoch(epoch);
                Ok(serde_json::to_vec(&owns).expect("a flag is JSON"))
            }
            Asked::List | Asked::Parts | Asked::Create { .. } | Asked::Delete { .. } => {
                let name = self.0.name();
                Err(Refusal::Because(format!("this process serves the drive {name} and no others")).into())
            }
        }
    }
}

/// A drive that answers.
pub(crate) enum Reached {
    /// This process owns it until it is closed.
    Here(Hosting),
    /// Another process owns it; should that end, this one takes it over.
    There {
        /// The way there.
        connection: Arc<Connection>,
        /// What this process has taken over.
        taken: Taken,
    },
}

type Taken = Arc<Mutex<Option<Hosting>>>;

impl Reached {
    /// Returns what answers the calls.
    pub(crate) fn owner(&self) -> AnyOwner {
        match self {
            Reached::Here(hosting) => Arc::clone(&hosting.drive) as AnyOwner,
            Reached::There { connection, .. } => Arc::clone(connection) as AnyOwner,
        }
    }

    /// Says that the drive is only looked at, and why, if so.
    pub(crate) fn notice(&self) -> Option<String> {
        let Reached::Here(Hosting { unwritable, .. }) = self else {
            return None;
        };
        let why = unwritable.as_ref()?;
        Some(format!(
            "the bucket is only read, and nothing of it is changed: {why}"
        ))
    }

    /// Tells whether the owner is in this process and ends with it.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Reached::Here(_))
    }

    /// Lets the drive go.
    pub(crate) fn close(self) -> Result<()> {
        let hosting = match self {
            Reached::Here(hosting) => Some(hosting),
            Reached::There { connection, taken } => {
                drop(connection);
                taken.lock().take()
            }
        };
        hosting
            .map_or(Ok(()), Hosting::end)
            .context("the drive could not be closed")
    }
}

/// Returns how this process opens a drive.
pub(crate) fn options(address: Option<ServerAddress>) -> Options {
    let mut options = Options::new(
        Arc::new(MachineClock),
        Arc::new(random),
        home::host(),
        std::process::id(),
    );
    options.address = address;
    options
}

/// Returns the socket at which a drive of a bucket is served on this machine.
pub(crate) fn socket(place: &Place, name: &DriveName) -> Result<PathBuf> {
    let folder = place.identity()?.join(name.as_str());
    Ok(unix::socket_path(
        &home::sockets()?,
        folder.as_os_str().as_encoded_bytes(),
    ))
}

/// Gets at a drive of the bucket: opens it, or reaches the process that owns it.
///
/// Where this process opens it, what is read of a service's bucket passes through `cache`.
pub(crate) fn drive(
    place: &Place,
    name: &DriveName,
    (who, purpose): (Who, Purpose),
    cache: &Arc<Cache>,
) -> Result<Reached> {
    hint::words::mean(name, place);
    if place.server.is_named() {
        let dial = place.server.dial(&place.way, Some(name.clone()))?;
        return there(dial, name, who, Taken::default()).map_err(|error| place.server.no_server(error));
    }
    let bucket = place.kept()?.open()?;
    let may_look = purpose != Purpose::Change && bucket.disk().is_some();
    let look = |why: String| {
        let looked = may_look.then(|| Hosting::look(&bucket, name, why));
        looked.and_then(Result::ok).map(Reached::Here)
    };
    let socket = match socket(place, name) {
        Ok(socket) => socket,
        Err(error) => return look(format!("{error:#}")).ok_or(error),
    };
    // The last of the room is for who frees some.
    if purpose == Purpose::Read
        && is_full(&bucket)
        && let Some(reached) = look("its disk is full".to_owned())
    {
        return Ok(reached);
    }
    let mut holder = String::new();
    for number in 1..=TRIES {
        if bucket.disk().is_none()
            && let Some(reached) = answering(place, (&bucket, cache), name, &who)?
        {
            return Ok(reached);
        }
        holder = match host((&bucket, cache), name, &socket) {
            Ok(hosting) => return Ok(Reached::Here(hosting)),
            Err(tenure_wire::Error::Refused(Refusal::Held { by })) => by,
            // Who may not even try the lock is answered by who has it, if somebody has.
            Err(error) => {
                let unwritable = is_unwritable(&error).then(|| error.to_string());
                return at_its_socket((&bucket, cache), name, &who)?
                    .or_else(|| look(unwritable?))
                    .ok_or_else(|| not_hosted(error, name, &socket));
            }
        };
        if let Some(reached) = at_its_socket((&bucket, cache), name, &who)? {
            return Ok(reached);
        }
        // Who has it may be one who only looks; who would change it waits for that one.
        if (purpose == Purpose::Read || number == TRIES)
            && let Some(reached) = look(format!("{holder} has it ({})", hint::held(&holder)))
        {
            return Ok(reached);
        }
        std::thread::sleep(REST);
    }
    Err(tenure_wire::Error::from(Refusal::Held { by: holder }).into())
}

fn is_full(bucket: &Arc<dyn Bucket>) -> bool {
    let space = bucket.disk().and_then(|disk| disk.space().ok());
    space.is_some_and(|space| space.free < ROOM_TO_OPEN)
}

/// Tells whether a drive may be whole, and only cannot be written.
fn is_unwritable(error: &tenure_wire::Error) -> bool {
    use tenure_wire::Error::{Failed, Refused};
    match error {
        Failed(Failure::NoSpace(_) | Failure::DidNotHappen(_) | Failure::Unknown(_)) => true,
        Failed(Failure::Waits(_) | Failure::Corrupt(_) | Failure::Newer(_) | Failure::Fenced(_))
        | Refused(_) => false,
    }
}

/// Says what helps where the drive could be had, but not served at its socket: the error names it then.
fn not_hosted(error: tenure_wire::Error, name: &DriveName, socket: &Path) -> anyhow::Error {
    if !error.to_string().contains(&socket.display().to_string()) {
        return error.into();
    }
    let Some(pid) = unix::listener(socket) else {
        let folder = socket.parent().unwrap_or(socket);
        return Told::failed(error.to_string(), home::elsewhere(folder, home::SOCKETS));
    };
    Told::refused(
        format!("process {pid} owned {name}, has lost it, and still listens for it: {error}"),
        hint::held_by_process(pid),
    )
}

/// Reaches the process of this machine that a drive's lock names, if it answers.
fn at_its_socket(
    (bucket, cache): (&Arc<dyn Bucket>, &Arc<Cache>),
    name: &DriveName,
    who: &Who,
) -> Result<Option<Reached>> {
    let holder = tenure_server::holder(bucket.as_ref(), name)?;
    let Some(ServerAddress::Unix(at)) = holder.and_then(|holder| holder.address) else {
        return Ok(None);
    };
    Ok(connect((bucket, cache), name, &at, who.clone()).ok())
}

/// Reaches the owner of a drive in a bucket where no lock keeps others away, if it answers: whoever opens the drive there
/// deposes its owner. A server on the network is left to those who name it.
fn answering(
    place: &Place,
    (bucket, cache): (&Arc<dyn Bucket>, &Arc<Cache>),
    name: &DriveName,
    who: &Who,
) -> Result<Option<Reached>, tenure_wire::Error> {
    let Some(holder) = tenure_server::holder(bucket.as_ref(), name)? else {
        return Ok(None);
    };
    match &holder.address {
        Some(ServerAddress::Unix(at)) if holder.host == home::host() => {
            Ok(connect((bucket, cache), name, at, who.clone()).ok())
        }
        Some(address @ (ServerAddress::Tls(_) | ServerAddress::Plain(_))) => {
            let neighbours = Neighbours::new(place.way.clone(), place.server.token());
            if neighbours.owns(address, name, Epoch(0)) {
                let by = holder.to_string();
                return Err(Refusal::Held { by }.into());
            }
            Ok(None)
        }
        // Of another machine nobody can be asked: its claim may be all that is left of it.
        Some(ServerAddress::Unix(_)) | None => Ok(None),
    }
}

/// Refuses a drive whose owner answers, where no lock does.
pub(crate) fn refuse_owned(place: &Place, bucket: &Arc<dyn Bucket>, name: &DriveName) -> Result<()> {
    let is_locked = bucket.disk().is_some();
    let (who, cache) = (who("tenure drive".to_owned(), false), Arc::default());
    if is_locked || answering(place, (bucket, &cache), name, &who)?.is_none() {
        return Ok(());
    }
    let by = tenure_server::holder(bucket.as_ref(), name)?;
    let by = by.map_or_else(|| "another process".to_owned(), |holder| holder.to_string());
    Err(Refusal::Held { by }.into())
}

fn host(
    (bucket, cache): (&Arc<dyn Bucket>, &Arc<Cache>),
    name: &DriveName,
    socket: &Path,
) -> Result<Hosting, tenure_wire::Error> {
    let mut options = options(Some(ServerAddress::Unix(socket.to_owned())));
    // What a folder holds is near enough.
    options.cache = bucket.disk().is_none().then(|| Arc::clone(cache));
    let drive = Drive::open(Arc::clone(bucket), name, options)?;
    Hosting::begin(drive, socket)
}

fn connect(
    (bucket, cache): (&Arc<dyn Bucket>, &Arc<Cache>),
    name: &DriveName,
    at: &Path,
    who: Who,
) -> Result<Reached, tenure_wire::Error> {
    let taken = Taken::default();
    let (bucket, cache, drive, socket, hosted) = (
        Arc::clone(bucket),
        Arc::clone(cache),
        name.clone(),
        at.to_owned(),
        Arc::clone(&taken),
    );
    let first = unix::dial(at, DIAL_MAX)?;
    let first = Mutex::new(Some(first));
    let dial = move || {
        if let Some(first) = first.lock().take() {
            return Ok(first);
        }
        unix::dial(&socket, DIAL_MAX).or_else(|_| {
            let mut hosted = hosted.lock();
            if hosted.is_none() {
                *hosted = Some(host((&bucket, &cache), &drive, &socket)?);
            }
            unix::dial(&socket, DIAL_MAX)
        })
    };
    there(Arc::new(dial), name, who, taken)
}

fn there(dial: Dial, name: &DriveName, who: Who, taken: Taken) -> Result<Reached, tenure_wire::Error> {
    let greeting = Greeting {
        drive: Some(name.clone()),
        who,
    };
    let connection = Connection::reach(dial, greeting, Patience::new(Arc::new(MachineClock)))?;
    Ok(Reached::There {
        connection: Arc::new(connection),
        taken,
    })
}

/// Returns who this process is, and what it wants.
pub(crate) fn who(purpose: String, hosted: bool) -> Who {
    Who {
        agent: home::agent(),
        host: home::host(),
        pid: std::process::id(),
        purpose,
        hosted,
    }
}

/// Returns the user and the group of this process.
pub(crate) fn user() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

/// Returns what a new drive begins with: a branch `main` whose root belongs to a user and a group.
pub(crate) fn beginning((uid, gid): (u32, u32)) -> Beginning {
    Beginning {
        hash_key: random(),
        branch: BranchName::parse(MAIN).expect("a literal name"),
        uid,
        gid,
    }
}

/// Returns the branch or checkpoint of a name, or refuses with those that there are.
pub(crate) fn line(owner: &AnyOwner, place: &Place, drive: &DriveName, name: &str) -> Result<BranchInfo> {
    let lines = owner.branches()?;
    let known: Vec<_> = lines.iter().map(|line| line.name.clone()).take(8).collect();
    lines.into_iter().find(|line| line.name == name).ok_or_else(|| {
        Told::refused(
            format!(
                "{drive} has no branch or checkpoint {name}; it has {}",
                known.join(", ")
            ),
            format!("tenure branch list {drive}{} shows all of them", place.options()),
        )
    })
}
