//! What each branch and checkpoint needs of the bucket: what nothing else needs, and what several share.
//!
//! Each page and chunk is looked at once, or twice where several need it, however many branches there are: what a second one needs is
//! shared from there down. Invariant: every byte is counted once; what is not told to be needed here, nothing that the drive knows needs.

use crate::drive::Inner;
use crate::outset::{Outset, row_pages};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tenure_core::{Branch, Stored};
use tenure_model::{Address, BranchId, PackNumber};
use tenure_wire::{Error, LineUsage, Usage};

/// Who needs something, by the place in the list of all.
type Place = u32;

/// Who needs something.
#[derive(Clone, Copy)]
struct Needed {
    by: Place,
    last: Place,
    is_shared: bool,
    by_branch: bool,
}

/// Who is looked at.
#[derive(Clone, Copy, Default)]
enum Of {
    Line {
        place: Place,
        is_branch: bool,
    },
    #[default]
    Recovery,
}

/// What was found so far, and who is looked at.
#[derive(Default)]
struct Needs {
    pages: HashMap<Address, Needed>,
    chunks: HashMap<Address, Needed>,
    /// What the drive's own rows need, and what else only a recovery does.
    recovery: BTreeSet<Address>,
    of: Of,
}

/// One who needs something.
enum By {
    Line(LineUsage),
    History,
    Readers,
}

/// A search for what is needed, which goes on from where it was.
pub(crate) struct Survey {
    needs: Needs,
    all: Vec<By>,
    left: VecDeque<(Of, Branch)>,
}

/// What is needed of a pack, in bytes; also where that is none that the pack has.
pub(crate) type Live = BTreeMap<PackNumber, u64>;

impl Inner {
    pub(crate) fn usage(&self) -> Result<Usage, Error> {
        // Pages that were never written have no size.
        self.fold()?;
        let state = self.with(|live| Ok(live.state.clone()))?;
        let mut survey = Survey::begin(state, Vec::new());
        while !survey.go_on(self, Duration::MAX)? {}
        self.used(&survey)
    }

    /// Returns what was found to be needed, by whom.
    pub(crate) fn used(&self, survey: &Survey) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        let mut own = vec![0; survey.all.len()];
        let needs = &survey.needs;
        for (at, needed) in needs.pages.iter().chain(&needs.chunks) {
            let bytes = self.len_of(at)?;
            if !needed.is_shared {
                own[needed.by as usize] += bytes;
            } else if needed.by_branch {
                usage.shared += bytes;
            } else {
                usage.by_checkpoints += bytes;
            }
        }
        for (by, own) in survey.all.iter().zip(own) {
            match by {
                By::Line(line) => usage.lines.push(LineUsage { own, ..line.clone() }),
                By::History => usage.by_history += own,
                By::Readers => usage.by_readers += own,
            }
        }
        Ok(usage)
    }

    /// Returns how many bytes of each pack are needed.
    pub(crate) fn live(&self, survey: &Survey) -> Result<Live, Error> {
        let mut live = Live::new();
        // In one order, because packs are looked into.
        let mut all: Vec<_> = survey.needs.all().collect();
        all.sort_unstable();
        for at in all {
            *live.entry(at.pack).or_default() += self.len_of(at)?;
        }
        Ok(live)
    }

    fn len_of(&self, at: &Address) -> Result<u64, Error> {
        // What was lost and is put back from elsewhere has no place in a pack.
        Ok(self.packs.find(*at)?.map_or(0, |entry| u64::from(entry.len)))
    }
}

