//! A takeover while sessions read, write and hold: whom does the new owner wait for?
//!
//! The old owner has lent one inode: to a reader, who caches the answer, or to a writer. Sessions and grants to write are
//! durable records before they are used; grants to read are not. So the new owner does not know what the reader caches. It
//! knows that the reader exists. It answers when every session has come, having dropped what it had cached, or the time of
//! those who stay away is over. Work under a grant to write needs no such wait: who holds that is alone.
//!
//! A session that came to the new owner listens to no older one. So a new owner to whom *every* session came need not outwait
//! the old one. A lease is never younger than the last proof of the owner that renewed it, which the answer to a renewal tells.
//! So all time runs from the seal: `session_ttl`, which is not shorter than `owner_ttl`, is over for both.
//!
//! A returned grant may not be durable when the old owner dies. So the journal says who *may* hold, and the session says
//! whether it does.
//!
//! Time and drift are as in `grant`, and so is what is known of an owner's proofs; replays and what was seen are `seen`'s.
//! Whoever reads is a session: a reader without one would have to outwait the old owner.

use super::explorer::{Law, Model, Report, explore};

mod world;

use world::{LEASE_AGE_MAX, State};

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A new owner answers at once.
    WaitsForNobody,
    /// An owner renews a lease for its whole time, however old its own last proof is.
    LeaseForgetsTheProof,
    /// A session is opened without a durable record.
    SessionNotDurable,
    /// A session comes to the new owner with what it has cached.
    KeepsItsCaches,
    /// A session that came to the new owner still takes an answer of the old one.
    ListensToTheOldOwner,
    /// A session holds what the journal says, whether it had given it back or not.
    TakesTheJournalsWord,
    /// A grant to write is used before it is durable.
    GrantNotDurable,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Reclaims {
    /// How many changes may be made.
    pub changes: u8,
    /// The planted fault.
    pub fault: Option<Fault>,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    TimePasses,
    OldOwnerLooks,
    OldOwnerDies,
    ReaderOpens,
    OldOwnerLetsRead,
    OldOwnerRenewsReader,
    OldOwnerRenewsWriter,
    OldOwnerRecallsReader,
    OldOwnerLetsWrite,
    OldOwnerRecallsWriter,
    ReturnIsDurable,
    OldOwnerChanges,
    WriterChanges { epoch: u8 },
    NewOwnerSealsAndOpens,
    NewOwnerServes,
    ReaderComes,
    WriterComes,
    NewOwnerLetsRead,
    NewOwnerRenewsReader,
    NewOwnerRenewsWriter,
    NewOwnerRecallsReader,
    NewOwnerRecallsWriter,
    NewOwnerChanges,
}

impl Reclaims {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

impl Model for Reclaims {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        vec![State::FIRST]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let tick = state.one_tick_later();
        if tick != *state {
            next.push((Step::TimePasses, tick));
        }
        if state.old.may_answer() {
            self.old_steps(state, next);
        }
        if state.sealed {
            self.new_steps(state, next);
        } else {
            next.push(state.with(Step::NewOwnerSealsAndOpens, |s| {
                s.sealed = true;
                s.new.value = s.journal.value;
            }));
        }
        if state.old.is_alive {
            next.push(state.with(Step::OldOwnerDies, |s| s.old.is_alive = false));
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("what a reader answers is the newest", |_, s: &State| {
                let cached = s.reader.cached.filter(|_| s.reader.is_live());
                cached.is_none_or(|value| value == s.journal.value)
            }),
            Law::always(
                "an owner that a reader asks knows all that is acknowledged",
                |m: &Self, s: &State| {
                    let listens =
                        s.reader.is_open && (s.reader.epoch == 0 || m.has(Fault::ListensToTheOldOwner));
                    let answers = s.old.may_answer() && !s.old.has_writer && listens;
                    !answers || s.old.value == s.journal.value
                },
            ),
            Law::always("a writer is alone", |_, s: &State| {
                let writes = s.writer.holds && s.writer.is_live();
                !writes || s.reader.cached.is_none() || !s.reader.is_live()
            }),
            Law::sometimes("all come, and nobody waits", |_, s: &State| {
                s.new.serves && s.new.wait_age == 0 && s.old.may_answer() && s.reader.is_open
            }),
            Law::sometimes("a writer goes on before the reader is heard", |_, s: &State| {
                s.new.has_acknowledged && s.reader.is_open && s.reader.epoch == 0 && s.writer.epoch == 1
            }),
            Law::sometimes(
                "a change goes ahead without a reader that stays away",
                |_, s: &State| {
                    s.new.has_acknowledged
                        && s.reader.cached.is_some()
                        && s.reader.epoch == 0
                        && s.writer.epoch == 0
                },
            ),
            Law::stays_possible(
                "the new owner can acknowledge",
                |m: &Self, s: &State| s.journal.value < m.changes,
                |_, s: &State| s.new.has_acknowledged,
            ),
        ]
    }
}

