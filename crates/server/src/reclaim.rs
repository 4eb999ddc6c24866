//! Reclaim: packs of which nothing is needed are given up by a record, and deleted once no recovery reads them.
//!
//! What is needed is looked for in a state as it was at one moment, while everybody goes on: what nothing needed then and nobody has
//! claimed since is needed by nothing now, because a record names only what was needed before or is claimed. Invariant: an object is deleted only
//! when the record that gives it up is durable and both manifests that are kept follow it: so whatever recovery begins with, it reads
//! nothing of that. Where something cannot be read, nothing is given up.

mod doomed;
mod sweep;

use crate::drive::{Inner, Threads};
use crate::holds::Begun;
use crate::order::Live;
use crate::outset::Which;
use crate::session::epoch_of;
use crate::state::object;
use crate::state::permit::because;
use crate::usage::Survey;
pub(crate) use doomed::Doomed;
use std::collections::BTreeSet;
use std::time::Duration;
pub(crate) use sweep::{Stale, Sweep};
use tenure_journal::spare;
use tenure_model::{Epoch, Failure, PackNumber, Reclaimed, Record};
use tenure_store::pack::PackName;
use tenure_wire::{Error, ReclaimAsk, ReclaimTold};

use crate::place::NUMBER_BITS;

/// What is not needed of a pack is reason to write the rest again where it is one part in so many, and so many bytes at least: usually, and
/// where as much as possible is to be given back.
const SCATTERED: (u64, u64) = (4, 64 << 10);
const SCATTERED_FULL: (u64, u64) = (20, 4 << 10);

/// Objects that one record gives up: a record has a few hundred KiB at most.
const OBJECTS_MAX: usize = 4096;
/// How long a session of another process may be silent before what owners before have placed for it is kept for it no longer. Who comes
/// back later is refused what was given up meanwhile, and told so.
const SILENCE_MAX: Duration = Duration::from_secs(60 * 60);
/// How long it is waited for calls at work, and how often it is looked whether they are.
const WORKS_WAIT: Duration = Duration::from_secs(30);
const WORKS_REST: Duration = Duration::from_millis(20);

/// A search for what nothing needs.
pub(crate) struct Search {
    survey: Survey,
    /// The objects of packs that were sealed when it began.
    objects: Vec<PackName>,
    held: Kept,
}

/// What nobody may give up now.
struct Kept {
    /// Packs in which sessions may name something.
    claimed: BTreeSet<PackNumber>,
    /// Packs of this epoch on: those before may be named by sessions that were there before.
    before: Option<PackNumber>,
    /// Those sessions, in words.
    holders: Vec<String>,
}

impl Kept {
    fn has(&self, pack: PackNumber) -> bool {
        self.claimed.contains(&pack) || self.before.is_some_and(|end| pack < end)
    }
}

/// What a search has found.
struct Found {
    /// Packs of which nothing is needed, and that may be given up.
    dead: BTreeSet<PackNumber>,
    /// Packs of which so little is needed that it is worth writing that again, and how many bytes are not.
    thin: Vec<(PackNumber, u64)>,
    told: ReclaimTold,
}

impl Inner {
    /// Gives up what nothing needs now, and deletes it.
    pub(crate) fn reclaim(&self, ask: ReclaimAsk) -> Result<ReclaimTold, Error> {
        let Some(mut sweep) = self.sweep.try_lock() else {
            let why = format!(
                "{0} is being reclaimed just now; ask again when that has ended: `tenure reclaim {0}`",
                self.name
            );
            return Err(because(&why).into());
        };
        // What goes on by itself begins again: of two searches neither would know what was claimed since.
        sweep.stop();
        // Pages that were never written have no place yet.
        let which = if ask.is_dry {
            self.fold_by_spare()?;
            Which::Newest
        } else {
            self.renew_outsets()?;
            Which::All
        };
        let mut search = self.begin_waiting(which)?;
        let done = search
            .survey
            .go_on(self, Duration::MAX)
            .and_then(|_| self.give_up(&search, ask, &mut sweep));
        self.holds.end_search();
        // What was freed is for the next one, before it is for anybody else.
        self.keep_spare();
        done
    }

