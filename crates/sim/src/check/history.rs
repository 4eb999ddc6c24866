//! What a branch is now, and what a crash may make of it.
//!
//! Names change in one order, and a crash leaves the names after some change, at or behind the last acknowledged sync. The
//! bytes of a file have an order of their own, with places where the two meet: a change of bytes that is itself in the log
//! (a cut, a copy) is there exactly when the names say so, and a file that got a name has at least the bytes of that moment.

use super::{Broken, Change, Content, Names, Verdict, broken};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use tenure_model::{Ino, Kind, Refusal};

/// A whole state of a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) names: Names,
    pub(crate) contents: BTreeMap<Ino, Content>,
}

/// What happened to a branch since its last acknowledged sync.
#[derive(Clone, Default)]
pub(crate) struct History {
    /// The names that are durable.
    base: Names,
    /// What was changed since.
    changes: Vec<Change>,
    /// Numbers of changes with which batches ended: a crash may leave the names of one of those ends.
    ends: BTreeSet<usize>,
    now: Names,
    files: BTreeMap<Ino, Versions>,
}

/// The contents that a file had.
#[derive(Clone)]
struct Versions {
    all: Vec<Version>,
    /// A file that got a name by that many changes had that version at least.
    named: Vec<(usize, usize)>,
}

#[derive(Clone)]
struct Version {
    content: Content,
    /// Number of changes with which it came, where it came by one; else it was written.
    with: Option<usize>,
}

impl Versions {
    fn new(content: Content, with: usize) -> Self {
        let first = Version {
            content,
            with: Some(with),
        };
        Self {
            all: vec![first],
            named: Vec::new(),
        }
    }

    fn last(&self) -> &Content {
        &self.all.last().expect("a file has a version").content
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the versions that may be there when the names are those after `changes`.
    fn allowed(&self, changes: usize) -> RangeInclusive<usize> {
        let with = |version: &Version| version.with.is_some_and(|with| with <= changes);
        let without = |version: &Version| version.with.is_some_and(|with| with > changes);
        let named = self.named.iter().filter(|(with, _)| *with <= changes);
        let first = self.all.iter().rposition(with).unwrap_or(0);
        let first = named.map(|(_, version)| *version).fold(first, usize::max);
        let end = self.all.iter().position(without).unwrap_or(self.len());
        first..=end.saturating_sub(1)
    }

    /// Forgets versions before `first`; all changes so far are durable.
    fn trim(&mut self, first: usize) {
        self.all.drain(..first);
        for version in &mut self.all {
            version.with = None;
        }
        self.all[0].with = Some(0);
        self.named.clear();
    }
}

impl History {
    /// Begins with a state that is durable.
    pub(crate) fn from(snapshot: &Snapshot) -> Self {
        let files = snapshot.contents.iter();
        Self {
            base: snapshot.names.clone(),
            changes: Vec::new(),
            ends: BTreeSet::from([0]),
            now: snapshot.names.clone(),
            files: files
                .map(|(ino, content)| (*ino, Versions::new(content.clone(), 0)))
                .collect(),
        }
    }

    /// Returns the names as they are now.
    pub(crate) fn names(&self) -> &Names {
        &self.now
    }

    /// Returns a file's bytes as they are now.
    pub(crate) fn content(&self, ino: Ino) -> Option<&Content> {
        self.files.get(&ino).map(Versions::last)
    }

    /// Returns what is there now, as the end of the holder leaves it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let names = self.now.without_orphans();
        let files = self
            .files
            .iter()
            .filter(|(ino, _)| names.inodes.contains_key(ino));
        let contents = files
            .map(|(ino, versions)| (*ino, versions.last().clone()))
            .collect();
        Snapshot { names, contents }
    }

    /// Returns how many changes there were since all was durable.
    pub(crate) fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Notes that a batch ended behind so many changes.
    pub(crate) fn batch_ends(&mut self, changes: usize) {
        self.ends.insert(changes);
    }

