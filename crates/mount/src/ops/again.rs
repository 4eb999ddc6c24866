//! Requests that would have made the thread wait that read them: they are handled once more, where waiting keeps nobody out.
//!
//! What is waited for is of three kinds, so that one never waits behind another: pages and chunks that are read, room
//! and places for what is written, and what the owner tells people about itself.

use super::patience::holds_directory;
use super::pending::Pending;
use super::pool::Pool;
use super::waiting::Waiting;
use super::{Served, checkpoints, hidden};
use crate::kernel::{Errno, Kept, Operation, Reply, Request};
use tenure_client::wait;

/// Where requests wait.
#[derive(Default)]
pub(super) struct Pools {
    reads: Pool,
    writes: Pool,
    tells: Pool,
}

impl Pools {
    /// Returns where locks are asked for.
    pub(super) fn locks(&self) -> Pool {
        self.reads.clone()
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "whatever else waits does so for pages of the tree"
    )]
    fn of(&self, request: &Request<'_>) -> &Pool {
        match &request.operation {
            _ if is_told(request) => &self.tells,
            Operation::Write { .. }
            | Operation::Setattr(_)
            | Operation::Fallocate { .. }
            | Operation::Lseek { .. }
            | Operation::CopyFileRange { .. } => &self.writes,
            _ => &self.reads,
        }
    }
}

/// Tells whether a request is about what the owner tells people about itself.
fn is_told(request: &Request<'_>) -> bool {
    let is_told = hidden::is_hidden(request.nodeid) && !checkpoints::is_inside(request.nodeid);
    is_told || matches!(request.operation, Operation::Statfs)
}

impl Served {
    /// Handles a request where it may wait, though not for ever with a directory's lock; until it changes something an interrupt answers it with EINTR, and then it has
    /// changed nothing.
    pub(super) fn handle_again(&self, kept: Kept, reply: Reply) {
        let pool = self.pools.of(&kept.request()).clone();
        let asks_owner = !is_told(&kept.request());
        let holds_directory = asks_owner && holds_directory(&kept.request());
        if holds_directory && self.patience.is_over() {
            return reply.error(Errno::TIMEDOUT);
        }
        let (ticket, interrupted) = (pool.ticket(), pool.clone());
        let waiting = Waiting::until(reply, move || interrupted.forget(ticket));
        let (myself, slot, caller) = (self.myself.clone(), waiting.caller(), waiting.caller());
        pool.run(ticket, move || {
            let Some(served) = myself.upgrade().filter(|_| !caller.is_over()) else {
                return;
            };
            let mut pending = Pending::Waits(waiting);
            wait::for_caller(caller, || served.dispatch(&kept.request(), &mut pending));
            if asks_owner {
                served.patience.hear();
            }
        });
        if holds_directory {
            let late = pool.clone();
            self.patience.watch(slot.clone(), move || late.forget(ticket));
        }
        // It may have been interrupted before there was anything to forget.
        if slot.is_over() {
            pool.forget(ticket);
        }
    }
}
