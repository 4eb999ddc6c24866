//! Random histories: holders here and elsewhere, forks, checkpoints, folds, owners that end in every way. After each step
//! the drive is what a plain map says.

use crate::world::{
    Holder, beginning, branch_name, checkpoint_ask, content, drive_name, fork_ask, options, try_open, who,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_model::record::Source;
use tenure_model::{CheckpointName, Ino};
use tenure_server::{Drive, Options};
use tenure_store::MemoryBucket;
use tenure_wire::{Access, Owner};

/// Names of files, and what is in them.
type Files = BTreeMap<String, Vec<u8>>;

/// Numbers that follow from a seed (xorshift64*, Vigna 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        (!list.is_empty()).then(|| &list[self.below(list.len())])
    }
}

struct World {
    random: Random,
    bucket: MemoryBucket,
    drive: Arc<Drive>,
    /// What branches and checkpoints hold, and whether they still change.
    lines: BTreeMap<String, (Files, bool)>,
    holders: BTreeMap<String, (Holder, bool)>,
    made: u64,
}

fn few_pages(seed: u64) -> Options {
    // Every other history has to load its pages again and again.
    let page_bytes_max = if seed.is_multiple_of(2) { 50_000 } else { 256 << 20 };
    Options {
        page_bytes_max,
        fold_bytes: 100_000,
        ..options(&Arc::default())
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let bucket = MemoryBucket::new();
        let drive = Drive::create(
            Arc::new(bucket.clone()),
            &drive_name(),
            &beginning(),
            few_pages(seed),
        )
        .unwrap();
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            bucket,
            drive,
            lines: BTreeMap::from([("main".into(), (Files::new(), true))]),
            holders: BTreeMap::new(),
            made: 0,
        }
    }

    fn step(&mut self) {
        match self.random.below(22) {
            0..=9 => self.change(),
            10 => self.fork(),
            11 => self.checkpoint(),
            12 => self.give_back(),
            13 => self.delete(),
            14 => self.drive.fold().unwrap(),
            15 => self.end(),
            16 | 17 => self.undo(),
            _ => self.look(),
        }
    }

    fn names(&self, changing: bool) -> Vec<String> {
        self.lines
            .iter()
            .filter(|(_, (_, changes))| *changes || !changing)
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn holder(&mut self, name: &str) -> &mut Holder {
        if !self.holders.contains_key(name) {
            let hosted = self.random.below(3) > 0;
            let holder = Holder::new(&self.drive, name, Access::Exclusive, hosted).unwrap();
            self.holders.insert(name.to_owned(), (holder, hosted));
        }
        &mut self.holders.get_mut(name).unwrap().0
    }

    fn change(&mut self) {
        let name = self.random.one_of(&self.names(true)).unwrap().clone();
        let (count, mut files) = (1 + self.random.below(4), self.lines[&name].0.clone());
        for _ in 0..count {
            self.made += 1;
            let (made, kind) = (self.made, self.random.below(4));
            let known: Vec<_> = files.keys().cloned().collect();
            let some = self.random.one_of(&known).cloned();
            let len = [1, 300, 4096, 70_000][self.random.below(4)];
            // A few contents come again and again.
            let bytes = content(made % 7, len);
            let holder = self.holder(&name);
            match (kind, some) {
                (0, Some(gone)) => {
                    holder.unlink(&gone);
                    files.remove(&gone);
                }
                (1, Some(again)) if files[&again].len() <= bytes.len() => {
                    let ino = holder.find(&again).unwrap();
                    holder.write(ino, &bytes);
                    files.insert(again, bytes);
                }
                _ => {
                    let fresh = format!("file-{made}");
                    holder.file(&fresh, &bytes);
                    files.insert(fresh, bytes);
                }
            }
        }
        if !self.holders[&name].1 && self.random.below(4) == 0 {
            // Its owner is killed before the batch comes: the next one has what was placed.
            self.bucket = self.bucket.copy();
            self.open_again();
        }
        self.holder(&name).ship();
        self.lines.get_mut(&name).unwrap().0 = files;
    }

    fn source(&mut self) -> (Source, Files) {
        let name = self.random.one_of(&self.names(false)).unwrap().clone();
        let (files, changes) = self.lines[&name].clone();
        if !changes {
            return (Source::Checkpoint(CheckpointName::parse(&name).unwrap()), files);
        }
        let info = self
            .drive
            .branches()
            .unwrap()
            .into_iter()
            .find(|info| info.name == name);
        (Source::Branch(info.unwrap().branch.unwrap()), files)
    }

    fn fork(&mut self) {
        let (source, files) = self.source();
        self.made += 1;
        let name = format!("branch-{}", self.made);
        self.drive.fork(&fork_ask(&source, &name)).unwrap();
        self.lines.insert(name, (files, true));
    }

    fn checkpoint(&mut self) {
        let base = self.random.one_of(&self.names(true)).unwrap().clone();
        self.made += 1;
        let name = format!("checkpoint-{}", self.made);
        self.drive.checkpoint(&checkpoint_ask(&base, &name)).unwrap();
        let files = self.lines[&base].0.clone();
        self.lines.insert(name, (files, false));
    }

    fn give_back(&mut self) {
        let held: Vec<_> = self.holders.keys().cloned().collect();
        if let Some(name) = self.random.one_of(&held) {
            self.holders.remove(name).unwrap().0.give_back();
        }
    }

    fn delete(&mut self) {
        let name = self.random.one_of(&self.names(false)).unwrap().clone();
        let is_only = self.lines[&name].1 && self.names(true).len() == 1;
        let deleted = self.drive.delete_branch(&branch_name(&name));
        assert_eq!(
            deleted.is_ok(),
            !is_only && !self.holders.contains_key(&name),
            "{name}: {deleted:?}"
        );
        if deleted.is_ok() {
            self.lines.remove(&name);
        }
    }

    fn undo(&mut self) {
        let branch = self.random.one_of(&self.names(true)).unwrap().clone();
        let to = self.random.one_of(&self.names(false)).unwrap().clone();
        let undone = self.drive.undo(&who("bob", true), &branch_name(&branch), &to);
        let Ok(turned) = undone else {
            let is_same = self.lines[&branch].0 == self.lines[&to].0;
            let why = undone.unwrap_err();
            assert!(
                self.holders.contains_key(&branch) || is_same,
                "{branch} to {to}: {why}"
            );
            return;
        };
        let (old, new) = (self.lines[&branch].0.clone(), self.lines[&to].0.clone());
        self.lines.insert(turned.before, (old, false));
        self.lines.insert(branch, (new, true));
    }

    /// Ends the owner and lets another one come.
    fn end(&mut self) {
        match self.random.below(3) {
            0 => {
                self.drive.close().unwrap();
            }
            1 => self.bucket = self.bucket.copy(),
            _ => self.bucket = self.bucket.after_power_loss(self.random.0),
        }
        self.open_again();
    }

    fn open_again(&mut self) {
        let seed = self.random.below(2) as u64;
        self.drive = Drive::open(Arc::new(self.bucket.clone()), &drive_name(), few_pages(seed)).unwrap();
        // Holders in other processes go on at the next owner.
        self.holders.retain(|_, (_, hosted)| !*hosted);
        for (holder, _) in self.holders.values_mut() {
            holder.drive = self.drive.clone();
            self.drive.renew(holder.session).unwrap();
        }
    }

    fn look(&mut self) {
        let name = self.random.one_of(&self.names(false)).unwrap().clone();
        let hosted = self.random.below(2) == 0;
        let reader = Holder::new(&self.drive, &name, Access::Read, hosted).unwrap();
        let found: Files = reader
            .names()
            .into_iter()
            .map(|name| (name.clone(), reader.read(&name)))
            .collect();
        assert!(
            found == self.lines[&name].0,
            "{name} is not what it was: {:?}",
            found.keys()
        );
        Owner::close(&*self.drive, reader.session).unwrap();
    }
}

#[test]
fn a_drive_is_at_any_time_what_its_history_says() {
    for seed in 0..24 {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
        }
        assert_eq!(world.drive.check(true).unwrap(), [""; 0], "seed {seed}");
        let names: Vec<_> = world
            .drive
            .branches()
            .unwrap()
            .into_iter()
            .map(|info| info.name)
            .collect();
        assert_eq!(names, world.names(false), "seed {seed}");
        for info in world.drive.branches().unwrap() {
            assert!(info.inodes > Ino::ROOT.0 - 1, "seed {seed}");
        }
        drop(try_open(Arc::new(world.bucket.copy())).unwrap());
    }
}
