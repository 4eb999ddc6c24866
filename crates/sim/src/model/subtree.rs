//! What a grant of a directory covers, and which answers a change must recall.
//!
//! A file, at first in the first of two directories, is renamed between them, linked into both, unlinked from one, and
//! changed. A grant of a directory covers its entries, present and absent, and the inodes below it. A session covers the file
//! if it holds *every* directory that has a link to it, and no more than it holds of each. It works with the copy of what it
//! covers that came with the grant: what was not covered then, or was taken out since, is not covered before the next grant.
//!
//! A session does an op by itself where it may change every directory and the file that the op touches. Otherwise the
//! owner does it, when nobody else holds any of them; a directory is given back, a file alone can be taken out of
//! what a session covers. Whoever gives back or loses anything ships its whole log: half of a rename is not an order.
//!
//! Sending, sweeping and giving back are one step here (`recall` takes it apart), no time passes, and nobody is silent.

use super::explorer::{Law, Model, Report, explore};

mod view;

use view::{Hold, Op, Session, Tree};

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A change of a file asks who holds directories that it changes, not who covers the file.
    LooksAtDirectoriesOnly,
    /// A file is covered by whoever holds one of the directories with a link to it.
    CoversByAnyLink,
    /// A rename recalls the directory from which it moves, and not the other.
    RecallsTheSourceOnly,
    /// A session may remember that a name is absent without holding the directory.
    AbsentNamesNeedNoGrant,
    /// A session that gives back one directory ships what it changed there, not what it changed before.
    ShipsWhatIsRecalled,
    /// A file becomes covered again when its other link goes.
    CoverGrows,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Subtrees {
    /// How many ops may be done.
    pub ops: u8,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Subtrees {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// The tree as it is, as the owner knows it, and as each session does.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    truth: Tree,
    owner: Tree,
    sessions: [Session; 2],
}

/// One thing that happens; a session is 0 or 1, and so is a directory.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Granted { session: usize, dir: usize, hold: Hold },
    GivesBack { session: usize, dir: usize },
    FileTakenOut { session: usize },
    Does { session: usize, op: Op },
    OwnerDoes { session: usize, op: Op },
    RemembersAbsent { session: usize, dir: usize },
}

impl Model for Subtrees {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        vec![State {
            truth: Tree::FIRST,
            owner: Tree::FIRST,
            sessions: [Session::NEW; 2],
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        for session in 0..2 {
            for dir in 0..2 {
                for hold in [Hold::Read, Hold::Write] {
                    next.extend(state.grant(session, dir, hold));
                }
                next.extend(self.give_back(state, session, dir));
                next.extend(self.remember_absent(state, session, dir));
            }
            next.extend(self.take_file_out(state, session));
            if state.truth.version < self.ops {
                for op in Op::ALL {
                    next.extend(self.do_alone(state, session, op));
                    next.extend(self.do_at_owner(state, session, op));
                }
            }
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("every answer of a holder is true", |m: &Self, s: &State| {
                s.sessions.iter().all(|session| m.is_true(s, session))
            }),
            Law::always(
                "a file that one may change is covered by nobody else",
                |m: &Self, s: &State| {
                    let [a, b] = [0, 1].map(|at| m.cover(s, &s.sessions[at]));
                    a.min(b) == Hold::None || a.max(b) == Hold::Read
                },
            ),
            Law::always("the owner's file is always somewhere", |_, s: &State| {
                s.owner.links.contains(&true)
            }),
            Law::always("what nobody may change is at the owner", |m: &Self, s: &State| {
                let changed_by_nobody =
                    |dir: usize| s.sessions.iter().all(|one| one.holds[dir] != Hold::Write);
                let file_is_free = s.sessions.iter().all(|one| m.cover(s, one) != Hold::Write);
                let dirs_agree =
                    (0..2).all(|dir| !changed_by_nobody(dir) || s.owner.links[dir] == s.truth.links[dir]);
                dirs_agree && (!file_is_free || s.owner.version == s.truth.version)
            }),
            Law::sometimes(
                "a file with links in two holders' trees is covered by none",
                |m: &Self, s: &State| {
                    let [a, b] = &s.sessions;
                    let is_split =
                        a.holds == [Hold::Write, Hold::None] && b.holds == [Hold::None, Hold::Write];
                    is_split
                        && s.truth.links == [true; 2]
                        && [a, b].iter().all(|one| m.cover(s, one) == Hold::None)
                },
            ),
            Law::sometimes("a session renames by itself", |_, s: &State| {
                s.owner.links == [true, false] && s.truth.links == [false, true]
            }),
            Law::stays_possible(
                "every op stays possible at the owner",
                |_, _| true,
                |_, s: &State| {
                    s.sessions.iter().all(|one| one.holds == [Hold::None; 2]) && s.owner == s.truth
                },
            ),
        ]
    }
}

impl Subtrees {
    /// What a session may do with the file, as it sees that itself.
    fn cover(&self, state: &State, session: &Session) -> Hold {
        let (links, is_out) = if self.has(Fault::CoverGrows) {
            (state.truth.links, false)
        } else {
            (session.copy.links, session.is_out)
        };
        if is_out {
            Hold::None
        } else {
            self.cover_by(links, session)
        }
    }

