//! Which keys the open files have that are written in place: they are renamed while they are open.
//!
//! Invariant: who looks whether a file is still at its key sees no rename of this process half done.

use crate::key::Key;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The key of a file, or of all that have the same one open.
pub(super) type Name = Arc<RwLock<Key>>;

/// The names of the files that are open.
#[derive(Default)]
pub(super) struct Names {
    open: Mutex<HashMap<Key, Weak<RwLock<Key>>>>,
}

impl Names {
    /// Returns the name of a file that is opened now.
    pub(super) fn of(&self, key: &Key) -> Name {
        let mut open = self.open.lock();
        if let Some(name) = open.get(key).and_then(Weak::upgrade) {
            return name;
        }
        open.retain(|_, name| name.strong_count() > 0);
        let name = Arc::new(RwLock::new(key.clone()));
        open.insert(key.clone(), Arc::downgrade(&name));
        name
    }

    /// Runs `rename`, which tells whether a file has the key `to` now and no longer `from`.
    pub(super) fn renaming<E>(
        &self,
        from: &Key,
        to: &Key,
        rename: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut open = self.open.lock();
        let Some(name) = open.get(from).and_then(Weak::upgrade) else {
            return rename();
        };
        let mut key = name.write();
        rename()?;
        *key = to.clone();
        open.remove(from);
        open.insert(to.clone(), Arc::downgrade(&name));
        Ok(())
    }
}
