//! Set-id bits that a change takes away, and the kernel that must not believe in them any longer.
//!
//! The kernel tells with WRITE and SETATTR when they are to go, and with FALLOCATE and COPY_FILE_RANGE not. It learns the
//! new mode only from SETATTR's answer; after all others it would go on with the mode that it has. Invariant: nobody is
//! answered before the kernel has forgotten a mode that the request took something from.

use super::pending::Pending;
use super::{Served, answer, errno};
use crate::kernel::{Errno, Notice, Reply, Request};
use tenure_client::{Error, wait};
use tenure_model::attr::{SETGID, SETUID};
use tenure_model::{Attr, AttrChange, Ino, Kind};

/// Execution by the group (`S_IXGRP`); without it, sgid is no privilege.
const GROUP_EXECUTE: u32 = 0o010;

/// Returns whether who makes a request may leave set-id bits where they are (CAP_FSETID, as far as requests tell).
pub(super) fn keeps_set_ids(request: &Request<'_>) -> bool {
    request.uid == 0
}

impl Served {
    /// Takes the set-id bits from a file that is changed by somebody who may not keep them.
    pub(super) fn drop_set_ids(&self, ino: Ino, attr: Attr) -> Result<Attr, Error> {
        let dropped = dropped(&attr);
        if dropped == 0 {
            return Ok(attr);
        }
        let change = AttrChange {
            mode: Some(attr.mode & !dropped),
            ..AttrChange::default()
        };
        self.branch.set_attr(ino, &change)
    }

    /// Makes a change by somebody who may not keep set-id bits, and answers it.
    pub(super) fn change_without_set_ids<T: Send + 'static>(
        &self,
        ino: Ino,
        pending: &mut Pending,
        change: impl FnOnce() -> Result<T, Error>,
        then: impl FnOnce(Reply, T) + Send + 'static,
    ) {
        // A request that is handled again may have taken the bits when it was handled first.
        let mut is_stale = pending.is_again();
        let changed = self.branch.attr(ino).and_then(|attr| {
            is_stale |= dropped(&attr) != 0;
            // Before the change: one that has to wait is made again, and must not be there before.
            self.drop_set_ids(ino, attr)?;
            change()
        });
        if is_stale {
            self.answer_afresh(ino, pending, changed, then);
        } else {
            answer(pending, changed, then);
        }
    }

    /// As `answer`, once the kernel has forgotten the attributes of an inode.
    fn answer_afresh<T: Send + 'static>(
        &self,
        ino: Ino,
        pending: &mut Pending,
        outcome: Result<T, Error>,
        then: impl FnOnce(Reply, T) + Send + 'static,
    ) {
        let Some(notifier) = self.notifier.lock().clone() else {
            return pending.error(Errno::IO);
        };
        let attributes_only = Notice::InvalInode {
            ino: ino.0,
            offset: -1,
            length: 0,
        };
        let reply = if wait::would_have_waited() {
            None
        } else {
            pending.take()
        };
        let Some(reply) = reply else {
            // It is made again, unless its caller is sent away: the bits are gone either way.
            if let Err(error) = notifier.send(attributes_only) {
                tracing::warn!(%ino, %error, "the kernel may go on with an old mode");
            }
            return;
        };
        // From the notifier's thread: a reader must not wait for the kernel. A reply that is dropped answers EIO.
        let sent = notifier.send_then(attributes_only, move |forgotten| {
            if let Err(errno) = forgotten {
                tracing::warn!(%ino, %errno, "the kernel may go on with an old mode");
            }
            match outcome {
                Ok(value) => then(reply, value),
                Err(error) => reply.error(errno(&error)),
            }
        });
        if let Err(error) = sent {
            tracing::warn!(%ino, %error, "a change that took set-id bits away is answered with EIO");
        }
    }
}

/// Returns the bits that a change takes from a file.
fn dropped(attr: &Attr) -> u32 {
    let sgid = if attr.mode & GROUP_EXECUTE != 0 { SETGID } else { 0 };
    match attr.kind {
        Kind::File => attr.mode & (SETUID | sgid),
        Kind::Directory
        | Kind::Fifo
        | Kind::CharDevice
        | Kind::BlockDevice
        | Kind::Symlink
        | Kind::Socket => 0,
    }
}
