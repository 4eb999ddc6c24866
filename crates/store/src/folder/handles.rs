//! Open files of objects that were read lately: an object never changes, so its file can stay open.

use crate::key::Key;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Files that stay open: enough for the packs of a busy branch, and far below the usual limit of 1,024.
const HANDLES_MAX: usize = 128;

/// Open files by key; the one that was unused longest is closed first.
#[derive(Default)]
pub(super) struct Handles {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Key, Handle>,
    uses: u64,
}

struct Handle {
    file: Arc<OwnedFd>,
    used: u64,
}

impl Handles {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<OwnedFd>> {
        let mut state = self.state.lock();
        state.uses += 1;
        let uses = state.uses;
        let handle = state.files.get_mut(key)?;
        handle.used = uses;
        Some(handle.file.clone())
    }

    pub(super) fn add(&self, key: &Key, file: Arc<OwnedFd>) {
        let mut state = self.state.lock();
        if state.files.len() >= HANDLES_MAX {
            let oldest = state.files.iter().min_by_key(|(_, handle)| handle.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|key| state.files.remove(&key));
        }
        let used = state.uses;
        state.files.insert(key.clone(), Handle { file, used });
    }

    pub(super) fn forget(&self, key: &Key) {
        self.state.lock().files.remove(key);
    }
}
