//! Histories of a few lines: each state is a number, which stands where its bytes would, and knows which changes are in it.

use super::*;
use crate::state::After;
use std::collections::BTreeSet;
use tenure_core::tree::Memory;
use tenure_model::record::{Maker, Source};
use tenure_model::{BranchName, CheckpointName, Digest, PackNumber, Record, Timestamp, Turn, Why};

const NOON: Timestamp = Timestamp {
    secs: 1_795_867_200,
    nanos: 0,
};

/// A drive of which only the history counts.
struct Story {
    state: State,
    seq: u64,
    /// The changes that are in each state.
    states: Vec<BTreeSet<u64>>,
    /// Which state each line is.
    now: BTreeMap<BranchId, usize>,
}

impl Story {
    fn new() -> Self {
        let mut story = Self {
            state: State::new(Memory::new()),
            seq: 0,
            states: vec![BTreeSet::new()],
            now: BTreeMap::from([(MAIN, 0)]),
        };
        story.apply(&Record::DriveCreated {
            hash_key: [7; 16],
            branch: BranchName::parse("main").unwrap(),
            uid: 0,
            gid: 0,
            time: NOON,
        });
        story.become_state(MAIN, 0, |_| Why::Resolved { path: Box::from([]) });
        story
    }

    fn apply(&mut self, record: &Record) {
        self.seq += 1;
        self.state.permits(record).unwrap();
        self.state.apply(record, Seq(self.seq), After::Same);
    }

    fn root(&self, state: usize) -> Root {
        let page = Address {
            pack: PackNumber(1),
            digest: Digest([state as u8; 32]),
        };
        Root {
            page,
            inodes: 1,
            bytes: state as u64,
        }
    }

    fn past(&self, line: BranchId) -> Past {
        Past {
            stretch: self.state.stretch(line),
            at: Seq(self.seq),
            root: self.root(self.now[&line]),
        }
    }

    fn become_state(&mut self, branch: BranchId, state: usize, why: impl Fn(&Self) -> Why) {
        let turn = Turn {
            branch,
            to: self.root(state),
            inos: 0,
            why: why(self),
            by: "ada".into(),
            time: NOON,
        };
        self.now.insert(branch, state);
        self.apply(&Record::Turned(turn));
    }

    fn new_state(&mut self, changes: BTreeSet<u64>) -> usize {
        self.states.push(changes);
        self.states.len() - 1
    }

    fn change(&mut self, line: BranchId) -> usize {
        let mut changes = self.states[self.now[&line]].clone();
        changes.insert(self.seq);
        let state = self.new_state(changes);
        self.become_state(line, state, |_| Why::Resolved { path: Box::from([]) });
        state
    }

    fn fork(&mut self, from: BranchId) -> BranchId {
        let id = self.state.begun().next_line;
        let source = match self.state.line(from).unwrap() {
            line if line.kind.is_branch() => Source::Branch(from),
            line => Source::Checkpoint(CheckpointName::parse(&line.name).unwrap()),
        };
        self.apply(&Record::Forked {
            from: source,
            name: BranchName::parse(&format!("line-{}", id.0)).unwrap(),
            time: NOON,
            until: None,
            key: None,
            staged: None,
        });
        self.now.insert(id, self.now[&from]);
        id
    }

    fn checkpoint(&mut self, branch: BranchId) -> BranchId {
        let id = self.state.begun().next_line;
        self.apply(&Record::CheckpointMade {
            branch,
            name: CheckpointName::parse(&format!("line-{}", id.0)).unwrap(),
            message: String::new(),
            time: NOON,
            until: None,
            maker: Maker::Asked,
        });
        self.now.insert(id, self.now[&branch]);
        id
    }

    fn merge(&mut self, from: BranchId, into: BranchId) -> usize {
        let both = &self.states[self.now[&from]] | &self.states[self.now[&into]];
        let state = self.new_state(both);
        let past = self.past(from);
        self.become_state(into, state, |_| Why::Merged {
            from: "line".into(),
            past,
        });
        state
    }

    fn undo(&mut self, branch: BranchId, to: BranchId) {
        let (past, state) = (self.past(to), self.now[&to]);
        self.become_state(branch, state, |_| Why::Undone {
            to: "line".into(),
            past,
        });
    }

    fn delete(&mut self, line: BranchId) {
        let record = match self.state.line(line).unwrap() {
            found if found.kind.is_branch() => Record::BranchDeleted { branch: line },
            found => Record::CheckpointDeleted {
                name: CheckpointName::parse(&found.name).unwrap(),
            },
        };
        self.apply(&record);
        self.now.remove(&line);
    }

    fn common(&self, one: BranchId, other: BranchId) -> Option<usize> {
        let base = self.state.common(one, other);
        assert_eq!(
            base.as_ref().map(Branch::totals),
            self.state.common(other, one).as_ref().map(Branch::totals),
            "either way it is the same"
        );
        base.map(|base| base.totals().bytes as usize)
    }
}

const MAIN: BranchId = BranchId(1);

#[test]
fn a_fork_and_its_base_have_what_the_base_was_then() {
    let mut story = Story::new();
    let base = story.change(MAIN);
    let fork = story.fork(MAIN);
    assert_eq!(story.common(MAIN, fork), Some(base));
    story.change(MAIN);
    story.change(fork);
    assert_eq!(story.common(MAIN, fork), Some(base));
    let other = story.fork(MAIN);
    assert_eq!(
        story.common(other, fork),
        Some(base),
        "and so has what was forked later"
    );
}

