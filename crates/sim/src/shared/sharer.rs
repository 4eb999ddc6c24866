//! A session that shares a branch: what its programs do there, one thing after the other, and what they are told.
//!
//! It chooses, and hands on what was asked and told. Invariant: it asks for everything through `SharedBranch`, as a mount does.

use super::ground::{BRANCH, Ground, Known, Phase, content, named, version_of};
use crate::check::{Entry, Party, Place, Span};
use crate::random::Random;
use crate::trace::Trace;
use crate::turns::Turn;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::fmt::Arguments;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use tenure_client::{Files, Listing, ListingRoom, SharedBranch, Threads};
use tenure_core::DirEntry;
use tenure_model::{
    Attr, Clock, Epoch, Ino, Lock, LockFamily, LockKind, LockRange, Locked, Name, NewNode, Refusal,
    RenameMode,
};
use tenure_wire::{Error, Owner, Who};

/// Bytes of an entry in a log.
const ENTRY_LEN: usize = 16;
/// Bytes of a log that are read, and of a listing: more than there can be.
const LEN_MAX: u32 = 1 << 18;
/// Files that a session keeps open.
const OPEN_MAX: usize = 3;
/// Makers of each name that several make.
const RACERS: u64 = 4;

/// Where others find a session's branch while it is there.
pub(crate) type Seat = Arc<Mutex<Option<Arc<SharedBranch>>>>;

/// Says who has answered a session last, and whether it was heard.
pub(crate) trait Way: Send + Sync {
    /// Returns the epoch of the owner that has answered last.
    fn answered(&self) -> Epoch;

    /// Returns how often an owner has answered what it was asked to look at or to change.
    fn answers(&self) -> u64;

    /// Tells whether the newest owner has not heard of the session for too long.
    fn was_silent(&self) -> bool;
}

/// Who comes, and how.
pub(crate) struct Comer {
    pub(crate) ground: Arc<Ground>,
    pub(crate) owner: Arc<dyn Owner<tenure_core::Branch>>,
    pub(crate) way: Arc<dyn Way>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) threads: Threads,
    pub(crate) trace: Trace,
    pub(crate) party: Party,
    /// Which of the machines.
    pub(crate) machine: usize,
    pub(crate) random: Random,
    pub(crate) seat: Seat,
}

impl Comer {
    /// Shares the branch, and works until its process ends, the session is over, or everybody is to go.
    pub(crate) fn live(self, turn: &Turn) {
        let seat = self.seat.clone();
        if let Some(mut sharer) = self.join() {
            while turn.pass() && sharer.stay == Stay::There {
                let phase = sharer.known().phase;
                match phase {
                    Phase::Working => sharer.work(),
                    Phase::Closing => sharer.end(),
                    Phase::Last => {
                        sharer.lock_all();
                        sharer.end();
                    }
                }
            }
            if sharer.stay == Stay::Over {
                // Nothing is done for it any more.
                sharer.write();
                sharer.sync();
                sharer.look_at_all();
            }
        }
        *seat.lock() = None;
    }

    /// Shares the branch, works for so many steps at most, and leaves.
    pub(crate) fn visit(self, steps: u64) {
        let Some(mut sharer) = self.join() else { return };
        for _ in 0..steps {
            if sharer.stay != Stay::There {
                return;
            }
            sharer.work();
        }
        if sharer.known().phase == Phase::Last {
            sharer.lock_all();
        }
        sharer.end();
    }

    fn join(self) -> Option<Sharer> {
        let who = Who {
            agent: self.party.to_string(),
            host: format!("machine-{}", self.machine),
            pid: 1,
            purpose: "a world".to_owned(),
            hosted: false,
        };
        let options = tenure_client::Options {
            threads: self.threads,
            ..tenure_client::Options::default()
        };
        let joined = self.owner.open(&who).and_then(|opened| {
            let session = opened.session;
            self.ground.known.lock().parties.insert(session, self.party);
            SharedBranch::join(self.owner.clone(), self.clock.clone(), opened, BRANCH, options)
        });
        let outcome = joined.as_ref().map(drop);
        self.trace
            .note(format_args!("  {} shares: {outcome:?}", self.party));
        let shared = Arc::new(joined.ok()?);
        *self.seat.lock() = Some(shared.clone());
        Some(Sharer {
            comer: self,
            shared,
            made: 0,
            open: Vec::new(),
            locked: None,
            stay: Stay::There,
        })
    }
}

