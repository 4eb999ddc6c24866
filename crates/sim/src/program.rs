//! Programs: they make the steps of a workload through a client, and say which change of the reference each step is.
//!
//! They judge nothing. Invariant: one step is one call, and what a call answers with is handed on as it is.

use crate::check::Change;
use crate::random;
use crate::workload::{EntryStep, InodeStep, Place};
use tenure_client::{Branch, Outcome};
use tenure_model::{AttrChange, Ino, Kind, NewNode, RenameMode, XattrMode};
use tenure_wire::Error;

/// Owner and group of what is made.
const OWNER: (u32, u32) = (1, 2);
/// Where every symlink leads.
const TARGET: &[u8] = b"../target";

/// Makes a step with entries.
pub(crate) fn change_entries(branch: &Branch, step: &EntryStep) -> (Result<Outcome, Error>, Change) {
    match step {
        EntryStep::Create {
            at,
            kind,
            mode,
            is_named,
        } => create(branch, at, (*kind, *mode), *is_named),
        EntryStep::Link { ino, to } => {
            let linked = branch.link(*ino, to.0, &to.1);
            let change = Change::Link {
                ino: *ino,
                to: to.clone(),
            };
            (linked.map(|attr| made(*ino, attr)), change)
        }
        EntryStep::Unlink { at, .. } => (branch.unlink(at.0, &at.1), Change::Unlink { at: at.clone() }),
        EntryStep::Rmdir { at } => (branch.rmdir(at.0, &at.1), Change::Rmdir { at: at.clone() }),
        EntryStep::Rename { from, to, mode } => {
            let moved = branch.rename((from.0, &from.1), (to.0, &to.1), *mode);
            let change = Change::Rename {
                from: from.clone(),
                to: to.clone(),
                mode: with_whiteout(branch, from, *mode),
            };
            (moved, change)
        }
    }
}

fn made(ino: Ino, attr: tenure_model::Attr) -> Outcome {
    Outcome {
        inode: Some((ino, attr)),
        orphan: None,
    }
}

/// Returns the mode with the number of the whiteout that was left, if one was.
fn with_whiteout(branch: &Branch, from: &Place, mode: RenameMode) -> RenameMode {
    match mode {
        RenameMode::Whiteout(_) => branch
            .lookup(from.0, &from.1)
            .map_or(mode, |(ino, _)| RenameMode::Whiteout(ino)),
        RenameMode::Replace | RenameMode::NoReplace | RenameMode::Exchange => mode,
    }
}

fn create(
    branch: &Branch,
    at: &Place,
    (kind, mode): (Kind, u32),
    is_named: bool,
) -> (Result<Outcome, Error>, Change) {
    let target: Box<[u8]> = if kind == Kind::Symlink {
        TARGET.into()
    } else {
        Box::default()
    };
    let node = NewNode {
        kind,
        mode,
        umask: 0,
        uid: OWNER.0,
        gid: OWNER.1,
        rdev: 0,
        target: target.clone(),
    };
    let created = if is_named {
        branch.create(at.0, &at.1, &node)
    } else {
        branch.create_unnamed(at.0, &node)
    };
    let change = Change::Create {
        at: is_named.then(|| at.clone()),
        parent: at.0,
        ino: created.as_ref().map_or(Ino(0), |(ino, _)| *ino),
        kind,
        mode,
        owner: OWNER,
        target,
    };
    (created.map(|(ino, attr)| made(ino, attr)), change)
}

/// Makes a step with an inode, if it is one that changes it.
pub(crate) fn change_inode(
    branch: &Branch,
    ino: Ino,
    step: &InodeStep,
) -> Option<(Result<(), Error>, Change)> {
    Some(match step {
        InodeStep::SetMode(mode) => {
            let wanted = AttrChange {
                mode: Some(*mode),
                ..AttrChange::default()
            };
            let change = Change::SetMode { ino, mode: *mode };
            (branch.set_attr(ino, &wanted).map(drop), change)
        }
        InodeStep::SetOwner(uid, gid) => {
            let wanted = AttrChange {
                uid: Some(*uid),
                gid: Some(*gid),
                ..AttrChange::default()
            };
            let owner = (*uid, *gid);
            let change = Change::SetOwner { ino, owner };
            (branch.set_attr(ino, &wanted).map(drop), change)
        }
        InodeStep::SetXattr { name, len, mode } => {
            let value = random::bytes(*len as u64, *len);
            let set = branch.set_xattr(ino, name.clone(), &value, *mode);
            let change = Change::SetXattr {
                ino,
                name: name.clone(),
                value: value.into(),
                mode: *mode,
            };
            (set, change)
        }
        InodeStep::SetAcl { name, list } => {
            let set = branch.set_xattr(ino, name.clone(), list, XattrMode::Set);
            let change = Change::SetXattr {
                ino,
                name: name.clone(),
                value: list.clone().into(),
                mode: XattrMode::Set,
            };
            (set, change)
        }
        InodeStep::RemoveXattr(name) => {
            let name = name.clone();
            let removed = branch.remove_xattr(ino, name.clone());
            (removed, Change::RemoveXattr { ino, name })
        }
        InodeStep::Drop | InodeStep::Sync | InodeStep::Look => return None,
    })
}