    fn cover_by(&self, links: [bool; 2], session: &Session) -> Hold {
        let holds = (0..2).filter(|&dir| links[dir]).map(|dir| session.holds[dir]);
        let cover = if self.has(Fault::CoversByAnyLink) {
            holds.max()
        } else {
            holds.min()
        };
        cover.unwrap_or(Hold::None)
    }

    fn is_true(&self, state: &State, session: &Session) -> bool {
        let entries = (0..2).all(|dir| {
            let is_known = session.holds[dir] != Hold::None;
            let is_right = session.copy.links[dir] == state.truth.links[dir];
            let is_absent = !session.absent[dir] || !state.truth.links[dir];
            (!is_known || is_right) && is_absent
        });
        let covers = self.cover(state, session) != Hold::None;
        entries && (!covers || session.copy.version == state.truth.version)
    }

    /// Everything that a session changed by itself reaches the owner; `only` says what, for a wrong one.
    fn ship(&self, state: &mut State, at: usize, only: Option<usize>) {
        let session = state.sessions[at];
        let is_whole = !self.has(Fault::ShipsWhatIsRecalled);
        let covers = self.cover(state, &session) == Hold::Write;
        for dir in (0..2).filter(|&dir| session.holds[dir] == Hold::Write) {
            if is_whole || only == Some(dir) {
                state.owner.links[dir] = session.copy.links[dir];
            }
        }
        if covers && (is_whole || only.is_none_or(|dir| session.copy.links[dir])) {
            state.owner.version = session.copy.version;
        }
    }

    fn give_back(&self, state: &State, at: usize, dir: usize) -> Option<(Step, State)> {
        (state.sessions[at].holds[dir] != Hold::None).then(|| {
            let mut after = state.clone();
            self.ship(&mut after, at, Some(dir));
            after.sessions[at].holds[dir] = Hold::None;
            after.sessions[at].settle();
            (Step::GivesBack { session: at, dir }, after)
        })
    }

    fn take_file_out(&self, state: &State, at: usize) -> Option<(Step, State)> {
        (self.cover(state, &state.sessions[at]) != Hold::None).then(|| {
            let mut after = state.clone();
            self.ship(&mut after, at, None);
            after.sessions[at].is_out = true;
            after.sessions[at].settle();
            (Step::FileTakenOut { session: at }, after)
        })
    }

    fn remember_absent(&self, state: &State, at: usize, dir: usize) -> Option<(Step, State)> {
        let session = &state.sessions[at];
        let changed = state.sessions.iter().any(|one| one.holds[dir] == Hold::Write);
        let may = self.has(Fault::AbsentNamesNeedNoGrant) && !session.absent[dir];
        (may && !changed && !state.owner.links[dir]).then(|| {
            let mut after = state.clone();
            after.sessions[at].absent[dir] = true;
            (Step::RemembersAbsent { session: at, dir }, after)
        })
    }

    /// A session does an op on its own copy.
    fn do_alone(&self, state: &State, at: usize, op: Op) -> Option<(Step, State)> {
        let session = &state.sessions[at];
        let holds = (0..2).all(|dir| !op.changes(dir) || session.holds[dir] == Hold::Write);
        let may = holds && self.cover(state, session) == Hold::Write;
        let copy = session.copy.after(op).filter(|_| may)?;
        let mut after = state.clone();
        after.sessions[at].copy = copy;
        after.truth = state.truth.after(op)?;
        Some((Step::Does { session: at, op }, after))
    }

    /// The owner does a session's op when no other session holds what it touches. The session's own log comes before it.
    fn do_at_owner(&self, state: &State, at: usize, op: Op) -> Option<(Step, State)> {
        let other = &state.sessions[1 - at];
        let skips = |dir: usize| self.has(Fault::RecallsTheSourceOnly) && op.moves_to() == Some(dir);
        let dirs_are_free =
            (0..2).all(|dir| !op.changes(dir) || other.holds[dir] == Hold::None || skips(dir));
        let file_is_free = self.cover(state, other) == Hold::None || self.has(Fault::LooksAtDirectoriesOnly);
        if !dirs_are_free || !file_is_free {
            return None;
        }
        let mut after = state.clone();
        self.ship(&mut after, at, None);
        after.owner = after.owner.after(op)?;
        after.truth = state.truth.after(op)?;
        let covers = [state, &after].map(|state| self.cover(state, &state.sessions[at]) != Hold::None);
        after.sessions[at].learn(after.owner, covers[0] || covers[1]);
        Some((Step::OwnerDoes { session: at, op }, after))
    }
}

impl State {
    /// The owner grants a directory with what is below it, as it knows them.
    fn grant(&self, at: usize, dir: usize, hold: Hold) -> Option<(Step, State)> {
        let other = self.sessions[1 - at].holds[dir];
        let is_free = other == Hold::None || other == Hold::Read && hold == Hold::Read;
        (is_free && self.sessions[at].holds[dir] < hold).then(|| {
            let mut after = self.clone();
            let session = &mut after.sessions[at];
            let is_new = session.holds[dir] == Hold::None;
            session.holds[dir] = hold;
            if is_new {
                session.copy_granted(dir, self.owner);
            }
            (
                Step::Granted {
                    session: at,
                    dir,
                    hold,
                },
                after,
            )
        })
    }
}
