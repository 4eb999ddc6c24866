//! `tenure check`: holds what is stored against the invariants, and with `deep` every object and byte against its digest.
//!
//! It looks at a snapshot while holders go on. Invariant: one fault does not hide the others; what cannot be read is
//! named, and the rest is still looked at.

mod lost;
mod outset;
mod path;

use crate::drive::Inner;
use crate::state::State;
use crate::trail;
use std::collections::{BTreeMap, BTreeSet};
use tenure_core::Branch;
use tenure_journal::Depth;
use tenure_model::{Address, Extent, Failure, Ino, PackNumber, counted};
use tenure_store::pack::Packs;
use tenure_store::{Bucket, Key, OverlayBucket};
use tenure_wire::{Error, NOTE, UNSEEN, Verified};

/// Faults of one line that are told one by one; the rest is counted.
const FAULTS_MAX: usize = 100;

/// What is known of the packs while the lines are looked at.
#[derive(Default)]
struct Packed {
    /// Packs of which some bytes are not what they were.
    corrupt: BTreeSet<PackNumber>,
    /// Roots of lines that were looked at.
    seen: BTreeSet<Address>,
}

impl Inner {
    pub(crate) fn check(&self, deep: bool) -> Result<Vec<String>, Error> {
        let mut state = self.with(|live| Ok(live.state.clone()))?;
        let mut faults = state.check();
        let mut packed = Packed::default();
        let depth = if deep { Depth::Records } else { Depth::Objects };
        // Where nothing can be written it is looked at all the same.
        let is_disk = self.bucket.disk().is_some();
        let over = is_disk.then(|| OverlayBucket::over(self.bucket.clone()));
        let bucket = over.as_ref().map_or(&*self.bucket, |over| over as &dyn Bucket);
        match tenure_journal::audit(bucket, &self.name, depth) {
            Ok(told) => faults.extend(told),
            Err(failure) => faults.push(fault(&failure)),
        }
        faults.extend(self.strangers().unwrap_or_else(|failure| vec![fault(&failure)]));
        faults.extend(
            self.packs
                .lacking()
                .into_iter()
                .map(|lacking| fault(&lacking.why)),
        );
        if deep {
            self.verify_packs(&mut packed, &mut faults);
        } else if self.options.cache.is_some() {
            self.find_packs(&mut faults);
        }
        for (id, line) in state.lines() {
            let noun = line.kind.noun();
            let branch = state.opened(id).expect("the line was listed just now").branch;
            let told = self.check_line(&branch, &mut packed);
            let more = told.len().saturating_sub(FAULTS_MAX);
            faults.extend(
                told.into_iter()
                    .take(FAULTS_MAX)
                    .map(|fault| format!("{noun} {}: {fault}", line.name)),
            );
            if more > 0 {
                faults.push(format!("{noun} {}: and {more} more", line.name));
            }
        }
        for (id, _) in state.edges() {
            let branch = state.named_by(id).expect("the edge was listed just now");
            let (stretch, seq) = id;
            let told = self.check_line(&branch, &mut packed).into_iter().take(FAULTS_MAX);
            faults.extend(told.map(|fault| {
                format!(
                    "what line {} has of another since record {seq}: {fault}",
                    stretch.line
                )
            }));
        }
        if deep {
            faults.extend(self.check_outsets(state, &packed)?);
        }
        self.work_on_pages();
        Ok(faults)
    }

