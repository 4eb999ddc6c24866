//! What the kernel remembers of a branch that has become another state: it is told to forget that, by the thread that tells it things.
//!
//! Invariant: an inode that the kernel knows and that lost its last entry so lives until the kernel forgets it, as any other.

use super::Served;
use crate::kernel::{Notice, Notifier};
use std::sync::mpsc;
use std::time::Duration;
use tenure_client::{Altered, Company};
use tenure_model::Ino;

/// Notifications that are given to the kernel before it is waited for.
const TOGETHER_MAX: usize = 4096;
/// How long it is waited for: one that waits for a caller of ours forgets when that is answered.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Company for Served {
    fn known(&self) -> Vec<Ino> {
        self.known.all()
    }

    fn became(&self, altered: &Altered) {
        for ino in altered.inodes() {
            self.note_entries(*ino);
        }
        let Some(notifier) = self.notifier.lock().clone() else {
            return;
        };
        let is_known = |ino: &Ino| *ino == Ino::ROOT || self.known.has(*ino);
        let entries = altered
            .entries()
            .iter()
            .filter(|(directory, _)| is_known(directory));
        let entries = entries.map(|(directory, name)| Notice::InvalEntry {
            parent: directory.0,
            name: name.to_vec(),
        });
        let inodes = altered.inodes().iter().filter(|ino| is_known(ino));
        let inodes = inodes.map(|ino| Notice::InvalInode {
            ino: ino.0,
            offset: 0,
            length: 0,
        });
        let notices: Vec<_> = entries.chain(inodes).collect();
        for together in notices.chunks(TOGETHER_MAX) {
            if !tell(&notifier, together) {
                tracing::warn!("the kernel may show for a while what the branch was before");
                return;
            }
        }
    }
}

impl Served {
    /// Notes whether an inode has an entry, now that it may have lost or got the only one.
    fn note_entries(&self, ino: Ino) {
        if !self.known.has(ino) {
            return;
        }
        match self.branch.attr(ino) {
            Ok(attr) if attr.nlink == 0 => drop(self.known.orphan(ino)),
            Ok(_) => self.known.adopt(ino),
            // It is gone, and nothing of it can be dropped.
            Err(_) => {}
        }
    }
}

/// Tells the kernel things, and whether it has acted on them.
fn tell(notifier: &Notifier, notices: &[Notice]) -> bool {
    let Some((last, before)) = notices.split_last() else {
        return true;
    };
    for notice in before {
        if notifier.send(notice.clone()).is_err() {
            return false;
        }
    }
    let (send, receive) = mpsc::sync_channel(1);
    let sent = notifier.send_then(last.clone(), move |_| {
        // Who waits no longer does not hear of it.
        let _ = send.send(());
    });
    sent.is_ok() && receive.recv_timeout(WAIT_MAX).is_ok()
}
