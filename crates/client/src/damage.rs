//! Damage that was met: which objects could not be read as they were, and what they held, in words for people.
//!
//! Invariant: each object is told once in the log for a file, and few of them and of their files, whatever is read again and again.

use crate::branch::{Branch, Inner};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use tenure_model::{Failure, Ino, Kind, shown};
use tenure_wire::Error;

/// Damaged objects, and files of each, that are told: whoever needs more lets the drive be checked.
const OBJECTS_MAX: usize = 16;
const FILES_MAX: usize = 8;
/// Entries that are looked through for the path of a file: a moment's work.
const ENTRIES_MAX: usize = 20_000;

/// An entry of a directory.
type Entry = (Ino, Kind, Box<[u8]>);

/// What is known of damage: what was said of each object, and which files it took something from.
#[derive(Default)]
pub(crate) struct Damage(BTreeMap<String, BTreeMap<Ino, String>>);

impl Damage {
    /// Tells whether what was said of an object, with the file that it was met in, is known, or too much is.
    fn knows(&self, what: &str, ino: Option<Ino>) -> bool {
        match (self.0.get(what), ino) {
            (None, _) => self.0.len() == OBJECTS_MAX,
            (Some(_), None) => true,
            (Some(files), Some(ino)) => files.len() == FILES_MAX || files.contains_key(&ino),
        }
    }

    fn add(&mut self, what: &str, file: Option<(Ino, String)>) {
        self.0.entry(what.to_owned()).or_default().extend(file);
    }

    fn sentences(&self) -> Vec<String> {
        let sentence = |(what, files): (&String, &BTreeMap<Ino, String>)| {
            if files.is_empty() {
                return format!("{what}; who needs it gets EIO");
            }
            let more = if files.len() == FILES_MAX {
                " and maybe others"
            } else {
                ""
            };
            let files: Vec<_> = files.values().map(String::as_str).collect();
            format!("{what}; reading {}{more} gives EIO there", files.join(", "))
        };
        self.0.iter().map(sentence).collect()
    }
}

impl Branch {
    /// Returns what damage was met so far, a sentence for each object.
    pub fn damage(&self) -> Vec<String> {
        self.inner.damage.lock().sentences()
    }
}

impl Inner {
    /// Notes that an object could not be read, if that is the error.
    pub(crate) fn note_damage(&self, error: &Error, ino: Option<Ino>) {
        let Error::Failed(failure @ (Failure::Corrupt(_) | Failure::Newer(_))) = error else {
            return;
        };
        let what = failure.to_string();
        if self.damage.lock().knows(&what, ino) {
            return;
        }
        let path = |ino| {
            self.path(ino)
                .unwrap_or_else(|| format!("the file of inode {ino}"))
        };
        let file = ino.map(|ino| (ino, path(ino)));
        let named = file.as_ref().map_or("", |(_, path)| path);
        tracing::error!(
            what,
            file = named,
            "an object of the bucket is damaged or missing, or of a newer format"
        );
        self.damage.lock().add(&what, file);
    }

    /// Returns a path of an inode, if it is found soon.
    fn path(&self, wanted: Ino) -> Option<String> {
        let mut directories = VecDeque::from([(Ino::ROOT, String::new())]);
        let mut looked = 0;
        while let Some((directory, path)) = directories.pop_front() {
            // What cannot be read is told by itself.
            let Some(entries) = self.entries(directory) else {
                continue;
            };
            for (ino, kind, name) in entries {
                let path = format!("{path}/{}", shown(&name));
                if ino == wanted {
                    return Some(path);
                }
                if kind == Kind::Directory {
                    directories.push_back((ino, path));
                }
                looked += 1;
            }
            if looked >= ENTRIES_MAX {
                return None;
            }
        }
        None
    }

    fn entries(&self, directory: Ino) -> Option<Vec<Entry>> {
        let listed = self.read(|state| {
            let mut entries = Vec::new();
            state.branch.list(directory, 0, |entry| {
                entries.push((entry.ino, entry.kind, entry.name.into()));
                if entries.len() < ENTRIES_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            Ok(entries)
        });
        listed.ok()
    }
}