    /// Returns a note of each file among the packs that is nothing of a drive.
    fn strangers(&self) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        let listing = Packs::list(&*self.bucket, &self.name)?;
        for name in listing
            .others
            .iter()
            .filter(|name| trail::pack_of(name).is_none())
        {
            let key = Key::in_drive(&self.name, &["packs", name]);
            match self.bucket.size(&key) {
                Ok(Some(len)) => notes.push(format!(
                    "{NOTE}{key} ({}): it is no object of a drive, and nothing reads it",
                    counted(len, "byte")
                )),
                Ok(None) if self.bucket.children(&format!("{key}/"))?.is_empty() => {}
                Ok(None) => notes.push(format!(
                    "{NOTE}{key}/: it is no folder of a drive, and nothing reads it"
                )),
                Err(Failure::Corrupt(why)) => notes.push(format!("{NOTE}{why}")),
                Err(failure) => return Err(failure),
            }
        }
        Ok(notes)
    }

    fn verify_packs(&self, packed: &mut Packed, faults: &mut Vec<String>) {
        let numbers = self.packs.numbers();
        let of = numbers.len() as u64;
        let tell = |change: &dyn Fn(&mut Verified)| change(self.verified.lock().get_or_insert_default());
        tell(&|verified| verified.of = of);
        for number in numbers {
            let read = |bytes| tell(&|verified| verified.bytes += bytes);
            // One that was given up meanwhile is no fault.
            if let Err(failure) = self.packs.verify(number, &read)
                && self.packs.is_known(number)
            {
                faults.push(fault(&failure));
                packed.corrupt.insert(number);
            }
            tell(&|verified| verified.packs += 1);
        }
        *self.verified.lock() = None;
    }

    /// Looks whether every pack is there: of one that is gone some may still be read where it was kept.
    fn find_packs(&self, faults: &mut Vec<String>) {
        let known = self.packs.table();
        let listed: BTreeSet<_> = match Packs::list(&*self.bucket, &self.name) {
            Ok(listing) => listing.sealed.into_iter().collect(),
            Err(failure) => return faults.push(fault(&failure)),
        };
        let gone = known.into_iter().filter(|pack| !listed.contains(pack));
        faults.extend(gone.map(|pack| format!("{}: it is missing", pack.key(&self.name))));
    }

    /// Returns a sentence for each thing that is wrong with a line.
    fn check_line(&self, branch: &Branch, packed: &mut Packed) -> Vec<String> {
        if branch.tree().address().is_some_and(|at| !packed.seen.insert(at)) {
            return Vec::new();
        }
        // All of it is looked at as a whole, so nothing is evicted meanwhile.
        let memory = branch.tree().memory().clone();
        let _held = memory.hold();
        if let Err(failure) = self.loader.load_all(branch.tree()) {
            return vec![format!("a page of its tree cannot be read: {}", fault(&failure))];
        }
        let mut faults = match self.loader.ask(|| branch.check()) {
            Ok(faults) => faults,
            Err(failure) => return vec![fault(&failure)],
        };
        match self.bad_files(branch, packed) {
            // Paths are looked for only where every entry is one.
            Ok(bad) if faults.is_empty() => faults = tell(&path::paths(branch, &self.loader, &bad), &bad),
            Ok(bad) => faults.extend(tell(&BTreeMap::new(), &bad)),
            Err(failure) => faults.push(fault(&failure)),
        }
        faults
    }

    /// Returns the files with bytes that are not there, and why they are not.
    fn bad_files(&self, branch: &Branch, packed: &Packed) -> Result<BTreeMap<Ino, String>, Failure> {
        let mut bad = BTreeMap::new();
        self.loader.ask(|| {
            bad.clear();
            branch.extents(|ino, _, extent| {
                if let Some(why) = self.why_bad(extent, packed) {
                    bad.entry(ino).or_insert(why);
                }
            })
        })?;
        Ok(bad)
    }

    fn why_bad(&self, extent: &Extent, packed: &Packed) -> Option<String> {
        let Extent::Chunk { at, start, len } = extent else {
            return None;
        };
        // A pack that is damaged somewhere may still give these bytes.
        if packed.corrupt.contains(&at.pack) {
            return self.packs.read_stored(*at).err().map(|failure| fault(&failure));
        }
        match self.packs.find(*at) {
            Err(failure) => Some(fault(&failure)),
            Ok(None) => self.packs.read(*at).err().map(|failure| fault(&failure)),
            Ok(Some(entry)) if u64::from(*start) + u64::from(*len) > u64::from(entry.len) => Some(format!(
                "the chunk {} of pack {} is too short",
                at.digest, at.pack
            )),
            Ok(Some(_)) => None,
        }
    }
}

/// Says what is wrong, or that it is not known whether anything is: only what was read tells of damage.
fn fault(failure: &Failure) -> String {
    match failure {
        Failure::Corrupt(_) | Failure::Newer(_) => failure.to_string(),
        Failure::DidNotHappen(_)
        | Failure::Unknown(_)
        | Failure::Waits(_)
        | Failure::NoSpace(_)
        | Failure::Fenced(_) => format!("{UNSEEN}{failure}"),
    }
}

impl State {
    /// Returns a sentence for each invariant of the drive's own rows that does not hold.
    fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                faults.push(what);
            }
        };
        let Some(head) = self.head() else {
            return vec!["the drive has not begun".to_owned()];
        };
        for (id, line) in self.lines() {
            let named = self.named(&line.name).map(|(named, _)| named);
            must(
                named == Some(id),
                format!(
                    "the name {} does not stand for the line {id} that has it",
                    line.name
                ),
            );
            must(
                id < head.next_line,
                format!("the number of {} was not given out yet", line.name),
            );
            if let Some(grant) = self.grant(id) {
                must(
                    line.kind.is_branch(),
                    format!("the checkpoint {} is held", line.name),
                );
                must(
                    self.session(grant.session).is_some(),
                    format!("{} is held by a session that is not there", line.name),
                );
            }
        }
        for (id, sharing) in self.shared() {
            let is_branch = self.line(id).is_some_and(|line| line.kind.is_branch());
            must(
                is_branch && self.grant(id).is_none(),
                format!("the line {id} is shared and is no branch, or is lent whole"),
            );
            must(
                sharing.sessions().all(|session| self.session(session).is_some()),
                format!("the branch {id} is shared by a session that is not there"),
            );
        }
        for ((stretch, seq), edge) in self.edges() {
            must(
                edge.at <= seq && seq >= stretch.since,
                format!(
                    "the line {} has something since record {seq} that was reached later",
                    stretch.line
                ),
            );
        }
        for (session, row) in self.sessions() {
            let is_lent = row
                .inos
                .iter()
                .all(|range| range.0.next < range.0.end && range.0.end <= head.next_ino);
            must(
                is_lent,
                format!("session {session} has numbers that were not lent"),
            );
        }
        faults
    }
}

fn tell(paths: &BTreeMap<Ino, String>, bad: &BTreeMap<Ino, String>) -> Vec<String> {
    let name = |ino: &Ino| paths.get(ino).cloned().unwrap_or_else(|| format!("inode {ino}"));
    bad.iter()
        .map(|(ino, why)| format!("{} cannot be read whole: {why}", name(ino)))
        .collect()
}
