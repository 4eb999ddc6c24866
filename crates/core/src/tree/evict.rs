//! Forgetting bodies of clean pages, those first that were not read for a while.
//!
//! A clock: a hand goes round the pages in key order; a page that was read since the hand last passed is spared once,
//! one that was not is forgotten. A branch page goes only when nothing below it is in memory.

use super::page::{Body, Branch, Eviction, Page};
use std::sync::Arc;

/// Times that one call goes round the tree: one to spare and one to forget for each level of pages, of which large trees have five.
const ROUNDS_MAX: usize = 10;

/// Where in a tree the next eviction goes on.
#[derive(Clone, Debug, Default)]
pub struct Hand {
    key: Vec<u8>,
}

/// Forgets pages of the tree at `root` until `wanted` bytes are freed or no page can go; returns the bytes freed.
pub(super) fn evict(root: &Arc<Page>, hand: &mut Hand, wanted: usize) -> usize {
    let mut sweep = Sweep {
        wanted,
        freed: 0,
        spared: 0,
        hand,
    };
    let mut is_partial = !sweep.hand.key.is_empty();
    for _ in 0..ROUNDS_MAX {
        let before = (sweep.freed, sweep.spared);
        let from = std::mem::take(&mut sweep.hand.key);
        sweep.page(root, &from);
        if sweep.is_done() || !is_partial && before == (sweep.freed, sweep.spared) {
            break;
        }
        is_partial = false;
    }
    sweep.freed
}

/// A hand that goes round.
struct Sweep<'a> {
    wanted: usize,
    freed: usize,
    spared: usize,
    hand: &'a mut Hand,
}

impl Sweep<'_> {
    fn is_done(&self) -> bool {
        self.freed >= self.wanted
    }

    /// Evicts what can go at and below `edge` from the key `from` on.
    fn page(&mut self, edge: &Arc<Page>, from: &[u8]) {
        let may_go = match edge.peek().as_deref() {
            None => false,
            Some(Body::Leaf(_)) => true,
            Some(Body::Branch(branch)) => self.children(branch, from),
        };
        if may_go {
            match edge.evict() {
                Eviction::Freed(bytes) => self.freed += bytes,
                Eviction::Spared => self.spared += 1,
                Eviction::Impossible => {}
            }
        }
    }

    /// Tells whether no child is in memory in the end.
    fn children(&mut self, branch: &Branch, from: &[u8]) -> bool {
        let first = branch.child_for(from);
        for (at, child) in branch.children.iter().enumerate().skip(first) {
            self.page(child, if at == first { from } else { &[] });
            if self.is_done() {
                // Unless the hand stands further down already.
                if self.hand.key.is_empty() && at + 1 < branch.children.len() {
                    self.hand.key = branch.separators.key(at);
                }
                return false;
            }
        }
        branch.children.iter().all(|child| !child.is_resident())
    }
}
