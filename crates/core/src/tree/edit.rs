//! Changing one entry, and keeping the pages on the way to it in shape: split when too large, merged when small,
//! unlinked when empty.
//!
//! Invariant: a page loses its address only when its content, or that of a page below it, has changed; when a page is
//! missing nothing has changed yet, because the one entry is the last thing that is reached.

use super::entries::{Entries, PAGE_LEN_MAX};
use super::memory::Memory;
use super::page::{BRANCH, Body, Branch, LEAF, MERGED_LEN_MAX, Missing, PAGE_LEN_MIN, Page};
use super::prefix::separator;
use std::ops::Range;
use std::sync::Arc;

/// What an edit did to the entries of a leaf.
pub(super) enum Step {
    /// Nothing.
    Kept,
    /// This one is new or larger.
    Grown(usize),
    /// One is gone or smaller.
    Shrunk,
    /// They are full and stay as they are; a new leaf with this entry follows them.
    Beyond(Entries),
}

/// No newest entry or child.
const NONE: usize = usize::MAX;

/// Changes the entries of the leaf where the key is (`Ok`) or would be (`Err`).
pub(super) type Act<'a> = dyn FnMut(&mut Entries, Result<usize, usize>) -> Step + 'a;

/// What an edit below means for the page above.
#[derive(Default)]
pub(super) struct Effect {
    /// Whether the page's content is another now.
    changed: bool,
    /// Whether the page lost something, and now is small or empty.
    low: bool,
    /// Pages that follow the page from now on, each with the separator before it.
    next: Vec<(Box<[u8]>, Arc<Page>)>,
}

/// Changes the tree at `root` where `key` is.
pub(super) fn edit(root: &mut Arc<Page>, key: &[u8], act: &mut Act<'_>) -> Result<(), Missing> {
    let effect = edit_page(root, key, act)?;
    if !effect.next.is_empty() {
        grow(root, effect.next);
    } else if effect.low {
        shrink(root);
    }
    Ok(())
}

fn edit_page(edge: &mut Arc<Page>, key: &[u8], act: &mut Act<'_>) -> Result<Effect, Missing> {
    let Some(page) = Page::own(edge) else {
        return Err(Missing::of(edge));
    };
    page.change(|body, memory| {
        let effect = match body {
            Body::Leaf(entries) => {
                let found = entries.find(key);
                let step = act(entries, found);
                Ok(step_effect(entries, step, memory))
            }
            Body::Branch(branch) => {
                let at = branch.child_for(key);
                edit_page(&mut branch.children[at], key, act).map(|below| branch.absorb(at, below, memory))
            }
        };
        let changed = effect.as_ref().is_ok_and(|effect| effect.changed);
        (effect, changed)
    })
}

fn step_effect(entries: &mut Entries, step: Step, memory: &Memory) -> Effect {
    match step {
        Step::Kept => Effect::default(),
        Step::Beyond(next) => {
            entries.shrink();
            let between = separator(&entries.key(entries.len() - 1), &next.key(0));
            Effect {
                next: vec![(between, Page::new(Body::Leaf(next), memory))],
                ..Effect::default()
            }
        }
        Step::Grown(newest) => Effect {
            changed: true,
            low: false,
            next: split_leaf(entries, newest, memory),
        },
        Step::Shrunk => Effect {
            changed: true,
            low: entries.bytes().len() < PAGE_LEN_MIN || entries.len() == 0,
            next: Vec::new(),
        },
    }
}

/// Cuts entries that became too large for a page with `newest` into several; an entry larger than a page is alone.
fn split_leaf(entries: &mut Entries, newest: usize, memory: &Memory) -> Vec<(Box<[u8]>, Arc<Page>)> {
    let mut next = Vec::new();
    if entries.bytes().len() <= PAGE_LEN_MAX || entries.len() < 2 {
        return next;
    }
    let cut = entries.cut(newest);
    let mut right = entries.range(cut..entries.len());
    *entries = entries.range(0..cut);
    let between = separator(&entries.key(cut - 1), &right.key(0));
    next.append(&mut split_leaf(entries, NONE, memory));
    let mut behind = split_leaf(&mut right, NONE, memory);
    next.push((between, Page::new(Body::Leaf(right), memory)));
    next.append(&mut behind);
    next
}

/// Puts a new root above `root` and the pages that follow it.
pub(super) fn grow(root: &mut Arc<Page>, mut next: Vec<(Box<[u8]>, Arc<Page>)>) {
    let memory = root.memory().clone();
    while !next.is_empty() {
        let level = root.peek().expect("a page that was split has its body").level() + 1;
        let mut branch = Branch {
            level,
            separators: Entries::new(BRANCH),
            children: vec![root.clone()],
        };
        branch.link(1, next);
        next = branch.split(NONE, &memory);
        *root = Page::new(Body::Branch(branch), &memory);
    }
}

/// Removes roots that only lead to one page, and an empty branch at the root.
pub(super) fn shrink(root: &mut Arc<Page>) {
    loop {
        let only = match root.peek().as_deref() {
            Some(Body::Branch(branch)) if branch.children.len() < 2 => branch.children.first().cloned(),
            Some(Body::Leaf(_) | Body::Branch(_)) | None => return,
        };
        *root = only.unwrap_or_else(|| Page::new(Body::Leaf(Entries::new(LEAF)), root.memory()));
    }
}

