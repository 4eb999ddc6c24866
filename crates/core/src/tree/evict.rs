//! Forgetting bodies of clean pages, those first that were not read for a while.
//!
//! A clock: a hand goes round the pages in key order; a page that was read since the hand last passed is passed once
//! more, one that was not is forgotten. A branch page goes only when nothing below it is in memory.

use super::page::{Body, Branch, Page};
use std::sync::Arc;

/// Where in a tree the next eviction goes on.
#[derive(Clone, Debug, Default)]
pub struct Hand {
    key: Vec<u8>,
}

/// Forgets pages of the tree at `root` until `wanted` bytes are freed, in at most two rounds and the rest of one; returns the bytes freed.
pub(super) fn evict(root: &Arc<Page>, hand: &mut Hand, wanted: usize) -> usize {
    let mut round = Round { wanted, freed: 0, hand };
    for _ in 0..3 {
        let from = std::mem::take(&mut round.hand.key);
        round.sweep(root, &from);
        if round.is_done() {
            break;
        }
    }
    round.freed
}

struct Round<'a> {
    wanted: usize,
    freed: usize,
    hand: &'a mut Hand,
}

impl Round<'_> {
    fn is_done(&self) -> bool {
        self.freed >= self.wanted
    }

    /// Evicts what can go at and below `edge` from the key `from` on; tells whether the page itself is out of memory.
    fn sweep(&mut self, edge: &Arc<Page>, from: &[u8]) -> bool {
        let Some(body) = edge.peek() else {
            return true;
        };
        let is_last = match &*body {
            Body::Leaf(_) => true,
            Body::Branch(branch) => self.sweep_children(branch, from),
        };
        drop(body);
        if !is_last {
            return false;
        }
        self.freed += edge.evict();
        !edge.is_resident()
    }

    /// Tells whether all children were looked at and none is in memory.
    fn sweep_children(&mut self, branch: &Branch, from: &[u8]) -> bool {
        let first = branch.child_for(from);
        for (at, child) in branch.children.iter().enumerate().skip(first) {
            self.sweep(child, if at == first { from } else { &[] });
            if self.is_done() {
                // A hand that is set already stands further down.
                if self.hand.key.is_empty() && at + 1 < branch.children.len() {
                    self.hand.key = branch.separators.key(at);
                }
                return false;
            }
        }
        branch.children.iter().all(|child| !child.is_resident())
    }
}
