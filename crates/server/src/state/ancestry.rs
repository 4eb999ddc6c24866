//! Ancestry: which states of which lines are in a line, so that two lines know the last state that both have.
//!
//! A line's history is a [`Stretch`], and another one once it was put back to an earlier state. An *edge* says that from a record on all is
//! in a stretch that another one was at some record, and what that was. Each fork, checkpoint, stray, merge and undo makes one. Invariant: what is in a stretch
//! at a record is in it at every later one; the state that an edge names was reached before the edge was made.

use super::{State, row};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_core::{Branch, Totals, Tree};
use tenure_model::codec::{Codec, Malformed, Reader, put_option, put_varint};
use tenure_model::{Address, BranchId, Past, Root, Seq, Stretch};

/// Behind every record.
const NOW: Seq = Seq(u64::MAX);

/// What another stretch was, and is in one from a record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The other stretch.
    pub(crate) of: Stretch,
    /// The record up to which it is in.
    pub(crate) at: Seq,
    /// The root page of what it was then, as the last fold wrote it; none before the first.
    pub(crate) root: Option<Address>,
    /// What it held then.
    pub(crate) totals: Totals,
}

/// Which edge: of which stretch, and from which record on.
pub(crate) type EdgeId = (Stretch, Seq);

/// What is known of the drive's history besides its rows.
#[derive(Clone, Default)]
pub(crate) struct Ancestry {
    /// The states that edges name and that no fold has written.
    unfolded: BTreeMap<EdgeId, Branch>,
    /// How many edges name a stretch.
    named: BTreeMap<Stretch, u64>,
}

/// Where a fold has written the state that an edge names.
pub(crate) type FoldedEdge = (EdgeId, Address);

/// Up to which record a stretch is in something, and the edge that names what it was then; none where it is all of it.
#[derive(Clone, Copy)]
struct Reach {
    at: Seq,
    edge: Option<EdgeId>,
}

impl Codec for Edge {
    fn write(&self, out: &mut Vec<u8>) {
        self.of.write(out);
        put_varint(out, self.at.0);
        put_option(out, self.root.as_ref());
        put_varint(out, self.totals.inodes);
        put_varint(out, self.totals.bytes);
    }

    fn read(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            of: Stretch::read(input)?,
            at: Seq(input.varint()?),
            root: input.option()?,
            totals: Totals {
                inodes: input.varint()?,
                bytes: input.varint()?,
            },
        })
    }
}

impl State {
    /// Returns the history that a line goes on with now.
    pub(crate) fn stretch(&self, line: BranchId) -> Stretch {
        let since = self.row::<u64>(&row::stretch_key(line)).unwrap_or_default();
        Stretch {
            line,
            since: Seq(since),
        }
    }

    /// Returns the last state that two lines both have, if the drive knows any. Where there are several that do not have each other, it is
    /// the one that was reached last: what the others have is the same on both sides.
    pub(crate) fn common(&self, one: BranchId, other: BranchId) -> Option<Branch> {
        let (one, other) = (self.reached_from(one), self.reached_from(other));
        let both = one.iter().filter_map(|(stretch, reach)| {
            let theirs = other.get(stretch)?;
            let less = if reach.at <= theirs.at { reach } else { theirs };
            Some((less.at, *stretch, less.edge?))
        });
        let (_, _, edge) = both.max()?;
        self.named_by(edge)
    }

    /// Returns every edge.
    pub(crate) fn edges(&self) -> Vec<(EdgeId, Edge)> {
        self.all(row::EDGES, row::edge_of)
    }

    /// Returns the state that an edge names; its pages may be missing.
    pub(crate) fn named_by(&self, id: EdgeId) -> Option<Branch> {
        if let Some(branch) = self.ancestry.unfolded.get(&id) {
            return Some(branch.clone());
        }
        let edge: Edge = self.row(&row::edge_key(id.0, id.1))?;
        let root = edge
            .root
            .expect("an edge whose state is not in memory has a root");
        let tree = Tree::stored(root, &self.memory);
        Some(Branch::stored(self.begun().hash_key, tree, edge.totals))
    }

    /// Returns the states that edges name and that no fold has written.
    pub(crate) fn unfolded_edges(&self) -> impl Iterator<Item = (EdgeId, &Branch)> {
        self.ancestry.unfolded.iter().map(|(id, branch)| (*id, branch))
    }

    /// Writes into the rows where a fold has written the state that an edge names.
    pub(crate) fn put_edge_root(&mut self, (id, root): FoldedEdge) {
        self.ancestry.unfolded.remove(&id);
        let key = row::edge_key(id.0, id.1);
        if let Some(edge) = self.row::<Edge>(&key).filter(|edge| edge.root != Some(root)) {
            let root = Some(root);
            self.put(&key, &Edge { root, ..edge });
        }
    }

