//! Visits every state that a model can reach, breadth first, and judges its laws.
//!
//! It keeps whole states, not fingerprints: two states are one only if they are equal, so "no counterexample" means
//! that there is none within the model's bounds. It is deterministic: one model gives one report. The first broken law
//! found is a shortest one, and its trace is the list of steps that lead to it.
//!
//! It is not a simulator: nothing is drawn by chance, and no clock runs. Time, delay and loss are steps of the models.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A small world: where it starts, what can happen next, and what must hold.
pub(crate) trait Model {
    /// Everything that tells two moments of the world apart, the witness's notes included.
    type State: Clone + Eq + Hash;
    /// The name of one thing that can happen, for traces.
    type Step: fmt::Debug;

    /// Returns the states from which the world may start.
    fn starts(&self) -> Vec<Self::State>;
    /// Adds to `next` everything that can happen in `state`, with the state that follows.
    fn steps(&self, state: &Self::State, next: &mut Vec<(Self::Step, Self::State)>);
    /// Returns what must hold.
    fn laws(&self) -> Vec<Law<Self>>;
}

/// A predicate over the model and one of its states.
type Holds<M> = fn(&M, &<M as Model>::State) -> bool;

/// One property, and how it is judged.
pub(crate) struct Law<M: Model + ?Sized> {
    name: &'static str,
    kind: Kind<M>,
}

enum Kind<M: Model + ?Sized> {
    Always(Holds<M>),
    Sometimes(Holds<M>),
    StaysPossible { from: Holds<M>, to: Holds<M> },
}

impl<M: Model> Law<M> {
    /// A law that holds in every reachable state.
    pub(crate) fn always(name: &'static str, holds: Holds<M>) -> Self {
        Self {
            name,
            kind: Kind::Always(holds),
        }
    }

    /// A law that some reachable state shows: without it, a model that does nothing would be safe.
    pub(crate) fn sometimes(name: &'static str, shown: Holds<M>) -> Self {
        Self {
            name,
            kind: Kind::Sometimes(shown),
        }
    }

    /// A law that from every reachable `from` state some way leads to a `to` state: nothing wedges for ever.
    pub(crate) fn stays_possible(name: &'static str, from: Holds<M>, to: Holds<M>) -> Self {
        Self {
            name,
            kind: Kind::StaysPossible { from, to },
        }
    }
}

/// A law that does not hold, and the steps that show it.
#[derive(Debug)]
pub struct Counterexample {
    /// The law's name.
    pub law: &'static str,
    /// The steps from a start to the state that breaks the law; empty where no state ever showed it.
    pub steps: Vec<String>,
}

/// What an exploration found.
#[derive(Debug)]
pub struct Report {
    /// How many different states were reached.
    pub states: usize,
    /// How many steps between them were taken.
    pub steps: usize,
    /// How many steps the farthest state is from a start.
    pub depth: usize,
    /// The first law found broken, if any. The exploration stops there, so the counts are then partial.
    pub broken: Option<Counterexample>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} steps, {} deep",
            self.states, self.steps, self.depth
        )?;
        if let Some(broken) = &self.broken {
            write!(f, "; broken: {}", broken.law)?;
            for step in &broken.steps {
                write!(f, "\n    {step}")?;
            }
        }
        Ok(())
    }
}

/// Explores `model` to its end, or to the first state that breaks a law.
pub(crate) fn explore<M: Model>(model: &M) -> Report {
    let laws = model.laws();
    let mut shown = vec![false; laws.len()];
    let keeps_edges = laws
        .iter()
        .any(|law| matches!(law.kind, Kind::StaysPossible { .. }));
    let mut space = Space::new();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut steps = 0;
    let mut next = Vec::new();
    for start in model.starts() {
        space.reach(start, NOWHERE);
    }
    let mut at = 0;
    while at < space.states.len() {
        let state = space.states[at].clone();
        for (law, shown) in laws.iter().zip(&mut shown) {
            match law.kind {
                Kind::Always(holds) if !holds(model, &state) => {
                    return space.report(model, steps, law.name, at);
                }
                Kind::Sometimes(shows) => *shown = *shown || shows(model, &state),
                Kind::Always(_) | Kind::StaysPossible { .. } => {}
            }
        }
        model.steps(&state, &mut next);
        for (_, following) in next.drain(..) {
            steps += 1;
            let to = space.reach(following, index(at));
            if keeps_edges {
                edges.push((index(at), to));
            }
        }
        at += 1;
    }
    for (law, shown) in laws.iter().zip(shown) {
        match law.kind {
            Kind::Sometimes(_) if !shown => return space.report_missing(steps, law.name),
            Kind::StaysPossible { from, to } => {
                if let Some(stuck) = space.stuck(model, &edges, from, to) {
                    return space.report(model, steps, law.name, stuck);
                }
            }
            Kind::Always(_) | Kind::Sometimes(_) => {}
        }
    }
    Report {
        states: space.states.len(),
        steps,
        depth: space.depth(),
        broken: None,
    }
}

