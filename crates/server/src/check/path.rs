//! Finding the paths of inodes, for people: a walk through the whole tree, only when there is something to tell.

use crate::load::Loader;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use tenure_core::Branch;
use tenure_model::{Ino, Kind, shown};

/// Returns a path of each wanted inode, as far as directories can be read.
pub(super) fn paths(
    branch: &Branch,
    loader: &Loader,
    wanted: &BTreeMap<Ino, String>,
) -> BTreeMap<Ino, String> {
    let mut found = BTreeMap::new();
    let mut directories = VecDeque::from([(Ino::ROOT, String::new())]);
    while let Some((directory, path)) = directories.pop_front() {
        if found.len() == wanted.len() {
            break;
        }
        for (ino, kind, name) in entries(branch, loader, directory) {
            let path = format!("{path}/{}", shown(&name));
            if wanted.contains_key(&ino) {
                found.entry(ino).or_insert_with(|| path.clone());
            }
            if kind == Kind::Directory {
                directories.push_back((ino, path));
            }
        }
    }
    found
}

fn entries(branch: &Branch, loader: &Loader, directory: Ino) -> Vec<(Ino, Kind, Vec<u8>)> {
    let mut entries = Vec::new();
    let listed = loader.ask(|| {
        entries.clear();
        branch.list(directory, 0, |entry| {
            entries.push((entry.ino, entry.kind, entry.name.to_vec()));
            ControlFlow::Continue(())
        })
    });
    // A directory that cannot be read was told already, with its page.
    listed.map_or_else(|_| Vec::new(), |()| entries)
}
