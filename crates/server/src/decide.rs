//! What a record makes of a branch's content: the ops of a batch one by one, and the end of inodes that nobody can
//! have open any more.
//!
//! Invariant: it works on a copy, so a record that is refused or cannot be decided has changed nothing.

use crate::load::Loader;
use crate::state::After;
use crate::state::permit::because;
use tenure_core::Branch;
use tenure_model::codec::{Codec, Reader};
use tenure_model::{Batch, Op, Record};
use tenure_wire::Error;

/// Returns what a permitted record makes of the branch that it touches.
pub(crate) fn after(record: &Record, branch: Branch, loader: &Loader) -> Result<After, Error> {
    match record {
        Record::Batch(batch) => Ok(After::Branch(after_ops(branch, batch, loader, |_, _| Ok(()))?)),
        Record::Granted { .. } | Record::Returned { .. } => without_orphans(branch, loader),
        Record::DriveCreated { .. }
        | Record::SessionOpened { .. }
        | Record::SessionClosed { .. }
        | Record::InosLent { .. }
        | Record::Forked { .. }
        | Record::BranchDeleted { .. }
        | Record::CheckpointMade { .. }
        | Record::CheckpointDeleted { .. }
        | Record::Joined { .. }
        | Record::Left { .. }
        | Record::Revoked { .. }
        | Record::Ousted { .. }
        | Record::Renamed { .. }
        | Record::Planned(_)
        | Record::Condemned(_)
        | Record::Reclaimed(_)
        | Record::Marked(_)

        // What it becomes was found before.
        | Record::Turned(_) => Ok(After::Same),
        Record::Act(act) => after_op(branch, &act.op, loader),
        Record::Dropped { ino, .. } => after_op(branch, &Op::Drop { ino: *ino }, loader),
    }
}

fn after_op(mut branch: Branch, op: &Op, loader: &Loader) -> Result<After, Error> {
    loader.change(&mut branch, op)?;
    Ok(After::Branch(branch))
}

/// Returns the branch after a batch's ops. Each is held against `may` before it is decided.
pub(crate) fn after_ops(
    mut branch: Branch,
    batch: &Batch,
    loader: &Loader,
    mut may: impl FnMut(&Branch, &Op) -> Result<(), Error>,
) -> Result<Branch, Error> {
    let mut ops = Reader::new(&batch.ops);
    while !ops.is_empty() {
        let op = Op::read(&mut ops).map_err(|error| {
            because(&format!(
                "batch {} of session {}: {error}",
                batch.number, batch.session
            ))
        })?;
        may(&branch, &op)?;
        loader.change(&mut branch, &op)?;
    }
    Ok(branch)
}

/// Returns the branch without inodes that have no entry; nobody has one open who does not hold the branch.
fn without_orphans(mut branch: Branch, loader: &Loader) -> Result<After, Error> {
    let orphans = loader.ask(|| branch.orphans())?;
    if orphans.is_empty() {
        return Ok(After::Same);
    }
    for ino in orphans {
        loader.change(&mut branch, &Op::Drop { ino })?;
    }
    Ok(After::Branch(branch))
}