impl Reclaims {
    /// What the old owner does while it believes that it is the owner.
    fn old_steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let old = &state.old;
        let reader = &state.reader;
        let can_append = !state.sealed;
        let may_change = can_append && state.journal.value < self.changes;
        let mut add = |may: bool, step: Step, does: &dyn Fn(&mut State)| {
            if may {
                next.push(state.with(step, does));
            }
        };
        add(can_append && old.proof_age > 0, Step::OldOwnerLooks, &|s| {
            s.old.proof_age = 0
        });
        let is_recorded = !self.has(Fault::SessionNotDurable);
        if !reader.is_open {
            add(is_recorded && can_append, Step::ReaderOpens, &|s| {
                s.open_reader();
                s.journal.has_reader = true;
            });
            add(!is_recorded, Step::ReaderOpens, &State::open_reader);
        }
        let listens = reader.is_open && (reader.epoch == 0 || self.has(Fault::ListensToTheOldOwner));
        let may_read = listens && !old.has_writer && !old.has_reader && reader.is_live();
        add(may_read, Step::OldOwnerLetsRead, &State::old_lets_read);
        let proof_age = if self.has(Fault::LeaseForgetsTheProof) {
            0
        } else {
            old.proof_age
        };
        add(
            listens && reader.lease_age > proof_age,
            Step::OldOwnerRenewsReader,
            &|s| s.reader.renew(proof_age),
        );
        let renews_writer = state.writer.epoch == 0 && state.writer.lease_age > proof_age;
        add(renews_writer, Step::OldOwnerRenewsWriter, &|s| {
            s.writer.renew(proof_age)
        });
        add(old.has_reader && listens, Step::OldOwnerRecallsReader, &|s| {
            s.reader.cached = None;
            s.old.has_reader = false;
        });
        let may_write = !old.has_reader && !old.has_writer && state.writer.epoch == 0;
        add(
            may_write && self.has(Fault::GrantNotDurable),
            Step::OldOwnerLetsWrite,
            &State::old_lets_write,
        );
        add(may_write && can_append, Step::OldOwnerLetsWrite, &|s| {
            s.old_lets_write();
            s.journal.has_writer = true;
        });
        add(
            old.has_writer && state.writer.epoch == 0,
            Step::OldOwnerRecallsWriter,
            &|s| {
                s.old.has_writer = false;
                s.writer.holds = false;
            },
        );
        let is_returned = state.journal.has_writer && !old.has_writer;
        add(is_returned && can_append, Step::ReturnIsDurable, &|s| {
            s.journal.has_writer = false
        });
        add(
            may_change && !old.has_reader && !old.has_writer,
            Step::OldOwnerChanges,
            &State::old_changes,
        );
        let writes = state.writer.holds && state.writer.is_live() && state.writer.epoch == 0;
        add(
            may_change && writes,
            Step::WriterChanges { epoch: 0 },
            &State::old_changes,
        );
    }

    fn new_steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let (new, reader, writer) = (&state.new, &state.reader, &state.writer);
        let may_change = state.journal.value < self.changes;
        let mut add = |may: bool, step: Step, does: &dyn Fn(&mut State)| {
            if may {
                next.push(state.with(step, does));
            }
        };
        let all_came = (!state.journal.has_reader || reader.epoch == 1) && writer.epoch == 1;
        let is_waited = all_came || new.wait_age >= LEASE_AGE_MAX || self.has(Fault::WaitsForNobody);
        add(!new.serves && is_waited, Step::NewOwnerServes, &|s| {
            s.new.serves = true
        });
        add(reader.is_open && reader.epoch == 0, Step::ReaderComes, &|s| {
            if !self.has(Fault::KeepsItsCaches) {
                s.reader.cached = None;
            }
            s.reader.epoch = 1;
            s.reader.renew(0);
        });
        let still_holds = state.journal.has_writer && (writer.holds || self.has(Fault::TakesTheJournalsWord));
        add(writer.epoch == 0, Step::WriterComes, &|s| {
            s.writer.epoch = 1;
            s.writer.renew(0);
            s.writer.holds = still_holds && !s.new.gave_writer_up;
            s.new.has_writer = s.writer.holds;
        });
        // Under its grant it is alone: nothing else is asked.
        let writes = writer.holds && writer.is_live() && writer.epoch == 1 && new.has_writer;
        add(
            writes && may_change,
            Step::WriterChanges { epoch: 1 },
            &State::new_changes,
        );
        if !new.serves {
            return;
        }
        let writer_is_out = !new.has_writer;
        let may_read = reader.epoch == 1 && !new.has_reader && writer_is_out && reader.is_live();
        add(may_read, Step::NewOwnerLetsRead, &|s| {
            s.new.gave_writer_up = true;
            s.new.has_reader = true;
            s.reader.cached = Some(s.new.value);
        });
        add(
            reader.epoch == 1 && reader.lease_age > 0,
            Step::NewOwnerRenewsReader,
            &|s| s.reader.renew(0),
        );
        add(
            writer.epoch == 1 && writer.lease_age > 0,
            Step::NewOwnerRenewsWriter,
            &|s| s.writer.renew(0),
        );
        add(new.has_reader, Step::NewOwnerRecallsReader, &|s| {
            s.reader.cached = None;
            s.new.has_reader = false;
        });
        add(new.has_writer, Step::NewOwnerRecallsWriter, &|s| {
            s.writer.holds = false;
            s.new.has_writer = false;
        });
        add(
            may_change && writer_is_out && !new.has_reader,
            Step::NewOwnerChanges,
            &|s| {
                s.new.gave_writer_up = true;
                s.new_changes();
            },
        );
    }
}
