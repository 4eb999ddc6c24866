//! The thread that writes full buffers to disk while others append.

use super::Packs;
use crate::signal::Signal;
use std::sync::{Arc, Weak};
use tenure_model::Failure;

/// Starts the thread. It ends when the packs are dropped.
pub(super) fn start(packs: Weak<Packs>, signal: Arc<Signal>) -> Result<(), Failure> {
    let write = move || {
        while signal.wait() {
            let Some(packs) = packs.upgrade() else { return };
            packs.write_out();
        }
    };
    let started = std::thread::Builder::new()
        .name("pack-writer".to_owned())
        .spawn(write);
    started
        .map(|_| ())
        .map_err(|error| Failure::DidNotHappen(format!("cannot start a thread: {error}")))
}