    /// Notes a change that was made; or says why it must not have been.
    pub(crate) fn change(&mut self, change: Change) -> Result<(), Refusal> {
        self.now.decide(&change)?;
        let with = self.changes.len() + 1;
        if let Change::Create {
            ino,
            kind: Kind::File,
            ..
        } = &change
        {
            self.files.insert(*ino, Versions::new(Content::default(), with));
        }
        for ino in self.now.apply(&change) {
            if let Some(versions) = self.files.get_mut(&ino) {
                versions.named.push((with, versions.len() - 1));
            }
        }
        self.changes.push(change);
        Ok(())
    }

    /// Notes that a file was written.
    pub(crate) fn write(&mut self, ino: Ino, write: impl FnOnce(&mut Content)) {
        self.version(ino, None, write);
    }

    /// Notes a change of a file's bytes that has its place in the log.
    pub(crate) fn cut(&mut self, ino: Ino, cut: impl FnOnce(&mut Content)) -> Result<(), Refusal> {
        self.change(Change::Cut { ino })?;
        self.version(ino, Some(self.changes.len()), cut);
        Ok(())
    }

    fn version(&mut self, ino: Ino, with: Option<usize>, make: impl FnOnce(&mut Content)) {
        let versions = self
            .files
            .get_mut(&ino)
            .expect("only files that there are are written");
        let mut content = versions.last().clone();
        make(&mut content);
        versions.all.push(Version { content, with });
    }

    /// Notes that all is durable.
    pub(crate) fn synced_all(&mut self) {
        self.note_durable_names();
        for versions in self.files.values_mut() {
            versions.trim(versions.len() - 1);
        }
    }

    /// Notes that a file and all names are durable.
    pub(crate) fn synced(&mut self, ino: Ino) {
        let changes = self.changes.len();
        for (of, versions) in &mut self.files {
            let first = if *of == ino {
                versions.len() - 1
            } else {
                *versions.allowed(changes).start()
            };
            versions.trim(first);
        }
        self.note_durable_names();
    }

    fn note_durable_names(&mut self) {
        let now = &self.now;
        self.files.retain(|ino, _| now.inodes.contains_key(ino));
        self.base.clone_from(now);
        self.changes.clear();
        self.ends = BTreeSet::from([0]);
    }

    /// Tells whether a crash may leave this state, and says what is wrong if not.
    pub(crate) fn judge(&self, found: &Snapshot) -> Verdict<()> {
        let mut names = self.base.clone();
        let mut nearest = None;
        for changes in 0..=self.changes.len() {
            if let Some(change) = changes.checked_sub(1) {
                names.apply(&self.changes[change]);
            }
            if !self.ends.contains(&changes) {
                continue;
            }
            let expected = names.without_orphans();
            let Some(difference) = expected.difference(&found.names) else {
                match self.judge_contents(found, changes) {
                    Ok(()) => return Ok(()),
                    Err(Broken(why)) => nearest = Some(why),
                }
                continue;
            };
            nearest.get_or_insert(difference);
        }
        let why = nearest.expect("there is always one state at least");
        broken(format!(
            "the state is none of the {} that could be there since the last sync: {why}",
            self.ends.len()
        ))
    }