/// No state: the parent of a start, and an empty place of the table.
const NOWHERE: u32 = u32::MAX;

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a small model has fewer than 2^32 states")
}

/// The states reached so far, in the order of their discovery, which is breadth first.
struct Space<S> {
    states: Vec<S>,
    /// From which state each was first reached.
    parents: Vec<u32>,
    /// An open-addressed table of (hash, state number); its length is a power of two and it is at most half full.
    table: Vec<(u32, u32)>,
}

impl<S: Clone + Eq + Hash> Space<S> {
    fn new() -> Self {
        Self {
            states: Vec::new(),
            parents: Vec::new(),
            table: vec![(0, NOWHERE); 1 << 12],
        }
    }

    /// Returns the number of `state`, which is new if it was never reached before.
    fn reach(&mut self, state: S, parent: u32) -> u32 {
        let mut mixer = Mixer(0);
        state.hash(&mut mixer);
        // The high half: a product's low bits depend on few of its factors' bits.
        let hash = (mixer.finish() >> 32) as u32;
        let mut place = self.home(hash);
        while self.table[place].1 != NOWHERE {
            let (kept, number) = self.table[place];
            if kept == hash && self.states[number as usize] == state {
                return number;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
        let number = index(self.states.len());
        self.table[place] = (hash, number);
        self.states.push(state);
        self.parents.push(parent);
        if self.states.len() * 2 > self.table.len() {
            self.grow();
        }
        number
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.table.len() - 1)
    }

    fn grow(&mut self) {
        let doubled = vec![(0, NOWHERE); self.table.len() * 2];
        for (hash, number) in std::mem::replace(&mut self.table, doubled) {
            if number != NOWHERE {
                let mut place = self.home(hash);
                while self.table[place].1 != NOWHERE {
                    place = (place + 1) & (self.table.len() - 1);
                }
                self.table[place] = (hash, number);
            }
        }
    }

    /// Returns the numbers of the states on the way from a start to `at`, both included.
    fn way(&self, at: usize) -> Vec<usize> {
        let mut way = vec![at];
        let mut parent = self.parents[at];
        while parent != NOWHERE {
            way.push(parent as usize);
            parent = self.parents[parent as usize];
        }
        way.reverse();
        way
    }

    fn depth(&self) -> usize {
        self.states
            .len()
            .checked_sub(1)
            .map_or(0, |last| self.way(last).len() - 1)
    }

    /// Returns the first `from` state from which no way leads to a `to` state.
    fn stuck<M: Model<State = S>>(
        &self,
        model: &M,
        edges: &[(u32, u32)],
        from: Holds<M>,
        to: Holds<M>,
    ) -> Option<usize> {
        let (starts, sources) = reversed(edges, self.states.len());
        let mut reaches: Vec<bool> = self.states.iter().map(|state| to(model, state)).collect();
        let mut pending: Vec<usize> = (0..reaches.len()).filter(|&state| reaches[state]).collect();
        while let Some(state) = pending.pop() {
            for &source in &sources[starts[state]..starts[state + 1]] {
                if !std::mem::replace(&mut reaches[source as usize], true) {
                    pending.push(source as usize);
                }
            }
        }
        (0..reaches.len()).find(|&state| !reaches[state] && from(model, &self.states[state]))
    }

    fn report<M: Model<State = S>>(&self, model: &M, steps: usize, law: &'static str, at: usize) -> Report {
        let broken = Some(Counterexample {
            law,
            steps: self.trace(model, at),
        });
        Report {
            states: self.states.len(),
            steps,
            depth: self.depth(),
            broken,
        }
    }

    fn report_missing(&self, steps: usize, law: &'static str) -> Report {
        let broken = Some(Counterexample {
            law,
            steps: Vec::new(),
        });
        Report {
            states: self.states.len(),
            steps,
            depth: self.depth(),
            broken,
        }
    }

    /// Names the steps to `at` by taking each of them again.
    fn trace<M: Model<State = S>>(&self, model: &M, at: usize) -> Vec<String> {
        let mut next = Vec::new();
        let mut trace = Vec::new();
        for pair in self.way(at).windows(2) {
            model.steps(&self.states[pair[0]], &mut next);
            let taken = next.drain(..).find(|(_, state)| *state == self.states[pair[1]]);
            let (step, _) = taken.expect("a state was reached by a step of its parent");
            trace.push(format!("{step:?}"));
        }
        trace
    }
}

/// A quick hasher for states made of many small numbers. A poor hash costs time here, never an answer.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Turns edges around: the sources of state `s` are `sources[starts[s]..starts[s + 1]]`.
fn reversed(edges: &[(u32, u32)], states: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0; states + 1];
    for &(_, to) in edges {
        starts[to as usize + 1] += 1;
    }
    for state in 0..states {
        starts[state + 1] += starts[state];
    }
    let mut free = starts.clone();
    let mut sources = vec![0; edges.len()];
    for &(source, to) in edges {
        sources[free[to as usize]] = source;
        free[to as usize] += 1;
    }
    (starts, sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hands of a clock that each move forward one at a time, up to a limit.
    struct Hands(u8);

    impl Model for Hands {
        type State = (u8, u8);
        type Step = &'static str;

        fn starts(&self) -> Vec<(u8, u8)> {
            vec![(0, 0)]
        }

        fn steps(&self, &(a, b): &(u8, u8), next: &mut Vec<(&'static str, (u8, u8))>) {
            if a < self.0 {
                next.push(("a moves", (a + 1, b)));
            }
            if b < self.0 {
                next.push(("b moves", (a, b + 1)));
            }
        }

        fn laws(&self) -> Vec<Law<Self>> {
            vec![
                Law::always("the hands are never at (2, 3)", |_, &state| state != (2, 3)),
                Law::sometimes("a hand is at 1", |_, &(a, b)| a == 1 || b == 1),
                Law::stays_possible(
                    "the hands can still meet at 2",
                    |_, _| true,
                    |_, &state| state == (2, 2),
                ),
            ]
        }
    }

    #[test]
    fn every_state_is_visited_once() {
        let report = explore(&Hands(2));
        assert_eq!((report.states, report.steps, report.depth), (9, 12, 4));
        assert!(report.broken.is_none(), "{report}");
    }

    #[test]
    fn the_first_counterexample_is_a_shortest_one() {
        let broken = explore(&Hands(200)).broken.unwrap();
        assert_eq!(
            (broken.law, broken.steps.len()),
            ("the hands are never at (2, 3)", 5)
        );
        assert_eq!(
            broken
                .steps
                .iter()
                .filter(|step| step.contains("b moves"))
                .count(),
            3
        );
    }

    #[test]
    fn what_no_state_shows_is_reported() {
        assert_eq!(explore(&Hands(0)).broken.unwrap().law, "a hand is at 1");
    }

    #[test]
    fn a_state_without_a_way_on_is_reported() {
        let broken = explore(&Hands(1)).broken.unwrap();
        assert_eq!(
            (broken.law, broken.steps.len()),
            ("the hands can still meet at 2", 0)
        );
    }

    #[test]
    fn the_table_grows_without_losing_a_state() {
        struct Count;
        impl Model for Count {
            type State = u32;
            type Step = u32;
            fn starts(&self) -> Vec<u32> {
                vec![0]
            }
            fn steps(&self, &state: &u32, next: &mut Vec<(u32, u32)>) {
                next.push((state, (state + 1) % 10_007));
            }
            fn laws(&self) -> Vec<Law<Self>> {
                Vec::new()
            }
        }
        let report = explore(&Count);
        assert_eq!((report.states, report.steps), (10_007, 10_007));
    }
}
