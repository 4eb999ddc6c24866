//! What a person is told at the opening of a drive of whose packs something is missing: how much, of which files, and where
//! it belongs.

use super::path;
use crate::drive::Inner;
use std::collections::{BTreeMap, BTreeSet};
use tenure_model::{Address, Extent, Ino, PackNumber, counted};
use tenure_store::pack::Lacking;

/// Files that are named; `check` names all.
const NAMES_MAX: usize = 8;
/// Lines in which they are looked for.
const LINES_MAX: usize = 64;

impl Inner {
    /// Returns a sentence for each pack of which something that was synced cannot be had now.
    pub(crate) fn lost_notices(&self) -> Vec<String> {
        let mut of_pack: BTreeMap<PackNumber, Vec<Lacking>> = BTreeMap::new();
        for lacking in self.packs.lacking() {
            of_pack.entry(lacking.at.pack).or_default().push(lacking);
        }
        let tell = |lost: &Vec<Lacking>| {
            let bytes: u64 = lost.iter().map(|lacking| u64::from(lacking.len)).sum();
            let chunks = lost.iter().map(|lacking| lacking.at).collect();
            let files = match &self.files_with(&chunks)[..] {
                [] => "of no file that is named now".to_owned(),
                files => format!("in {}", files.join(", ")),
            };
            let (name, why, bytes) = (&self.name, &lost[0].why, counted(bytes, "byte"));
            format!(
                "{bytes} that were synced cannot be read ({files}; `tenure check {name}` names every file), and everything else works; nothing of what is left was changed: {why}"
            )
        };
        of_pack.values().map(tell).collect()
    }

    /// Returns some of the files that have one of these chunks, with their lines.
    fn files_with(&self, chunks: &BTreeSet<Address>) -> Vec<String> {
        let mut state = self.live.lock().state.clone();
        let mut files = Vec::new();
        for (id, line) in state.lines().into_iter().take(LINES_MAX) {
            let Some(open) = state.opened(id) else { continue };
            let memory = open.branch.tree().memory().clone();
            let _held = memory.hold();
            let mut found: BTreeMap<Ino, String> = BTreeMap::new();
            let looked = self.loader.ask(|| {
                open.branch.extents(|ino, _, extent| {
                    if let Extent::Chunk { at, .. } = extent
                        && chunks.contains(at)
                        && found.len() < NAMES_MAX
                    {
                        found.insert(ino, String::new());
                    }
                })
            });
            // What cannot be read of the tree is told by `check`.
            if looked.is_ok() && !found.is_empty() {
                let paths = path::paths(&open.branch, &self.loader, &found);
                let (noun, name) = (line.kind.noun(), &line.name);
                files.extend(paths.values().map(|path| format!("{path} of {noun} {name}")));
            }
            if files.len() >= NAMES_MAX {
                break;
            }
        }
        files.truncate(NAMES_MAX);
        files
    }
}