/// Whether a session is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    There,
    /// It was told that it is over.
    Over,
    Left,
}

struct Sharer {
    comer: Comer,
    shared: Arc<SharedBranch>,
    /// Versions, entries and names that it has made so far.
    made: u64,
    open: Vec<(Place, Ino)>,
    /// The plot whose lock it has.
    locked: Option<usize>,
    stay: Stay,
}

impl Sharer {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.comer.ground.known.lock()
    }

    fn random(&mut self) -> &mut Random {
        &mut self.comer.random
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn fresh_name(&mut self) -> String {
        let number = self.next();
        format!("n-{}-{number}", self.comer.party.0)
    }

    /// Returns a plot: more often that of its machine.
    fn plot(&mut self) -> usize {
        let (all, own) = (self.comer.ground.plots.len() as u64, self.comer.machine as u64);
        let random = self.random();
        let plot = if random.one_in(2) { own } else { random.next() };
        (plot % all) as usize
    }

    fn work(&mut self) {
        match self.random().below(32) {
            0..5 => self.write(),
            5..9 => self.read(),
            9..12 => self.append(),
            12..14 => self.read_log(),
            14..17 => self.create(),
            17 => self.race(),
            18 | 19 => self.rename(),
            20 | 21 => self.unlink(),
            22 | 23 => self.look_up(),
            24 | 25 => self.list(),
            26 => self.take_or_give_lock(),
            27 | 28 => self.sync(),
            29 => self.open_or_close(),
            30 => self.look_at_open(),
            _ => {
                if self.random().one_in(4) {
                    self.end();
                }
            }
        }
    }

    /// Asks something, and notes what was told.
    fn ask<T>(
        &mut self,
        what: Arguments<'_>,
        ask: impl FnOnce(&SharedBranch) -> Result<T, Error>,
    ) -> (Span, Result<T, Error>) {
        self.shared.tend();
        let party = self.comer.party;
        let (last, answers) = (self.comer.way.answered(), self.comer.way.answers());
        let asked = self.known().past.asks(party, last);
        let outcome = ask(&self.shared);
        if let Err(Error::Refused(Refusal::Stale)) = outcome {
            self.stay = Stay::Over;
            if self.comer.way.was_silent() {
                self.known().past.was_away(party);
            }
        }
        let epoch = self.comer.way.answered();
        let is_here = self.comer.way.answers() == answers;
        let span = self.known().past.told(asked, &outcome, (epoch, is_here));
        let short = outcome.as_ref().map(drop);
        self.comer.trace.note(format_args!("  {span} {what}: {short:?}"));
        (span, outcome)
    }

    /// Notes an answer that no promise allows.
    fn odd<T: std::fmt::Debug>(&self, span: Span, what: &str, answer: T) {
        self.known().past.breaks(format!("{span} {what}: {answer:?}"));
    }

    /// Notes a refusal that has no reason.
    fn unless_refused<T>(&self, span: Span, what: &str, outcome: &Result<T, Error>) {
        match outcome {
            Ok(_) | Err(Error::Failed(_) | Error::Refused(Refusal::Stale)) => {}
            Err(Error::Refused(refusal)) => self.odd(span, what, refusal),
        }
    }

    fn write(&mut self) {
        let at = self.plot();
        let plot = self.comer.ground.plots[at];
        let version = self.comer.party.0 << 32 | self.next();
        let bytes = Bytes::from(content(version, plot.len));
        let write = |shared: &SharedBranch| shared.write(plot.register, 0, bytes);
        let (span, written) = self.ask(format_args!("writes {version:x} to {at}"), write);
        self.unless_refused(span, "writes", &written);
        self.known().past.wrote(span, at, version);
    }

    fn read(&mut self) {
        let at = self.plot();
        self.read_at(at);
    }

    fn read_at(&mut self, at: usize) {
        let plot = self.comer.ground.plots[at];
        let mut bytes = vec![0; plot.len + 1];
        let read = |shared: &SharedBranch| shared.read_into(plot.register, 0, &mut bytes);
        let (span, read) = self.ask(format_args!("reads {at}"), read);
        self.unless_refused(span, "reads", &read);
        let Ok(len) = read else { return };
        match version_of(&bytes[..len], plot.len) {
            Some(version) => self.known().past.read(span, at, version),
            None => self.odd(span, "reads what nobody wrote", &bytes[..len.min(64)]),
        }
    }

    fn append(&mut self) {
        let at = self.plot();
        let plot = self.comer.ground.plots[at];
        let entry = (self.comer.party.0, self.next());
        let append = |shared: &SharedBranch| shared.append(plot.log, &bytes_of(entry));
        let (span, appended) = self.ask(format_args!("appends {entry:?} to {at}"), append);
        self.unless_refused(span, "appends", &appended);
        self.known().past.appended(span, at, entry);
    }

    fn read_log(&mut self) {
        let at = self.plot();
        self.read_log_at(at);
    }

    fn read_log_at(&mut self, at: usize) {
        let plot = self.comer.ground.plots[at];
        let mut bytes = vec![0; LEN_MAX as usize];
        let read = |shared: &SharedBranch| shared.read_into(plot.log, 0, &mut bytes);
        let (span, read) = self.ask(format_args!("reads the log of {at}"), read);
        self.unless_refused(span, "reads", &read);
        let Ok(len) = read else { return };
        match entries_of(&bytes[..len]) {
            Some(entries) => self.known().past.read_log(span, at, entries),
            None => self.odd(span, "reads half an entry", len),
        }
    }

    fn create(&mut self) {
        let place = (self.plot(), self.fresh_name());
        let (span, made) = self.make(&place);
        self.unless_refused(span, "creates", &made);
        let mut known = self.known();
        match made {
            Ok((ino, _)) => {
                known.past.made(span, place.clone(), Some(ino));
                known.names.push((place, ino));
            }
            Err(_) => known.past.made(span, place, None),
        }
    }

    /// Makes a name that others make too; it stays.
    fn race(&mut self) {
        let at = self.plot();
        let round = {
            let mut known = self.known();
            known.raced += 1;
            known.raced / RACERS
        };
        let place = (at, format!("race-{round}"));
        match self.make(&place) {
            (span, Ok((ino, _))) => self.known().past.made(span, place, Some(ino)),
            (span, Err(Error::Refused(Refusal::Exists))) => {
                let mut known = self.known();
                known.past.saw(span, place.clone(), Some(None));
                if let Some(span) = span.perhaps() {
                    known.past.made(span, place, None);
                }
            }
            (span, made) => {
                self.unless_refused(span, "creates", &made);
                self.known().past.made(span, place, None);
            }
        }
    }

    fn make(&mut self, place: &Place) -> (Span, Result<(Ino, Attr), Error>) {
        let (directory, name) = self.found_at(place);
        let make = |shared: &SharedBranch| shared.create(directory, &name, &NewNode::file());
        self.ask(format_args!("creates {place:?}"), make)
    }

    fn found_at(&self, place: &Place) -> (Ino, Name) {
        (self.comer.ground.plots[place.0].directory, named(&place.1))
    }

    /// Returns one of the names that are known to be there.
    fn any_name(&mut self) -> Option<(Place, Ino)> {
        let many = self.known().names.len() as u64;
        let at = self.random().below(many.max(1)) as usize;
        self.known().names.get(at).cloned()
    }

    fn rename(&mut self) {
        let Some((from, ino)) = self.any_name() else {
            return;
        };
        let to = (self.plot(), self.fresh_name());
        let ((parent, name), (new_parent, new_name)) = (self.found_at(&from), self.found_at(&to));
        let ends = ((parent, &name), (new_parent, &new_name));
        let rename = |shared: &SharedBranch| shared.rename(ends.0, ends.1, RenameMode::NoReplace);
        let (span, renamed) = self.ask(format_args!("renames {from:?} to {to:?}"), rename);
        let Some(span) = self.removed(span, &from, &renamed) else {
            return;
        };
        let mut known = self.known();
        known.past.removed(span, from.clone());
        known.past.made(span, to.clone(), Some(ino));
        if renamed.is_ok() {
            known.remove(&from);
            known.names.push((to, ino));
        }
    }

    fn unlink(&mut self) {
        let Some((place, _)) = self.any_name() else { return };
        let (directory, name) = self.found_at(&place);
        let unlink = |shared: &SharedBranch| shared.unlink(directory, &name);
        let (span, unlinked) = self.ask(format_args!("unlinks {place:?}"), unlink);
        let Some(span) = self.removed(span, &place, &unlinked) else {
            return;
        };
        let mut known = self.known();
        known.past.removed(span, place.clone());
        if unlinked.is_ok() {
            known.remove(&place);
        }
    }

    /// Returns the call by which a name was removed, or may have been; notes that it was not there.
    fn removed<T>(&self, span: Span, place: &Place, removed: &Result<T, Error>) -> Option<Span> {
        match removed {
            Err(Error::Refused(Refusal::NotFound)) => {
                self.known().past.saw(span, place.clone(), None);
                span.perhaps()
            }
            removed => {
                self.unless_refused(span, "removes", removed);
                Some(span)
            }
        }
    }

    fn look_up(&mut self) {
        let many = self.known().gone.len() as u64;
        let gone = self.random().below(many.max(1)) as usize;
        let gone = self.known().gone.get(gone).cloned();
        let there = self.any_name().map(|(place, _)| place);
        let place = if self.random().one_in(2) { there } else { gone };
        let Some(place) = place else { return };
        let (directory, name) = self.found_at(&place);
        let look = |shared: &SharedBranch| shared.lookup(directory, &name);
        match self.ask(format_args!("looks {place:?} up"), look) {
            (span, Ok((ino, _))) => self.known().past.saw(span, place, Some(Some(ino))),
            (span, Err(Error::Refused(Refusal::NotFound))) => self.known().past.saw(span, place, None),
            (span, found) => self.unless_refused(span, "looks up", &found),
        }
    }

    fn list(&mut self) {
        let at = self.plot();
        self.list_at(at);
    }

    fn list_at(&mut self, at: usize) {
        let directory = self.comer.ground.plots[at].directory;
        let mut entries = Entries(Vec::new());
        let room = ListingRoom {
            with_attrs: false,
            len: LEN_MAX,
        };
        let list = |shared: &SharedBranch| shared.list(directory, 0, room, &mut entries);
        let (span, listed) = self.ask(format_args!("lists {at}"), list);
        self.unless_refused(span, "lists", &listed);
        if listed.is_ok() {
            let found = Ground::moving(entries.0);
            self.known().past.listed(span, at, found);
        }
    }

    fn take_or_give_lock(&mut self) {
        match self.locked {
            Some(at) => self.unlock(at),
            None => {
                let at = self.plot();
                let kind = *self.random().pick(&[LockKind::Exclusive, LockKind::Shared]);
                self.lock(at, kind);
            }
        }
    }

    fn lock(&mut self, at: usize, kind: LockKind) {
        let lock = Lock {
            ino: self.comer.ground.plots[at].lock,
            family: LockFamily::Flock,
            owner: self.shared.lock_owner(1),
            range: LockRange {
                first: 0,
                last: u64::MAX,
            },
            kind,
            pid: 1,
        };
        let (span, locked) = self.ask(format_args!("locks {at} {kind:?}"), |shared| shared.lock(lock));
        self.unless_refused(span, "locks", &locked);
        let mut known = self.known();
        match locked {
            Ok(Locked::Taken) => {
                known.past.locked(span, at, kind == LockKind::Exclusive);
                drop(known);
                self.locked = Some(at);
            }
            Ok(Locked::Blocked(blocker)) => {
                let by = known.parties.get(&blocker.owner.session).copied();
                match by {
                    Some(by) if known.phase != Phase::Last => known.past.was_blocked(span, by),
                    by => known.past.breaks(format!(
                        "{span} is refused a lock that {by:?} has, who is not there"
                    )),
                }
            }
            locked @ Ok(Locked::Queued | Locked::Deadlock) => {
                known.past.breaks(format!("{span} locks: {locked:?}"));
            }
            Err(_) => {}
        }
    }

    fn unlock(&mut self, at: usize) {
        let (ino, owner) = (self.comer.ground.plots[at].lock, self.shared.lock_owner(1));
        let range = LockRange {
            first: 0,
            last: u64::MAX,
        };
        let unlock = |shared: &SharedBranch| shared.unlock(ino, LockFamily::Flock, owner, range);
        let (span, unlocked) = self.ask(format_args!("unlocks {at}"), unlock);
        self.unless_refused(span, "unlocks", &unlocked);
        self.known().past.unlocked(span, at);
        if unlocked.is_ok() {
            self.locked = None;
        }
    }

    fn sync(&mut self) {
        let sync = |shared: &SharedBranch| {
            let (send, receive) = mpsc::channel();
            shared.sync_all_then(Box::new(move |synced| drop(send.send(synced))));
            receive.recv().expect("a sync is answered")
        };
        let (span, synced) = self.ask(format_args!("syncs"), sync);
        self.unless_refused(span, "syncs", &synced);
        if synced.is_ok() {
            self.known().past.synced(span);
        }
    }

    fn open_or_close(&mut self) {
        if self.open.len() == OPEN_MAX {
            let (_, ino) = self.open.remove(0);
            return self.shared.closed(ino);
        }
        let Some((place, ino)) = self.any_name() else {
            return;
        };
        if self.open.iter().any(|(_, open)| *open == ino) {
            return;
        }
        // One that was removed meanwhile cannot be opened.
        if let (_, Ok(())) = self.ask(format_args!("opens {place:?}"), |shared| shared.open(ino)) {
            self.open.push((place, ino));
        }
    }

    fn look_at_open(&mut self) {
        for (place, ino) in self.open.clone() {
            let look = |shared: &SharedBranch| shared.attr(ino);
            match self.ask(format_args!("looks at inode {ino}, which it has open"), look) {
                (span, Err(Error::Refused(Refusal::NotFound))) => {
                    self.known().past.misses_open(span, place, ino);
                }
                (span, looked) => self.unless_refused(span, "looks", &looked),
            }
        }
    }

    fn look_at_all(&mut self) {
        for at in 0..self.comer.ground.plots.len() {
            self.read_at(at);
            self.read_log_at(at);
            self.list_at(at);
        }
        self.look_at_open();
    }

    /// Takes every lock: nobody else is there.
    fn lock_all(&mut self) {
        for at in 0..self.comer.ground.plots.len() {
            self.lock(at, LockKind::Exclusive);
        }
    }

    /// Looks at everything once more, and gives everything back.
    fn end(&mut self) {
        self.look_at_all();
        let (span, left) = self.ask(format_args!("leaves"), |shared| shared.close());
        let party = self.comer.party;
        let mut known = self.known();
        if left.is_ok() {
            known.past.synced(span);
            known.past.leaves(party);
        } else {
            known.past.dies(party);
        }
        drop(known);
        self.stay = match left {
            Err(Error::Refused(_)) => Stay::Over,
            Ok(()) | Err(Error::Failed(_)) => Stay::Left,
        };
    }
}

/// The entries of a directory.
struct Entries(Vec<(Name, Ino)>);

impl Listing for Entries {
    fn begin(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, entry: DirEntry<'_>, _: Option<&Attr>) -> ControlFlow<()> {
        let name = Name::parse(entry.name).expect("only valid names are put");
        self.0.push((name, entry.ino));
        ControlFlow::Continue(())
    }
}

pub(super) fn bytes_of((party, number): Entry) -> [u8; ENTRY_LEN] {
    (u128::from(party) << 64 | u128::from(number)).to_be_bytes()
}

/// Returns the entries of a log, if all of them are whole.
pub(super) fn entries_of(bytes: &[u8]) -> Option<Vec<Entry>> {
    let (entries, rest) = bytes.as_chunks::<ENTRY_LEN>();
    let entry = |bytes: &[u8; ENTRY_LEN]| {
        let both = u128::from_be_bytes(*bytes);
        ((both >> 64) as u64, both as u64)
    };
    rest.is_empty().then(|| entries.iter().map(entry).collect())
}
