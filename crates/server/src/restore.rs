//! Restoring: what is at a path of a branch becomes what it was in another state, by a turn.

use crate::drive::Inner;
use crate::state::permit::because;
use crate::turn::{Before, Goal};
use tenure_core::{Branch, Restore, Source};
use tenure_model::{Ino, Op, Why, shown};
use tenure_wire::{Error, RestoreAsk, Turned, Who};

impl Inner {
    pub(crate) fn restore(&self, who: &Who, ask: &RestoreAsk) -> Result<Turned, Error> {
        let RestoreAsk {
            branch: name,
            path,
            from,
        } = ask;
        if path.is_empty() {
            let why = format!("no path is named; `tenure undo DRIVE@{name}` takes a whole branch back");
            return Err(because(&why).into());
        }
        let turned = self.turn(who, name, "restore", |before| {
            let Before { branch, next_ino, .. } = before;
            let (ops, inos) = self.restoring(ask, branch, *next_ino)?;
            if ops.is_empty() {
                let why = format!(
                    "{} in {name} is what it is in {from}, and was not changed",
                    shown(path)
                );
                return Err(because(&why).into());
            }
            let mut branch = branch.clone();
            ops.iter()
                .try_for_each(|op| self.loader.change(&mut branch, op))?;
            Ok(Some(Goal {
                branch,
                inos,
                why: Why::Restored {
                    path: path.clone(),
                    from: from.clone(),
                },
            }))
        })?;
        turned.ok_or_else(|| because("nothing was changed").into())
    }

    /// Returns the ops that restore what is asked for, and how many inode numbers they use.
    fn restoring(&self, ask: &RestoreAsk, branch: &Branch, next: Ino) -> Result<(Vec<Op>, u64), Error> {
        let (path, then) = (&ask.path, self.state_of(&ask.from)?);
        let time = self.options.clock.now();
        let mut restore = Restore::new(branch.clone(), then, path, next, time);
        match self.ask_undecided(|| restore.find())? {
            Source::There => {}
            Source::Nowhere => {
                let why = format!(
                    "there is no {} in {}; `tenure log DRIVE@{name}` tells what there was and when",
                    shown(path),
                    ask.from,
                    name = ask.branch
                );
                return Err(because(&why).into());
            }
            Source::Blocked(way) => {
                let why = format!(
                    "{0} is no directory in {1}, so nothing can be restored below it; restore {0}, or move it away",
                    shown(&way),
                    ask.branch
                );
                return Err(because(&why).into());
            }
        }
        self.loader.ask(|| restore.go_on())?;
        self.work_on_pages();
        Ok(restore.answer())
    }
}