    /// Folds; on a disk that is full in the room that was set aside.
    pub(crate) fn fold_by_spare(&self) -> Result<(), Error> {
        match self.fold() {
            Err(Error::Failed(Failure::NoSpace(_))) if spare::give_up(self.bucket.as_ref()) => self.fold(),
            folded => folded,
        }
    }

    /// Gives up what a search has found, and deletes it.
    fn give_up(&self, search: &Search, ask: ReclaimAsk, sweep: &mut Sweep) -> Result<ReclaimTold, Error> {
        let Found { dead, thin, mut told } = self.sorted(search, ask)?;
        sweep.note_needed(told.needed);
        if ask.is_dry {
            return Ok(told);
        }
        let doomed = &mut sweep.doomed;
        let shut = self.shut(&dead);
        let objects = search.objects.iter().filter(|name| shut.contains(&name.number));
        let mut done = self.condemn(&objects.copied().collect::<Vec<_>>(), doomed)?;
        for (pack, scattered) in thin {
            match self.rewrite(search, pack, doomed) {
                Ok(None) => {}
                Ok(Some(rewritten)) => {
                    done = done.and(rewritten);
                    told.scattered -= scattered;
                }
                // It is no worse than before.
                Err(Error::Failed(failure @ Failure::NoSpace(_))) => {
                    tracing::warn!(%failure, "packs of which little is needed are not written again");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        (told.objects, told.freed) = (done.objects, done.bytes);
        if !doomed.is_empty() {
            self.fold_by_spare()?;
            self.accept(|_| Ok((Record::Reclaimed(done), ())))?;
            self.fold_by_spare()?;
        }
        self.delete_doomed(doomed);
        told.waiting = doomed.bytes();
        told.ever = self.with(|live| Ok(live.state.reclaimed()))?;
        Ok(told)
    }

    /// Begins once no call is at work on states that may be gone.
    fn begin_waiting(&self, which: Which) -> Result<Search, Error> {
        let until = self.options.clock.elapsed() + WORKS_WAIT;
        loop {
            if let Some(search) = self.begin_search(which)? {
                return Ok(search);
            }
            if self.options.threads == Threads::None || self.options.clock.elapsed() >= until {
                let why = "a merge, a diff or a check is under way all the time: try again when it has ended";
                return Err(Failure::DidNotHappen(why.into()).into());
            }
            std::thread::sleep(WORKS_REST);
        }
    }

    fn begin_search(&self, which: Which) -> Result<Option<Search>, Error> {
        if self.holds.are_at_work() {
            return Ok(None);
        }
        // Of a fold that is under way nobody could tell what its manifest leads to.
        let _no_fold = self.folding.lock();
        let outsets = self.outsets(which)?.into_iter();
        let outsets: Vec<_> = outsets.map(|(_, outset)| outset).collect::<Result<_, _>>()?;
        let begun = self.with(|live| {
            let Some(Begun { claimed, reads }) = self.holds.begin_search() else {
                return Ok(None);
            };
            let holders = self.unsettled(live);
            let held = Kept {
                claimed,
                before: (!holders.is_empty()).then_some(PackNumber(self.epoch.0 << NUMBER_BITS)),
                holders,
            };
            // Which objects there are is known before what is needed of them.
            let objects = self.packs.table();
            Ok(Some(Search {
                survey: Survey::begin(live.state.clone(), reads),
                objects,
                held,
            }))
        })?;
        Ok(begun.map(|mut search| {
            outsets
                .into_iter()
                .for_each(|outset| search.survey.add_outset(outset));
            search
        }))
    }

    /// Returns the sessions that may name what was placed by owners before this one, in words.
    fn unsettled(&self, live: &Live) -> Vec<String> {
        let sessions = live.state.sessions().into_iter();
        let is_of_before = |epoch: Epoch| epoch < self.epoch;
        let unsettled = sessions.filter(|(session, _)| {
            let silence = live.heard.silence(*session);
            is_of_before(epoch_of(*session))
                && silence.is_some_and(|silence| silence < SILENCE_MAX)
                && self.holds.is_unsettled(*session)
        });
        unsettled.map(|(_, row)| row.who).collect()
    }

    /// Sorts the packs by what is needed of them.
    fn sorted(&self, search: &Search, ask: ReclaimAsk) -> Result<Found, Error> {
        let live = self.live(&search.survey)?;
        let (mut dead, mut thin) = (BTreeSet::new(), Vec::new());
        let mut told = ReclaimTold {
            holders: search.held.holders.clone(),
            usage: self.used(&search.survey)?,
            needed: live.values().sum(),
            ..ReclaimTold::default()
        };
        let (part, least) = if ask.is_full { SCATTERED_FULL } else { SCATTERED };
        let packs: BTreeSet<_> = search.objects.iter().map(|name| name.number).collect();
        for (pack, needed) in packs.iter().filter_map(|pack| Some((*pack, *live.get(pack)?))) {
            let all: u64 = self
                .packs
                .entries(pack)?
                .iter()
                .map(|entry| u64::from(entry.len))
                .sum();
            let scattered = all.saturating_sub(needed);
            told.scattered += scattered;
            let may_go = !search.held.has(pack) && !self.packs.is_lost(pack);
            if may_go && scattered >= least && scattered >= all / part {
                thin.push((pack, scattered));
                told.freed += scattered;
                told.objects += 1;
            }
        }
        for name in search
            .objects
            .iter()
            .filter(|name| !live.contains_key(&name.number))
        {
            let len = self.packs.object_len(*name)?.unwrap_or_default();
            if search.held.has(name.number) || self.packs.is_lost(name.number) {
                told.held += len;
            } else {
                dead.insert(name.number);
                told.objects += 1;
                told.freed += len;
            }
        }
        Ok(Found { dead, thin, told })
    }

    /// Takes those of some packs that nobody has claimed meanwhile: nobody is given a place there from now on.
    fn shut(&self, packs: &BTreeSet<PackNumber>) -> BTreeSet<PackNumber> {
        let shut = self.holds.shut(packs);
        self.filling.forget(&shut);
        shut
    }

    /// Gives up objects by records that are durable when it returns.
    fn condemn(&self, objects: &[PackName], doomed: &mut Doomed) -> Result<Reclaimed, Error> {
        let mut done = self.reclaimed(0, 0);
        for some in objects.chunks(OBJECTS_MAX) {
            let record = Record::Condemned(some.iter().copied().map(object).collect());
            self.accept(|_| Ok((record.clone(), ())))?;
            let last = self.with(|live| Ok(live.journal()?.last()))?;
            for name in some {
                self.packs.forget(*name);
                let len = self.packs.object_len(*name).ok().flatten().unwrap_or_default();
                doomed.add(*name, last, len);
                done = done.and(self.reclaimed(1, len));
            }
        }
        Ok(done)
    }

    /// Writes what is needed of a pack again, and gives up the objects that it was in; returns none where somebody has claimed it
    /// meanwhile.
    fn rewrite(
        &self,
        search: &Search,
        pack: PackNumber,
        doomed: &mut Doomed,
    ) -> Result<Option<Reclaimed>, Error> {
        if self.shut(&BTreeSet::from([pack])).is_empty() {
            return Ok(None);
        }
        let (new, len) = self.packs.rewrite(pack, &|at| search.survey.needs(at))?;
        if self.with(|live| Ok(live.state.is_condemned(new)))? {
            // It was put before, and given up: what is needed is in others.
            self.packs.forget(new);
            return Ok(None);
        }
        let objects = search.objects.iter().copied();
        let old: Vec<_> = objects
            .filter(|name| name.number == pack && *name != new)
            .collect();
        let done = self.condemn(&old, doomed)?;
        let bytes = done.bytes.saturating_sub(len);
        Ok(Some(Reclaimed { bytes, ..done }))
    }

    fn reclaimed(&self, objects: u64, bytes: u64) -> Reclaimed {
        let time = self.options.clock.now();
        Reclaimed { objects, bytes, time }
    }

    /// Deletes what no recovery reads any more. What fails is tried again the next time.
    fn delete_doomed(&self, doomed: &mut Doomed) {
        let reached = self.with(|live| Ok(live.journal()?.reached()));
        let Ok(Some(reached)) = reached else { return };
        doomed.delete(reached, |name| {
            self.packs.delete(name).inspect_err(|failure| {
                tracing::warn!(%failure, "an object that was given up is deleted later");
            })
        });
    }
}
