//! The conflicts that stand in a branch, and where both sides of each are now: files may have been moved or removed since. Those that
//! were settled by that are told no more.

use crate::branch::Branch;
use crate::diff::view::View;
use crate::key::{Key, Named};
use crate::tree::Missing;
use std::ops::{Bound, ControlFlow};
use tenure_model::codec::Codec;
use tenure_model::{Conflict, Ino};

/// Conflicts that are told at once.
const TOLD_MAX: usize = 1000;

/// A conflict as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: Ino,
    /// What it was when it was made.
    pub conflict: Conflict,
    /// Where what the branch had is now; none where it is nowhere.
    pub ours: Option<Box<[u8]>>,
    /// Where what the other line had is now; none where it is nowhere.
    pub theirs: Option<Box<[u8]>>,
}

impl Standing {
    /// Tells whether somebody has settled it without saying so: what was kept of the other line is gone, or was moved to where the
    /// conflict is; or what the other line had removed or moved is gone.
    fn is_settled_by_hand(&self) -> bool {
        let Conflict {
            theirs, beside, path, ..
        } = &self.conflict;
        match (theirs, &self.theirs) {
            (Ino(0), _) => self.ours.is_none(),
            (_, None) => true,
            (_, Some(there)) => beside.is_some() && there == path,
        }
    }
}

/// A question about the conflicts of a branch, and how far its answer is.
pub struct Conflicts {
    view: View,
    /// The last number that was found.
    behind: Ino,
    found: Vec<(Ino, Conflict)>,
    is_end: bool,
}

impl Conflicts {
    /// Begins with the conflicts behind a number.
    pub fn new(branch: Branch, behind: Ino) -> Self {
        Self {
            view: View::new(branch),
            behind,
            found: Vec::new(),
            is_end: false,
        }
    }

    /// Finds what can be told at once.
    pub fn go_on(&mut self) -> Result<(), Missing> {
        let (from, to) = (Key::conflict(self.behind), Key::conflict(Ino(u64::MAX)));
        if !self.is_end && self.found.len() < TOLD_MAX {
            let (found, behind) = (&mut self.found, &mut self.behind);
            let mut is_end = true;
            let bounds = (Bound::Excluded(&*from), Bound::Included(&*to));
            self.view.branch.tree.scan(bounds.0, bounds.1, |key, value| {
                if let (Some(Named::Conflict(number)), Ok(conflict)) =
                    (Named::parse(key), Conflict::parsed(value))
                {
                    found.push((number, conflict));
                    *behind = number;
                }
                is_end = found.len() < TOLD_MAX;
                if is_end {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            self.is_end = is_end;
        }
        for (_, conflict) in &self.found {
            for ino in [conflict.ours, conflict.theirs]
                .into_iter()
                .filter(|ino| *ino != Ino(0))
            {
                self.view.want(ino)?;
            }
        }
        self.view.find()
    }

    /// Returns what was found, and the number behind which there may be more.
    pub fn answer(self) -> (Vec<Standing>, Option<Ino>) {
        let path = |ino: Ino| {
            let place = self.view.places(ino).first().filter(|_| ino != Ino(0));
            place.map(|place| self.view.path(place))
        };
        let stands = |(number, conflict): &(Ino, Conflict)| Standing {
            number: *number,
            ours: path(conflict.ours),
            theirs: path(conflict.theirs),
            conflict: conflict.clone(),
        };
        let found = self.found.iter().map(stands);
        let found = found.filter(|one| !one.is_settled_by_hand()).collect();
        (found, (!self.is_end).then_some(self.behind))
    }
}

impl Branch {
    /// Forgets a conflict, because somebody has said what is to be.
    pub fn forget_conflict(&mut self, number: Ino) -> Result<(), Missing> {
        self.tree.remove(&Key::conflict(number)).map(drop)
    }
}