#[test]
fn what_was_merged_is_common_from_then_on() {
    let mut story = Story::new();
    let fork = story.fork(MAIN);
    story.change(MAIN);
    let merged = story.change(fork);
    story.merge(fork, MAIN);
    assert_eq!(story.common(MAIN, fork), Some(merged));
    story.change(fork);
    story.change(MAIN);
    assert_eq!(story.common(MAIN, fork), Some(merged));
    let both = story.merge(MAIN, fork);
    assert_eq!(story.common(MAIN, fork), Some(story.now[&MAIN]));
    assert_ne!(both, story.now[&MAIN]);
}

#[test]
fn a_line_comes_from_a_checkpoint_as_from_the_branch_that_was_it() {
    let mut story = Story::new();
    let base = story.change(MAIN);
    let checkpoint = story.checkpoint(MAIN);
    story.change(MAIN);
    let (one, other) = (story.fork(checkpoint), story.fork(checkpoint));
    story.change(one);
    assert_eq!(story.common(one, MAIN), Some(base));
    assert_eq!(story.common(one, other), Some(base));
    assert_eq!(story.common(one, checkpoint), Some(base));
    story.delete(checkpoint);
    assert_eq!(story.common(one, other), Some(base), "also when it is gone");
}

#[test]
fn what_was_undone_is_in_the_branch_no_longer() {
    let mut story = Story::new();
    let base = story.change(MAIN);
    let fork = story.fork(MAIN);
    story.change(fork);
    let before = story.checkpoint(MAIN);
    story.merge(fork, MAIN);
    story.undo(MAIN, before);
    assert_eq!(
        story.common(MAIN, fork),
        Some(base),
        "a merge that was undone can be made again"
    );
    let merged = story.now[&fork];
    story.merge(fork, MAIN);
    assert_eq!(story.common(MAIN, fork), Some(merged));
}

#[test]
fn a_history_is_kept_as_long_as_a_line_needs_it() {
    let mut story = Story::new();
    let base = story.change(MAIN);
    let middle = story.fork(MAIN);
    story.change(middle);
    let last = story.fork(middle);
    story.delete(middle);
    assert_eq!(story.common(MAIN, last), Some(base));
    assert_eq!(story.state.edges().len(), 2);
    story.delete(last);
    assert_eq!(story.state.edges().len(), 0, "nobody needs it");
    assert!(story.state.ancestry.named.is_empty());
}

#[test]
fn of_several_states_that_both_have_the_last_one_counts() {
    let mut story = Story::new();
    story.change(MAIN);
    let (one, other) = (story.fork(MAIN), story.fork(MAIN));
    let (of_one, of_other) = (story.change(one), story.change(other));
    // Each takes in what the other was before.
    let (first, second) = (story.past(one), story.past(other));
    let all = story.new_state(&story.states[of_one].clone() | &story.states[of_other].clone());
    story.become_state(other, all, |_| Why::Merged {
        from: "one".into(),
        past: first,
    });
    story.become_state(one, all, |_| Why::Merged {
        from: "other".into(),
        past: second,
    });
    let common = story.common(one, other);
    assert!(common == Some(of_one) || common == Some(of_other), "{common:?}");
}

#[test]
fn lines_whose_history_is_not_known_have_nothing_in_common() {
    let mut story = Story::new();
    let fork = story.fork(MAIN);
    for ((stretch, seq), _) in story.state.edges() {
        // So a drive is that an earlier version has made.
        story.state.remove(&row::edge_key(stretch, seq));
    }
    assert_eq!(story.common(MAIN, fork), None);
    let later = story.fork(fork);
    assert_eq!(story.common(fork, later), Some(story.now[&fork]));
    assert_eq!(story.common(MAIN, later), None);
}

#[test]
fn whatever_the_history_what_is_common_is_in_both() {
    let mut number = 1u64;
    let mut below = |end: usize| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as usize % end
    };
    for _ in 0..60 {
        let mut story = Story::new();
        for _ in 0..40 {
            let lines: Vec<BranchId> = story.now.keys().copied().collect();
            let is_branch = |line: &BranchId| story.state.line(*line).unwrap().kind.is_branch();
            let branches: Vec<BranchId> = lines.iter().copied().filter(is_branch).collect();
            let (line, branch) = (lines[below(lines.len())], branches[below(branches.len())]);
            match below(9) {
                0..=2 => drop(story.change(branch)),
                3 | 4 if lines.len() < 8 => drop(story.fork(line)),
                5 if lines.len() < 8 => drop(story.checkpoint(branch)),
                6 if line != branch => drop(story.merge(line, branch)),
                7 if line != branch => story.undo(branch, line),
                8 if branches.len() > 1 || line != branch => story.delete(line),
                _ => {}
            }
            let lines: Vec<BranchId> = story.now.keys().copied().collect();
            for one in &lines {
                for other in lines.iter().filter(|other| *other != one) {
                    let base = story.common(*one, *other).expect("all come from one");
                    let is_in =
                        |line: &BranchId| story.states[base].is_subset(&story.states[story.now[line]]);
                    assert!(is_in(one) && is_in(other), "{base} of {one} and {other}");
                }
            }
        }
    }
}