    fn judge_contents(&self, found: &Snapshot, changes: usize) -> Verdict<()> {
        for (ino, content) in &found.contents {
            let Some(versions) = self.files.get(ino) else {
                return broken(format!("inode {ino} was never a file"));
            };
            let allowed = versions.allowed(changes);
            let mut candidates = versions.all[allowed.clone()].iter();
            if !candidates.any(|version| version.content == *content) {
                let is_other = versions
                    .all
                    .iter()
                    .position(|version| version.content == *content);
                let which = match is_other {
                    Some(version) => format!("those of version {version}"),
                    None => "none that it ever had at once".to_owned(),
                };
                return broken(format!(
                    "after change {changes} of {}, the bytes of inode {ino} are {which}, and versions {allowed:?} of {} \
                     may be there; beside the last, {}",
                    self.changes.len(),
                    versions.len(),
                    versions.all[*allowed.end()].content.difference(content),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> (Ino, tenure_model::Name) {
        (
            Ino::ROOT,
            tenure_model::Name::parse(name.as_bytes()).expect("a literal name"),
        )
    }

    fn root() -> Snapshot {
        let mut names = Names::default();
        let inode = super::super::names::Inode {
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            target: Box::default(),
            xattrs: BTreeMap::new(),
            entries: BTreeMap::new(),
            parent: Ino::ROOT,
        };
        names.inodes.insert(Ino::ROOT, inode);
        Snapshot {
            names,
            contents: BTreeMap::new(),
        }
    }

    fn created(name: &str, ino: u64) -> Change {
        Change::Create {
            at: Some(place(name)),
            parent: Ino::ROOT,
            ino: Ino(ino),
            kind: Kind::File,
            mode: 0o644,
            owner: (0, 0),
            target: Box::default(),
        }
    }

    fn create(history: &mut History, name: &str, ino: u64) {
        let change = created(name, ino);
        history.change(change).expect("the name is free");
        history.batch_ends(history.changes());
    }

    /// A file that is written, renamed and written again, with the snapshot after each step.
    fn renamed() -> (History, Vec<Snapshot>) {
        let mut history = History::from(&root());
        let mut seen = vec![history.snapshot()];
        create(&mut history, "new", 5);
        seen.push(history.snapshot());
        history.write(Ino(5), |content| content.write(0, b"first"));
        seen.push(history.snapshot());
        let (from, to) = (place("new"), place("old"));
        let mode = tenure_model::RenameMode::Replace;
        history
            .change(Change::Rename { from, to, mode })
            .expect("the file is there");
        history.batch_ends(history.changes());
        seen.push(history.snapshot());
        history.write(Ino(5), |content| content.write(0, b"later"));
        seen.push(history.snapshot());
        (history, seen)
    }

    #[test]
    fn every_state_since_the_last_sync_may_be_left_and_none_from_before() {
        let (mut history, seen) = renamed();
        assert!(seen.iter().all(|snapshot| history.judge(snapshot).is_ok()));
        history.synced_all();
        let (last, before) = seen.split_last().expect("there are some");
        assert!(history.judge(last).is_ok());
        assert!(before.iter().all(|snapshot| history.judge(snapshot).is_err()));
    }

    #[test]
    fn a_state_in_the_middle_of_a_batch_is_found() {
        let mut history = History::from(&root());
        for ino in [5, 6] {
            let change = created(&format!("file-{ino}"), ino);
            history.change(change).expect("the name is free");
        }
        let whole = history.snapshot();
        history.batch_ends(2);
        assert!(history.judge(&whole).is_ok() && history.judge(&root()).is_ok());
        let mut half = History::from(&root());
        create(&mut half, "file-5", 5);
        assert!(history.judge(&half.snapshot()).is_err());
    }

    #[test]
    fn a_renamed_file_without_the_bytes_it_had_is_found() {
        let (history, seen) = renamed();
        let mut early = seen[3].clone();
        early.contents.insert(Ino(5), Content::default());
        assert!(history.judge(&early).is_err());
        early.names = seen[2].names.clone();
        assert!(history.judge(&early).is_ok());
    }

    #[test]
    fn a_cut_is_there_exactly_when_the_names_after_it_are() {
        let (mut history, _) = renamed();
        history
            .cut(Ino(5), |content| content.resize(2))
            .expect("it is a file");
        history.batch_ends(history.changes());
        create(&mut history, "next", 6);
        let mut found = history.snapshot();
        assert!(history.judge(&found).is_ok());
        let mut uncut = Content::default();
        uncut.write(0, b"later");
        found.contents.insert(Ino(5), uncut);
        assert!(history.judge(&found).is_err());
    }
}
