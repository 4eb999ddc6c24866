//! The rules: what each op becomes. A rule reads, refuses or edits; it never touches the tree.

mod attribute;
mod entry;
mod range;
mod rename;
mod xattr;

use crate::branch::{Branch, Decision, Undecided};
use crate::change::Change;
use tenure_model::Op;

/// Decides one op.
pub(crate) fn decide(branch: &Branch, op: &Op) -> Result<Decision, Undecided> {
    let mut change = Change::new(branch);
    match op {
        Op::Create {
            parent,
            name,
            ino,
            node,
            time,
        } => change.create(*parent, name, *ino, node, *time),
        Op::CreateUnnamed {
            parent,
            ino,
            node,
            time,
        } => change.create_unnamed(*parent, *ino, node, *time),
        Op::Link {
            ino,
            parent,
            name,
            time,
        } => change.link(*ino, *parent, name, *time),
        Op::Unlink { parent, name, time } => change.unlink_file(*parent, name, *time),
        Op::Rmdir { parent, name, time } => change.rmdir(*parent, name, *time),
        Op::Rename {
            from,
            name,
            to,
            new_name,
            mode,
            time,
        } => change.rename((*from, name), (*to, new_name), *mode, *time),
        Op::SetAttr {
            ino,
            change: wanted,
            time,
        } => change.set_attr(*ino, wanted, *time),
        Op::Write {
            ino,
            pieces,
            size,
            time,
        } => change.write(*ino, pieces, *size, *time),
        Op::Punch {
            ino,
            offset,
            len,
            time,
        } => change.punch(*ino, *offset, *len, *time),
        Op::Collapse {
            ino,
            offset,
            len,
            time,
        } => change.collapse(*ino, *offset, *len, *time),
        Op::Insert {
            ino,
            offset,
            len,
            time,
        } => change.insert(*ino, *offset, *len, *time),
        Op::Copy {
            from,
            from_offset,
            to,
            to_offset,
            len,
            time,
        } => change.copy((*from, *from_offset), (*to, *to_offset), *len, *time),
        Op::SetXattr {
            ino,
            name,
            value,
            mode,
            time,
        } => change.set_xattr(*ino, name, value, *mode, *time),
        Op::RemoveXattr { ino, name, time } => change.remove_xattr(*ino, name, *time),
        Op::Drop { ino } => change.drop_orphan(*ino),
    }?;
    Ok(change.decision())
}

type Decided = Result<(), Undecided>;
