//! A request that is to be answered, as what answers it sees it: on the thread that read it, or on one that may wait.
//!
//! Invariant: one that is not answered on the thread that read it has changed nothing and is handled again where it may wait.

use super::waiting::Waiting;
use crate::kernel::{Errno, Reply};

/// The reply to a request, until it is taken.
pub(super) enum Pending {
    /// On the thread that read the request, which must not wait.
    Here(Reply),
    /// On a thread that may, until the caller is interrupted.
    Waits(Waiting),
    /// Taken.
    Answered,
}

impl Pending {
    /// Returns the reply; none for a caller who was interrupted.
    pub(super) fn take(&mut self) -> Option<Reply> {
        match std::mem::replace(self, Pending::Answered) {
            Pending::Here(reply) => Some(reply),
            Pending::Waits(waiting) => waiting.take(),
            Pending::Answered => None,
        }
    }

    /// Tells whether the request was handled before, on the thread that read it.
    pub(super) fn is_again(&self) -> bool {
        matches!(self, Pending::Waits(_))
    }

    /// Answers success to what returns nothing.
    pub(super) fn ok(&mut self) {
        if let Some(reply) = self.take() {
            reply.ok();
        }
    }

    /// Answers that it failed.
    pub(super) fn error(&mut self, errno: Errno) {
        if let Some(reply) = self.take() {
            reply.error(errno);
        }
    }
}
