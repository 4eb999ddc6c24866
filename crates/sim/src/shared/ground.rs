//! What those who share a branch work on: files that are there from the beginning, names that come and go, and what is known of both.

use super::sharer::entries_of;
use crate::check::{Broken, Party, Past, Place, Verdict, entries};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_client::Branch;
use tenure_model::record::Source;
use tenure_model::{BranchName, Clock, Ino, Kind, Name, NewNode, SessionId};
use tenure_wire::{Access, Error, ForkAsk, Owner, Who};

/// The branch that is shared.
pub(super) const BRANCH: &str = "commons";

/// Directories; each has a file of each kind.
pub(super) const DIRECTORIES: usize = 3;

/// Bytes of the file that is written whole in each: in its record, in the journal, and in a pack.
const LENS: [usize; DIRECTORIES] = [64, 3000, 90_000];

/// A directory, and the files in it that stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(super) directory: Ino,
    /// Is written whole.
    pub(super) register: Ino,
    /// Bytes of that.
    pub(super) len: usize,
    /// Is appended to.
    pub(super) log: Ino,
    /// Is locked.
    pub(super) lock: Ino,
}

/// Names of the files that stay.
const STAYING: [&str; 3] = ["register", "log", "lock"];

/// What is known of it by all, though they do not speak with each other: what was asked, and what came of it.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) past: Past,
    /// Names that were made, and that nobody was told to be removed.
    pub(super) names: Vec<(Place, Ino)>,
    /// Names that were removed.
    pub(super) gone: Vec<Place>,
    /// Names so far that several make at once.
    pub(super) raced: u64,
    pub(super) parties: BTreeMap<SessionId, Party>,
    pub(crate) phase: Phase,
}

/// How far a world is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Working,
    /// Everybody is to go.
    Closing,
    /// Everybody has gone: one comes who finds all locks free.
    Last,
}

impl Known {
    /// Notes that a name was removed.
    pub(super) fn remove(&mut self, place: &Place) {
        self.names.retain(|(other, _)| other != place);
        self.gone.push(place.clone());
    }
}

type AnyOwner = Arc<dyn Owner<tenure_core::Branch>>;

/// The branch that is shared.
pub(crate) struct Ground {
    pub(super) plots: Vec<Plot>,
    pub(crate) known: Mutex<Known>,
}

impl Ground {
    /// Makes the branch at an owner, with all that stays.
    pub(crate) fn new(owner: &AnyOwner, clock: &Arc<dyn Clock>) -> Verdict<Self> {
        let made = make(owner, clock);
        let plots = made.map_err(|error| Broken(format!("{BRANCH} cannot be made: {error}")))?;
        Ok(Self {
            plots,
            known: Mutex::default(),
        })
    }

    /// Returns how many looks were answered, and how many syncs.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.known.lock().past.counts()
    }

    /// Holds what is left in the end, and all that was asked and told, against what was promised.
    pub(crate) fn judge(&self, owner: &AnyOwner, clock: &Arc<dyn Clock>) -> Verdict<()> {
        let looked = hold(owner, clock, Access::Read).and_then(|branch| self.look_at(&branch));
        looked.map_err(|error| Broken(format!("{BRANCH} cannot be read: {error}")))?;
        self.known.lock().past.judge()
    }

    fn look_at(&self, branch: &Branch) -> Result<(), Error> {
        let mut known = self.known.lock();
        let nobody = known.past.comes();
        for (at, plot) in self.plots.iter().enumerate() {
            let epoch = branch.opened().epoch;
            let asked = known.past.asks(nobody, epoch);
            let (mut register, mut log) = (Vec::new(), Vec::new());
            branch.read(plot.register, 0, plot.len + 1, &mut register)?;
            let log_len = branch.attr(plot.log)?.size as usize;
            branch.read(plot.log, 0, log_len, &mut log)?;
            let listed = entries(branch, plot.directory)?;
            let span = known.past.told(asked, &Ok::<_, Error>(()), (epoch, false));
            let listed = Self::moving(listed.into_iter().map(|(name, ino, _)| (name, ino)));
            known.past.listed(span, at, listed);
            match version_of(&register, plot.len) {
                Some(version) => known.past.read(span, at, version),
                None => known
                    .past
                    .breaks(format!("the register of {at} has bytes of several")),
            }
            match entries_of(&log) {
                Some(entries) => known.past.read_log(span, at, entries),
                None => known.past.breaks(format!("the log of {at} has half an entry")),
            }
        }
        Ok(())
    }

    /// Returns which of the names of a directory come and go.
    pub(super) fn moving(found: impl IntoIterator<Item = (Name, Ino)>) -> BTreeMap<String, Ino> {
        let named = found
            .into_iter()
            .map(|(name, ino)| (String::from_utf8_lossy(name.as_bytes()).into_owned(), ino));
        named
            .filter(|(name, _)| !STAYING.contains(&name.as_str()))
            .collect()
    }
}

/// Holds or reads the branch.
fn hold(owner: &AnyOwner, clock: &Arc<dyn Clock>, access: Access) -> Result<Branch, Error> {
    let who = Who {
        agent: "nobody".to_owned(),
        host: "box".to_owned(),
        pid: 1,
        purpose: "a world".to_owned(),
        hosted: true,
    };
    let opened = owner.open(&who)?;
    let options = tenure_client::Options {
        threads: tenure_client::Threads::None,
        ..tenure_client::Options::default()
    };
    let around = (clock.clone(), Arc::new(()) as _);
    Branch::hold(owner.clone(), around, opened, (BRANCH, access), options)
}

fn make(owner: &AnyOwner, clock: &Arc<dyn Clock>) -> Result<Vec<Plot>, Error> {
    let first = owner.branches()?.into_iter().find_map(|line| line.branch);
    let first = first.expect("a drive has a branch");
    let name = BranchName::parse(BRANCH).expect("a literal name");
    owner.fork(&ForkAsk::new(Source::Branch(first), name))?;
    let branch = hold(owner, clock, Access::Exclusive)?;
    let plots: Result<Vec<_>, Error> = (0..DIRECTORIES)
        .map(|number| make_plot(&branch, number))
        .collect();
    branch.close()?;
    plots
}

fn make_plot(branch: &Branch, number: usize) -> Result<Plot, Error> {
    let node = NewNode {
        kind: Kind::Directory,
        mode: 0o755,
        ..NewNode::file()
    };
    let (directory, _) = branch.create(Ino::ROOT, &named(&format!("d{number}")), &node)?;
    let [register, log, lock] = STAYING.map(|name| branch.create(directory, &named(name), &NewNode::file()));
    let plot = Plot {
        directory,
        register: register?.0,
        len: LENS[number],
        log: log?.0,
        lock: lock?.0,
    };
    branch.write(plot.register, 0, Bytes::from(content(0, plot.len)))?;
    Ok(plot)
}

pub(super) fn named(name: &str) -> Name {
    Name::parse(name.as_bytes()).expect("it is a name")
}

/// Returns all bytes of a file that is written whole, with a version.
pub(super) fn content(version: u64, len: usize) -> Vec<u8> {
    let words = std::iter::repeat_n(version.to_le_bytes(), len / 8);
    words.flatten().collect()
}

/// Returns the version with which such a file was written, if it is one.
pub(super) fn version_of(bytes: &[u8], len: usize) -> Option<u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    let first = words.first()?;
    let is_whole = bytes.len() == len && rest.is_empty() && words.iter().all(|word| word == first);
    is_whole.then(|| u64::from_le_bytes(*first))
}