impl Survey {
    /// Begins with all that a state leads to, and states that somebody reads.
    pub(crate) fn begin(mut state: State, reads: Vec<Branch>) -> Self {
        let mut survey = Self {
            needs: Needs::default(),
            all: Vec::new(),
            left: VecDeque::new(),
        };
        survey.needs.recovery.extend(row_pages(&state));
        let mut places = BTreeMap::<BranchId, (Place, bool)>::new();
        for (id, line) in state.lines() {
            let branch = state.opened(id).expect("the line was listed just now").branch;
            let is_branch = line.kind.is_branch();
            let by = By::Line(LineUsage {
                line: id,
                name: line.name,
                is_branch,
                own: 0,
            });
            let place = survey.add(by);
            places.insert(id, (place, is_branch));
            survey.left.push_back((Of::Line { place, is_branch }, branch));
        }
        let history = survey.add(By::History);
        for ((stretch, since), _) in state.edges() {
            let branch = state
                .named_by((stretch, since))
                .expect("the edge was listed just now");
            // What a line has of others goes with it.
            let (place, is_branch) = places.get(&stretch.line).copied().unwrap_or((history, false));
            survey.left.push_back((Of::Line { place, is_branch }, branch));
        }
        let place = survey.add(By::Readers);
        let is_branch = false;
        survey.left.extend(
            reads
                .into_iter()
                .map(|branch| (Of::Line { place, is_branch }, branch)),
        );
        survey
    }

    /// Adds what a manifest leads to and nothing before does.
    pub(crate) fn add_outset(&mut self, outset: Outset) {
        self.needs.recovery.extend(outset.rows);
        self.left
            .extend(outset.trees.into_iter().map(|branch| (Of::Recovery, branch)));
    }

    /// Looks no further at what is left.
    pub(crate) fn pass_over(&mut self) {
        self.left.clear();
    }

    /// Returns what none of the lines needs, and a recovery does.
    pub(crate) fn of_recovery(&self) -> impl Iterator<Item = &Address> {
        self.needs.recovery.iter()
    }

    fn add(&mut self, by: By) -> Place {
        self.all.push(by);
        (self.all.len() - 1) as Place
    }

    /// Goes on for so long; tells whether nothing is left. A page that cannot be read is a failure: then nothing is known.
    pub(crate) fn go_on(&mut self, inner: &Inner, time: Duration) -> Result<bool, Error> {
        let until = inner.options.clock.elapsed().saturating_add(time);
        while let Some((of, branch)) = self.left.front() {
            self.needs.of = *of;
            loop {
                match branch.stored_parts(&mut self.needs) {
                    Ok(()) => break,
                    Err(missing) => inner.loader.load(&missing)?,
                }
                if inner.options.clock.elapsed() >= until {
                    return Ok(false);
                }
            }
            self.left.pop_front();
            inner.work_on_pages();
            if inner.options.clock.elapsed() >= until {
                break;
            }
        }
        Ok(self.left.is_empty())
    }

    /// Tells whether an address is needed.
    pub(crate) fn needs(&self, at: &Address) -> bool {
        let needs = &self.needs;
        needs.pages.contains_key(at) || needs.chunks.contains_key(at) || needs.recovery.contains(at)
    }
}

impl Needs {
    fn all(&self) -> impl Iterator<Item = &Address> {
        self.pages.keys().chain(self.chunks.keys()).chain(&self.recovery)
    }

    fn note(all: &mut HashMap<Address, Needed>, at: &Address, (place, is_branch): (Place, bool)) {
        let needed = all.entry(*at).or_insert(Needed {
            by: place,
            last: place,
            is_shared: false,
            by_branch: is_branch,
        });
        needed.is_shared |= needed.by != place;
        needed.by_branch |= is_branch;
        needed.last = place;
    }
}

impl Stored for Needs {
    fn is_known(&mut self, page: &Address) -> bool {
        let needed = self.pages.get(page);
        match self.of {
            Of::Line { place, is_branch } => needed.is_some_and(|needed| {
                let is_all_told = needed.is_shared && (needed.by_branch || !is_branch);
                needed.last == place || is_all_told
            }),
            Of::Recovery => needed.is_some() || self.recovery.contains(page),
        }
    }

    fn page(&mut self, at: &Address) {
        match self.of {
            Of::Line { place, is_branch } => Self::note(&mut self.pages, at, (place, is_branch)),
            Of::Recovery => drop(self.recovery.insert(*at)),
        }
    }

    fn chunk(&mut self, at: &Address) {
        match self.of {
            Of::Line { place, is_branch } => Self::note(&mut self.chunks, at, (place, is_branch)),
            Of::Recovery if self.chunks.contains_key(at) => {}
            Of::Recovery => drop(self.recovery.insert(*at)),
        }
    }
}
