//! What differs between two trees, at a cost that follows what differs and not what is there.
//!
//! Two walks go through the trees side by side. Where both stand before the same page it is passed by both, unread;
//! otherwise the higher page, or the one that begins earlier, is entered. A page that is entered is copied into its
//! walk, so nothing is held for reading while the caller is told.

use super::entries::Entries;
use super::page::{BRANCH, Body, Branch, Missing, Page};
use super::read::Visit;
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Is told a key, its value before, and its value after.
pub(super) type Tell<'a> = dyn FnMut(&[u8], Option<&[u8]>, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// Tells each key from `from` on whose value differs between the trees at `before` and `after`, in order.
pub(super) fn diff(
    before: &Arc<Page>,
    after: &Arc<Page>,
    from: Bound<&[u8]>,
    tell: &mut Tell<'_>,
) -> Result<(), Missing> {
    if before.is_same(after) {
        return Ok(());
    }
    let (mut before, mut after) = (Walk::new(before, from)?, Walk::new(after, from)?);
    while step(&mut before, &mut after, tell)?.is_continue() {}
    Ok(())
}

/// Goes on by one page or one entry, on one side or on both; breaks at the end.
fn step(
    before: &mut Walk<'_>,
    after: &mut Walk<'_>,
    tell: &mut Tell<'_>,
) -> Result<ControlFlow<()>, Missing> {
    let order = match (before.place(), after.place()) {
        (Place::End, Place::End) => return Ok(ControlFlow::Break(())),
        (Place::End, _) => Ordering::Greater,
        (_, Place::End) => Ordering::Less,
        (Place::Page(old, _), Place::Page(new, _)) if old.is_same(new) => Ordering::Equal,
        (Place::Page(_, old_level), Place::Page(_, new_level)) => {
            let begins = before.key.cmp(&after.key);
            new_level.cmp(&old_level).then(begins).then(Ordering::Less)
        }
        // A page that begins at an entry's key may hold that key.
        (Place::Page(..), Place::Entry(_)) => before.key.cmp(&after.key).then(Ordering::Less),
        (Place::Entry(_), Place::Page(..)) => before.key.cmp(&after.key).then(Ordering::Greater),
        (Place::Entry(_), Place::Entry(_)) => before.key.cmp(&after.key),
    };
    match order {
        Ordering::Less => before.advance(&mut |key, value| tell(key, Some(value), None)),
        Ordering::Greater => after.advance(&mut |key, value| tell(key, None, Some(value))),
        Ordering::Equal => {
            let told = match (before.place(), after.place()) {
                (Place::Entry(old), Place::Entry(new)) if old != new => {
                    tell(&before.key, Some(old), Some(new))
                }
                _ => ControlFlow::Continue(()),
            };
            before.pass();
            after.pass();
            Ok(told)
        }
    }
}

/// A way through a tree in key order, which enters only the pages that it is told to.
struct Walk<'a> {
    from: Bound<&'a [u8]>,
    /// The pages entered, from the root down; the last one has something left.
    entered: Vec<Entered>,
    /// The key of the entry where the walk stands, or the key from which on the page there holds keys.
    key: Vec<u8>,
}

struct Entered {
    body: Body,
    /// The entry or child that comes next.
    next: usize,
    /// The key from which on the page holds keys.
    begin: Vec<u8>,
}

/// Where a walk stands.
enum Place<'a> {
    /// Before a page, at so many levels above the leaves.
    Page(&'a Arc<Page>, u8),
    /// Before an entry with this value.
    Entry(&'a [u8]),
    /// Behind everything.
    End,
}

impl<'a> Walk<'a> {
    /// Stands before the root.
    fn new(root: &Arc<Page>, from: Bound<&'a [u8]>) -> Result<Self, Missing> {
        let above = Branch {
            level: root.read()?.level() + 1,
            separators: Entries::new(BRANCH),
            children: vec![root.clone()],
        };
        let entered = Entered {
            body: Body::Branch(above),
            next: 0,
            begin: Vec::new(),
        };
        Ok(Self {
            from,
            entered: vec![entered],
            key: Vec::new(),
        })
    }

    fn place(&self) -> Place<'_> {
        match self.entered.last() {
            None => Place::End,
            Some(Entered { body, next, .. }) => match body {
                Body::Leaf(entries) => Place::Entry(entries.value(*next)),
                Body::Branch(branch) => Place::Page(&branch.children[*next], branch.level - 1),
            },
        }
    }

    /// Enters the page where it stands, or tells the entry there and passes it.
    fn advance(&mut self, tell: &mut Visit<'_>) -> Result<ControlFlow<()>, Missing> {
        let told = match self.place() {
            Place::Page(page, _) => {
                let body = page.read()?.clone();
                self.enter(body);
                return Ok(ControlFlow::Continue(()));
            }
            Place::Entry(value) => tell(&self.key, value),
            Place::End => ControlFlow::Break(()),
        };
        self.pass();
        Ok(told)
    }

    fn enter(&mut self, body: Body) {
        let next = match &body {
            Body::Leaf(entries) => entries.between(self.from, Bound::Unbounded).start,
            Body::Branch(branch) => branch.between(self.from, Bound::Unbounded).start,
        };
        let begin = self.key.clone();
        if let Some(above) = self.entered.last_mut() {
            above.next += 1;
        }
        self.entered.push(Entered { body, next, begin });
        self.stand();
    }

    /// Goes behind the page or entry where it stands.
    fn pass(&mut self) {
        if let Some(last) = self.entered.last_mut() {
            last.next += 1;
        }
        self.stand();
    }

    /// Leaves the pages in which nothing is left, and notes the key where it stands then.
    fn stand(&mut self) {
        while let Some(Entered { body, next, begin }) = self.entered.last() {
            match body {
                Body::Leaf(entries) if *next < entries.len() => {
                    entries.read(*next, &mut self.key);
                    return;
                }
                Body::Branch(branch) if *next < branch.children.len() => {
                    match next.checked_sub(1) {
                        Some(before) => {
                            branch.separators.read(before, &mut self.key);
                        }
                        None => self.key.clone_from(begin),
                    }
                    return;
                }
                Body::Leaf(_) | Body::Branch(_) => {}
            }
            self.entered.pop();
        }
    }
}