    /// Lets a line that begins with a record have all that another one is.
    pub(super) fn descend(&mut self, line: BranchId, from: BranchId, seq: Seq) {
        let (of, base) = (self.stretch(from), self.line(from));
        let base = base.expect("a line comes from one that is there");
        let branch = self.open.get(&from).map(|open| open.branch.clone());
        let id = (self.stretch(line), seq);
        let edge = Edge {
            of,
            at: seq,
            root: branch
                .as_ref()
                .map_or(base.root, |branch| branch.tree().address()),
            totals: branch.as_ref().map_or(base.totals, Branch::totals),
        };
        self.add_edge(id, &edge);
        if let Some(branch) = branch.filter(|_| edge.root.is_none()) {
            self.ancestry.unfolded.insert(id, branch);
        }
    }

    /// Lets a line have all that another one was, from a record on.
    pub(super) fn take_in(&mut self, line: BranchId, past: &Past, seq: Seq) {
        self.add_edge((self.stretch(line), seq), &edge_to(past));
    }

    /// Lets a line have from a record on what another one was, and nothing else of what it had.
    pub(super) fn go_back(&mut self, line: BranchId, past: &Past, seq: Seq) {
        let before = self.stretch(line);
        self.put(&row::stretch_key(line), &seq.0);
        self.add_edge((self.stretch(line), seq), &edge_to(past));
        self.forget_unnamed(before);
    }

    /// Forgets the history of a line that is deleted, as far as no other has it.
    pub(super) fn forget_stretch(&mut self, line: BranchId) {
        let stretch = self.stretch(line);
        self.remove(&row::stretch_key(line));
        self.forget_unnamed(stretch);
    }

    /// Takes from the rows how many edges name each stretch.
    pub(super) fn take_ancestry(&mut self) {
        for (_, edge) in self.edges() {
            *self.ancestry.named.entry(edge.of).or_default() += 1;
        }
    }

    fn add_edge(&mut self, (stretch, from): EdgeId, edge: &Edge) {
        self.put(&row::edge_key(stretch, from), edge);
        *self.ancestry.named.entry(edge.of).or_default() += 1;
    }

    /// Forgets the edges of a stretch that no line goes on with and no edge names, and of those that only these named.
    fn forget_unnamed(&mut self, stretch: Stretch) {
        let mut left = vec![stretch];
        while let Some(stretch) = left.pop() {
            let is_gone_on_with = self.line(stretch.line).is_some() && self.stretch(stretch.line) == stretch;
            if is_gone_on_with || self.ancestry.named.contains_key(&stretch) {
                continue;
            }
            for (from, edge) in self.edges_of(stretch, NOW) {
                self.remove(&row::edge_key(stretch, from));
                self.ancestry.unfolded.remove(&(stretch, from));
                if let Some(named) = self.ancestry.named.get_mut(&edge.of) {
                    *named -= 1;
                    if *named == 0 {
                        self.ancestry.named.remove(&edge.of);
                        left.push(edge.of);
                    }
                }
            }
        }
    }

    /// Returns the edges of a stretch up to a record, in order.
    fn edges_of(&self, stretch: Stretch, up_to: Seq) -> Vec<(Seq, Edge)> {
        let (from, to) = (row::edge_key(stretch, Seq(0)), row::edge_key(stretch, up_to));
        let mut edges = Vec::new();
        let visit = |key: &[u8], value: &[u8]| {
            edges.push((
                row::edge_of(key).1,
                Edge::parsed(value).expect(super::ROWS_ARE_VALID),
            ));
            ControlFlow::Continue(())
        };
        let scanned = self
            .rows
            .scan(Bound::Included(&from), Bound::Included(&to), visit);
        scanned.expect(super::ROWS_ARE_LOADED);
        edges
    }

    /// Returns every stretch of which something is in a line, and up to where.
    fn reached_from(&self, line: BranchId) -> BTreeMap<Stretch, Reach> {
        let mut reached: BTreeMap<Stretch, Reach> = BTreeMap::new();
        let now = Reach { at: NOW, edge: None };
        let mut left = vec![(self.stretch(line), now)];
        while let Some((stretch, reach)) = left.pop() {
            if reached.get(&stretch).is_some_and(|known| known.at >= reach.at) {
                continue;
            }
            reached.insert(stretch, reach);
            // What was taken in last has most.
            for (from, edge) in self.edges_of(stretch, reach.at) {
                let edge_id = Some((stretch, from));
                left.push((
                    edge.of,
                    Reach {
                        at: edge.at,
                        edge: edge_id,
                    },
                ));
            }
        }
        reached
    }
}

/// Returns the state that an edge names as a turn does, if a fold has written it.
fn edge_to(past: &Past) -> Edge {
    let Root { page, inodes, bytes } = past.root;
    Edge {
        of: past.stretch,
        at: past.at,
        root: Some(page),
        totals: Totals { inodes, bytes },
    }
}

#[cfg(test)]
mod tests;
