//! Who works at the servers: clients that each sync files of a branch, and readers that stay where they are.

use super::town::{Found, Town};
use crate::check::{Broken, Verdict, broken, survey};
use crate::fault::{Lane, Owning};
use crate::random::{self, Random};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure_client::{Branch, Salvage};
use tenure_model::record::Source;
use tenure_model::{BranchName, Ino, Name, NewNode};
use tenure_server::Drive;
use tenure_wire::{Access, Error, ForkAsk, Owner, Who};

/// Times that a client asks for the owner of its drive before it does something else.
pub(super) const LIFE: usize = 4;

/// What is read of a drive: how many inodes each branch has, by name.
pub(super) type Seen = BTreeMap<String, u64>;

/// Who asks one server, as long as that answers.
pub(super) struct Reader(pub(super) Found);

impl Reader {
    /// Returns what the server says, if it says anything that counts.
    pub(super) fn read(&self) -> Option<Seen> {
        let Found { owner, machine, .. } = &self.0;
        let lines = owner.branches().ok().filter(|_| !machine.is_off())?;
        let asked_for = lines.into_iter().filter(|line| !line.is_automatic);
        Some(asked_for.map(|line| (line.name, line.inodes)).collect())
    }
}

/// A client with a branch of its own, in which it makes one file after the other.
pub(super) struct Client {
    branch_name: String,
    held: Option<(Branch, Arc<Lane>)>,
    /// A hold that stands still, with what was not synced under it.
    still: Option<(Branch, Arc<Lane>)>,
    /// Files that were made so far.
    made: u64,
    /// Of those, how many are known to be durable, in the order in which they were made.
    durable: u64,
    /// The files that may be there: those that were made under a hold which was lost may not.
    lost: Vec<std::ops::Range<u64>>,
    syncs: u64,
}

impl Client {
    pub(super) fn new(number: usize) -> Self {
        Self {
            branch_name: format!("branch-{number}"),
            held: None,
            still: None,
            made: 0,
            durable: 0,
            lost: Vec::new(),
            syncs: 0,
        }
    }

    /// Returns how many syncs were acknowledged.
    pub(super) fn synced(&self) -> u64 {
        self.syncs
    }

    /// Makes some files and syncs them, wherever the drive is.
    pub(super) fn work(&mut self, town: &Arc<Town>, random: &mut Random) -> Verdict<()> {
        if self.held.is_none() && !self.hold(town, random) {
            return Ok(());
        }
        let Some((branch, lane)) = &self.held else {
            return Ok(());
        };
        let first = self.made;
        let mut failed = None;
        for _ in 0..random.between(1, 4) {
            let len = *random.pick(&[10, 3000, 300_000]);
            let made = make(branch, &self.file_name(self.made), self.made, len);
            self.made += 1;
            failed = failed.or(made.err());
        }
        let synced = match failed {
            Some(error) => Err(error),
            None => branch.sync_all(),
        };
        let has_ended = !lane.has_heirs();
        town.trace().note(format_args!(
            "  {} syncs {first}..{}: {synced:?}, at its end {has_ended}",
            self.branch_name, self.made
        ));
        if synced.is_ok() && !has_ended {
            self.durable = self.made;
            self.syncs += 1;
        } else {
            // It begins anew, at whoever owns the drive: what it had not synced may be there or not.
            self.lost.push(self.durable..self.made);
            self.held = None;
        }
        Ok(())
    }

    /// Makes files that are not synced, and stands still; the branch is held anew meanwhile.
    pub(super) fn stand_still(&mut self, town: &Town) {
        let Some((branch, _)) = self.held.as_ref().filter(|_| self.still.is_none()) else {
            return;
        };
        for len in [20, 5000] {
            // What is refused is not there.
            let _ = make(branch, &self.file_name(self.made), self.made, len);
            self.made += 1;
        }
        town.trace()
            .note(format_args!("  {} stands still", self.branch_name));
        self.lost.push(self.durable..self.made);
        self.still = self.held.take();
    }

    /// Lets who stood still go on, once the branch is held by another session: it is told, and what it had is in a stray.
    pub(super) fn go_on(&mut self, town: &Town) -> Verdict<()> {
        let Some((branch, lane)) = self.still.take_if(|_| self.held.is_some()) else {
            return Ok(());
        };
        let has_something = branch.unsynced() != tenure_client::Unsynced::default();
        let synced = branch.sync_all();
        let salvage = branch.salvage();
        town.trace().note(format_args!(
            "  {} goes on: {synced:?}, {salvage:?}",
            self.branch_name
        ));
        match salvage {
            _ if synced.is_ok() && has_something && lane.has_heirs() => broken(format!(
                "{} was lost, and a sync of it is acknowledged",
                self.branch_name
            )),
            Some(Salvage::Done(Some(stray))) => judge_stray(town, &lane, (&branch, &stray)),
            Some(Salvage::Failed(Error::Refused(refusal))) => broken(format!(
                "what {} had not synced is not taken: {refusal}",
                self.branch_name
            )),
            // It is tried again.
            Some(Salvage::Underway) => {
                self.still = Some((branch, lane));
                Ok(())
            }
            Some(Salvage::Done(None) | Salvage::Failed(Error::Failed(_))) | None => Ok(()),
        }
    }

