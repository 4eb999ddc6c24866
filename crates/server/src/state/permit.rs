//! Which records a state permits: the rules about branches, names, sessions and grants.
//!
//! The same rules hold for a request and for a record that is replayed. What only a live owner can tell (who is still
//! there, which numbers were lent to whom) is asked in `session`, `lend` and `ship`.

use super::sharing::Sharing;
use super::{Grant, State};
use tenure_model::record::Source;
use tenure_model::{Batch, BranchId, Mark, Marking, Record, Refusal, SessionId};

type Permitted = Result<(), Refusal>;

impl State {
    /// Returns why a record may not be applied to this state, if it may not.
    pub(crate) fn permits(&self, record: &Record) -> Permitted {
        if self.head().is_none() != matches!(record, Record::DriveCreated { .. }) {
            return Err(because("a drive begins once, with its first record"));
        }
        match record {
            Record::DriveCreated { .. }
            | Record::Planned(_)
            | Record::Condemned(_)
            | Record::Reclaimed(_) => Ok(()),
            Record::SessionOpened { session, .. } => match self.session(*session) {
                None => Ok(()),
                Some(_) => Err(because("two sessions cannot have one number")),
            },
            Record::SessionClosed { session } => {
                self.knows(*session)?;
                if self.held_by(*session).is_empty() && self.shared_by(*session).is_empty() {
                    Ok(())
                } else {
                    Err(because("a session gives back what it holds before it ends"))
                }
            }
            Record::Granted { session, branch, .. } => self.permits_grant(*session, *branch),
            Record::InosLent { session, .. } => self.knows(*session),
            Record::Returned { branch } => self.grant(*branch).map(drop).ok_or(Refusal::Stale),
            Record::Batch(batch) => self.permits_batch(batch),
            Record::Forked {
                from,
                name,
                key,
                staged,
                ..
            } => {
                self.source(from).ok_or_else(|| no_source(from))?;
                staged.iter().try_for_each(|staged| self.is_branch(staged.into))?;
                if let Some((line, _)) = key.as_ref().and_then(|key| self.keyed(key)) {
                    return Err(because(&format!(
                        "the request with that key has made {}",
                        line.name
                    )));
                }
                self.is_free(name.as_str())
            }
            Record::BranchDeleted { branch } => self.permits_deletion(*branch),
            Record::CheckpointMade { branch, name, .. } => {
                self.is_branch(*branch)?;
                self.is_free(name.as_str())
            }
            Record::CheckpointDeleted { name } => match self.named(name.as_str()) {
                Some((_, line)) if !line.kind.is_branch() => Ok(()),
                Some(_) | None => Err(because(&format!("the drive has no checkpoint {name}"))),
            },
            Record::Joined { session, branch, .. } => self.permits_joining(*session, *branch),
            Record::Left { session, branch } => self.shares(*session, *branch).map(drop),
            Record::Act(act) => match self.shares(act.id.session, act.branch)?.mark(act.id) {
                None => Ok(()),
                Some(_) => Err(Refusal::Stale),
            },
            // Also when the last one who had it open has left, as long as nobody holds the branch.
            Record::Dropped { branch, .. } => {
                self.is_branch(*branch)?;
                match self.grant(*branch) {
                    None => Ok(()),
                    Some(grant) => Err(self.held(*branch, grant)),
                }
            }
            // Whether a holder stands still for it only a live owner can tell.
            Record::Turned(turn) => self.is_branch(turn.branch),
            Record::Marked(marking) => self.permits_marking(marking),
            Record::Revoked { branch, stray, .. } => {
                self.grant(*branch).ok_or(Refusal::Stale)?;
                self.is_free(stray.as_str())
            }
            Record::Ousted {
                session,
                branch,
                stray,
                ..
            } => {
                let sharing = self.shares(*session, *branch)?;
                sharing.grant(*session).ok_or(Refusal::Stale)?;
                self.is_free(stray.as_str())
            }
            Record::Renamed { line, name } => {
                self.line(*line)
                    .ok_or_else(|| because("the drive has no such branch or checkpoint (any more)"))?;
                self.is_free(name.as_str())
            }
        }
    }

    fn permits_marking(&self, marking: &Marking) -> Permitted {
        self.is_branch(marking.branch)?;
        match marking.mark {
            None => Ok(()),
            Some(Mark::Staged { into }) if into == marking.branch => {
                Err(because("a branch is accepted into another, not into itself"))
            }
            Some(Mark::Staged { into }) => self.is_branch(into),
            Some(Mark::Protected) => {
                self.is_unshared(marking.branch)?;
                match self.grant(marking.branch) {
                    None => Ok(()),
                    Some(grant) => Err(self.held(marking.branch, grant)),
                }
            }
        }
    }

    /// Refuses what changes a protected branch.
    pub(crate) fn is_open_to_all(&self, branch: BranchId) -> Permitted {
        if self.mark_of(branch) != Some(Mark::Protected) {
            return Ok(());
        }
        let name = self.line(branch).map_or_else(String::new, |line| line.name);
        Err(because(&format!(
            "{name} is protected: it changes only by accepted reviews, and keeps its name; `tenure fork DRIVE@{name} NEW --staged` makes a branch to work in, \
             `tenure review list DRIVE` shows those that wait; `--read-only` mounts {name} as it is, and `tenure branch unprotect DRIVE {name}` \
             lets everybody change it"
        )))
    }