impl Branch {
    /// Takes in what happened to child `at`.
    fn absorb(&mut self, at: usize, below: Effect, memory: &Memory) -> Effect {
        if !below.next.is_empty() {
            self.link(at + 1, below.next);
            return Effect {
                changed: true,
                low: false,
                next: self.split(at + 1, memory),
            };
        }
        if below.low {
            self.mend(at, memory);
        }
        Effect {
            changed: below.changed,
            low: below.low && self.is_low(),
            next: Vec::new(),
        }
    }

    /// Tells whether it is small, or leads to one page only.
    pub(super) fn is_low(&self) -> bool {
        self.size() < PAGE_LEN_MIN || self.children.len() < 2
    }

    /// Puts pages in as children from `at` on, each with the separator before it.
    fn link(&mut self, at: usize, pages: Vec<(Box<[u8]>, Arc<Page>)>) {
        for (at, (between, page)) in (at..).zip(pages) {
            self.separators.insert(at - 1, &between, &[]);
            self.children.insert(at, page);
        }
    }

    /// Takes children out; their neighbour on the left takes over their keys, or the one on the right if there is none.
    pub(super) fn unlink(&mut self, range: Range<usize>) {
        let (from, to) = if range.start > 0 {
            (range.start - 1, range.end - 1)
        } else {
            (0, range.end.min(self.separators.len()))
        };
        self.children.drain(range);
        self.separators.remove(from..to);
    }

    /// Cuts a branch that became too large with child `newest` into several. A branch that grows at its right end, or by a
    /// run of children, stays full. Fewer than four children are never cut, however long the separators.
    fn split(&mut self, newest: usize, memory: &Memory) -> Vec<(Box<[u8]>, Arc<Page>)> {
        let (mut next, count) = (Vec::new(), self.children.len());
        if self.size() <= PAGE_LEN_MAX || count < 4 {
            return next;
        }
        let cut = if newest == count - 1 {
            newest
        } else if newest != NONE && self.separators.is_in_run(newest - 1) {
            newest + 1
        } else {
            count / 2
        };
        let between = self.separators.key(cut - 1).into();
        let mut right = Branch {
            level: self.level,
            separators: self.separators.range(cut..count - 1),
            children: self.children.split_off(cut),
        };
        self.separators = self.separators.range(0..cut - 1);
        self.children.shrink_to_fit();
        next.append(&mut self.split(NONE, memory));
        let mut behind = right.split(NONE, memory);
        next.push((between, Page::new(Body::Branch(right), memory)));
        next.append(&mut behind);
        next
    }

    /// Unlinks child `at` if it is empty, or merges it with a neighbour that is in memory if both are small enough.
    pub(super) fn mend(&mut self, at: usize, memory: &Memory) {
        let Some((size, is_empty)) = self.measure(at) else {
            return;
        };
        if is_empty {
            self.unlink(at..at + 1);
            return;
        }
        let fits = |neighbour: usize| {
            let room = self.measure(neighbour);
            // An empty one is about to be unlinked.
            room.is_some_and(|(other, is_empty)| !is_empty && size + other <= MERGED_LEN_MAX)
        };
        if size >= PAGE_LEN_MIN {
            return;
        }
        if at > 0 && fits(at - 1) {
            self.merge(at - 1, memory);
        } else if at + 1 < self.children.len() && fits(at + 1) {
            self.merge(at, memory);
        }
    }

    /// Returns the size of child `at` and whether it is empty, if it is in memory.
    fn measure(&self, at: usize) -> Option<(usize, bool)> {
        let body = self.children[at].peek()?;
        Some((body.size(), body.is_empty()))
    }

    /// Makes children `at` and `at + 1` one page if both are in memory still.
    fn merge(&mut self, at: usize, memory: &Memory) {
        let joined = {
            let (Some(left), Some(right)) = (self.children[at].peek(), self.children[at + 1].peek()) else {
                return;
            };
            joined(&left, &self.separators.key(at), &right)
        };
        self.children[at] = Page::new(joined, memory);
        self.children.remove(at + 1);
        self.separators.remove(at..at + 1);
    }
}

/// Returns what is in two neighbours of one level.
fn joined(left: &Body, between: &[u8], right: &Body) -> Body {
    match (left, right) {
        (Body::Leaf(left), Body::Leaf(right)) => Body::Leaf(Entries::joined(left, right)),
        (Body::Branch(left), Body::Branch(right)) => {
            let mut separators = left.separators.clone();
            separators.insert(separators.len(), between, &[]);
            Body::Branch(Branch {
                level: left.level,
                separators: Entries::joined(&separators, &right.separators),
                children: [left.children.as_slice(), &right.children].concat(),
            })
        }
        (Body::Leaf(_), Body::Branch(_)) | (Body::Branch(_), Body::Leaf(_)) => {
            unreachable!("children of one branch are of one level")
        }
    }
}