    fn hold(&mut self, town: &Arc<Town>, random: &mut Random) -> bool {
        let Some(found) = town.find(random) else {
            return false;
        };
        let lane = Arc::new(lane(town, &found, random));
        let held = self.hold_at(town, &lane);
        town.trace().note(format_args!(
            "  {} is held: {:?}",
            self.branch_name,
            held.as_ref().map(drop)
        ));
        match held {
            Ok(branch) if lane.has_heirs() => {
                self.held = Some((branch, lane));
                true
            }
            // The hold of a session that is silent ends after a while.
            Ok(_) | Err(_) => {
                town.pass(Duration::from_secs(1));
                false
            }
        }
    }

    fn hold_at(&self, town: &Town, lane: &Arc<Lane>) -> Result<Branch, Error> {
        let lines = lane.branches()?;
        if !lines.iter().any(|line| line.name == self.branch_name) {
            let first = lines.iter().find_map(|line| line.branch);
            let first = first.expect("a drive has a branch");
            let name = BranchName::parse(&self.branch_name).expect("a literal name");
            lane.fork(&ForkAsk::new(Source::Branch(first), name))?;
        }
        let access = (&*self.branch_name, Access::Exclusive);
        let owner: Arc<dyn Owner<tenure_core::Branch>> = lane.clone();
        take(&owner, town, access, false)
    }

    fn file_name(&self, file: u64) -> Name {
        let name = format!("{}-{file}", self.branch_name);
        Name::parse(name.as_bytes()).expect("it is a name")
    }

    /// Holds what was read against what was durable before.
    pub(super) fn judge_read(&self, seen: &Seen) -> Verdict<()> {
        let least = self.durable.saturating_sub(self.forgotten());
        match seen.get(&self.branch_name) {
            // The root is an inode too.
            Some(inodes) if *inodes > least => Ok(()),
            None if self.syncs == 0 => Ok(()),
            seen => broken(format!(
                "{} has {least} files that were synced, and is read with {seen:?} inodes",
                self.branch_name
            )),
        }
    }

    /// Returns how many of the durable ones may not be there after all: they were made under a hold that was lost.
    fn forgotten(&self) -> u64 {
        let before = self.lost.iter().filter(|lost| lost.end <= self.durable);
        before.map(|lost| lost.end - lost.start).sum()
    }

    /// Holds what is left in the end against what was synced.
    pub(super) fn judge(&mut self, drive: &Arc<Drive>, town: &Town) -> Verdict<()> {
        (self.held, self.still) = (None, None);
        if self.syncs == 0 {
            return Ok(());
        }
        let owner: Arc<dyn Owner<tenure_core::Branch>> = drive.clone();
        let branch = take(&owner, town, (&*self.branch_name, Access::Read), true);
        let branch =
            branch.map_err(|error| Broken(format!("{} cannot be read: {error}", self.branch_name)))?;
        let found = survey(&branch).map_err(|error| Broken(format!("it cannot be read: {error}")))?;
        let root = &found.names.inodes[&Ino::ROOT];
        let is_there = |file: &u64| root.entries.contains_key(&self.file_name(*file));
        let is_lost = |file: &u64| self.lost.iter().any(|lost| lost.contains(file));
        let missing = (0..self.durable).find(|file| !is_lost(file) && !is_there(file));
        match missing {
            Some(file) => broken(format!(
                "{}: file {file} was synced and is lost",
                self.branch_name
            )),
            None => Ok(()),
        }
    }
}

/// Holds a stray against what its holder has in the end. What cannot be read now is not judged.
fn judge_stray(town: &Town, lane: &Arc<Lane>, (branch, stray): (&Branch, &str)) -> Verdict<()> {
    let owner: Arc<dyn Owner<tenure_core::Branch>> = lane.clone();
    let kept = take(&owner, town, (stray, Access::Read), false).and_then(|kept| survey(&kept));
    match (kept, survey(branch)) {
        (Ok(kept), Ok(had)) if kept != had => broken(format!("{stray} is not what its holder had")),
        _ => Ok(()),
    }
}

/// Returns the way from a client to the owner that it has found, and to the next one when that one's process has ended.
fn lane(town: &Arc<Town>, found: &Found, random: &mut Random) -> Lane {
    let owning = |found: Found| Owning {
        owner: found.owner,
        machine: found.machine,
    };
    let (next_town, mut next_random) = (town.clone(), Random::new(random.next(), "heirs"));
    let heir = Box::new(move || next_town.find(&mut next_random).map(owning));
    Lane::new(
        owning(found.clone()),
        Some(heir),
        Random::new(random.next(), "lane"),
    )
}

fn make(branch: &Branch, name: &Name, seed: u64, len: usize) -> Result<(), Error> {
    let node = NewNode::file();
    let (ino, _) = branch.create(Ino::ROOT, name, &node)?;
    branch.write(ino, 0, Bytes::from(random::bytes(seed, len)))
}

fn take(
    owner: &Arc<dyn Owner<tenure_core::Branch>>,
    town: &Town,
    (name, access): (&str, Access),
    hosted: bool,
) -> Result<Branch, Error> {
    let who = Who {
        agent: name.to_owned(),
        host: "box".to_owned(),
        pid: 1,
        purpose: "a world".to_owned(),
        hosted,
    };
    let opened = owner.open(&who)?;
    let options = tenure_client::Options {
        threads: tenure_client::Threads::None,
        ..tenure_client::Options::default()
    };
    let around = (town.clock() as Arc<dyn tenure_model::Clock>, Arc::new(()) as _);
    Branch::hold(owner.clone(), around, opened, (name, access), options)
}