    /// Returns how a branch is shared that a session shares.
    pub(crate) fn shares(&self, session: SessionId, branch: BranchId) -> Result<&Sharing, Refusal> {
        let sharing = self.sharing(branch).filter(|sharing| sharing.has(session));
        sharing.ok_or(Refusal::Stale)
    }

    fn permits_joining(&self, session: SessionId, branch: BranchId) -> Permitted {
        self.knows(session)?;
        self.is_branch(branch)?;
        self.is_open_to_all(branch)?;
        if let Some(grant) = self.grant(branch) {
            return Err(self.held(branch, grant));
        }
        match self.shares(session, branch) {
            Ok(_) => Err(because("the session shares the branch already")),
            Err(_) => Ok(()),
        }
    }

    /// Refuses what nobody may do to a branch that is shared, with who shares it and what would help.
    fn is_unshared(&self, branch: BranchId) -> Permitted {
        let Some(sharing) = self.sharing(branch) else {
            return Ok(());
        };
        let name = self
            .line(branch)
            .map_or_else(|| "it".to_owned(), |line| line.name);
        let who = self.sharers(sharing);
        // The sentence goes on with "holds it".
        Err(Refusal::Held {
            by: format!(
                "{name} is shared (`tenure mount --shared` shares it too, `tenure unmount` of each mount frees it; a fork or a \
                 checkpoint of it can be mounted now): {who}"
            ),
        })
    }

    /// Returns who holds or shares a branch, in words.
    pub(crate) fn holders(&self, branch: BranchId) -> Option<String> {
        let holder = self.grant(branch).and_then(|grant| self.session(grant.session));
        let holder = holder
            .filter(|session| !session.is_over)
            .map(|session| session.who);
        holder.or_else(|| self.sharing(branch).map(|sharing| self.sharers(sharing)))
    }

    /// Returns who shares a branch, in words.
    pub(crate) fn sharers(&self, sharing: &Sharing) -> String {
        let who = |session| self.session(session).map(|session| session.who);
        let all: Vec<_> = sharing.sessions().filter_map(who).collect();
        all.join(" and ")
    }

    /// Returns why a batch may not be applied: its session must hold the branch, and it must follow the last one.
    pub(crate) fn permits_batch(&self, batch: &Batch) -> Permitted {
        let follows = |grant: Grant| grant.number + 1 == batch.number && grant.digest == batch.previous;
        if self.granted(batch).is_some_and(|(_, grant)| follows(grant)) {
            Ok(())
        } else {
            Err(Refusal::Stale)
        }
    }

    fn permits_grant(&self, session: SessionId, branch: BranchId) -> Permitted {
        let is_over = self.session(session).is_none_or(|session| session.is_over);
        if is_over {
            return Err(Refusal::Stale);
        }
        self.is_branch(branch)?;
        self.is_open_to_all(branch)?;
        self.is_unshared(branch)?;
        match self.grant(branch) {
            None => Ok(()),
            Some(grant) => Err(self.held(branch, grant)),
        }
    }

    fn permits_deletion(&self, branch: BranchId) -> Permitted {
        self.is_branch(branch)?;
        self.is_open_to_all(branch)?;
        self.is_unshared(branch)?;
        if let Some(grant) = self.grant(branch) {
            return Err(self.held(branch, grant));
        }
        if self.has_other_branch(branch) {
            Ok(())
        } else {
            Err(because(
                "it is the drive's only branch; make another one before, or delete the drive",
            ))
        }
    }

    /// Returns the refusal that names who holds a branch; how that is ended is known to whoever can see it.
    fn held(&self, branch: BranchId, grant: Grant) -> Refusal {
        let name = self
            .line(branch)
            .map_or_else(|| "it".to_owned(), |line| line.name);
        let who = self
            .session(grant.session)
            .map_or_else(|| "another session".to_owned(), |session| session.who);
        // The sentence goes on with "holds it".
        Refusal::Held {
            by: format!(
                "{name} is in use, and free when that ends (a fork or a checkpoint of it can be mounted now): {who}"
            ),
        }
    }

    fn knows(&self, session: SessionId) -> Permitted {
        self.session(session).map(drop).ok_or(Refusal::Stale)
    }

    fn is_branch(&self, id: BranchId) -> Permitted {
        match self.line(id) {
            Some(line) if line.kind.is_branch() => Ok(()),
            Some(line) => Err(because(&format!(
                "{} is a checkpoint and never changes; fork it",
                line.name
            ))),
            None => Err(because("the drive has no such branch (any more)")),
        }
    }

    fn is_free(&self, name: &str) -> Permitted {
        match self.named(name) {
            None => Ok(()),
            Some((_, line)) => Err(because(&format!(
                "the drive has a {} {name} already; choose another name",
                line.kind.noun()
            ))),
        }
    }
}

/// Returns a refusal in words.
pub(crate) fn because(why: &str) -> Refusal {
    Refusal::Because(why.to_owned())
}

fn no_source(from: &Source) -> Refusal {
    match from {
        Source::Branch(_) => because("the drive has no such branch (any more)"),
        Source::Checkpoint(name) => because(&format!("the drive has no checkpoint {name}")),
    }
}
