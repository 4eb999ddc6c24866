//! Removing all entries between two bounds: what lies wholly between is dropped unseen, only the pages at the two
//! bounds are changed.
//!
//! It goes in two steps, so that a missing page changes nothing: first the pages at the bounds are made the tree's
//! own, then they are cut. Nobody else can reach, or evict, an owned page in between.

use super::edit::shrink;
use super::memory::Memory;
use super::page::{Body, Branch, Missing, Page};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The first key that is removed and the first behind it that is not; nothing where all of a page's keys are on one side.
type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Children of a branch that a cut goes through.
struct Cut<'a> {
    /// Those that go with all that is in them.
    whole: Range<usize>,
    /// Those that lose a part, and which.
    partial: [Option<(usize, Bounds<'a>)>; 2],
}

/// Removes the entries between the bounds from the tree at `root`.
pub(super) fn cut(root: &mut Arc<Page>, bounds: Bounds<'_>) -> Result<(), Missing> {
    own(root, bounds)?;
    if cut_page(root, bounds) {
        shrink(root);
    }
    Ok(())
}

/// Makes every page that `cut_page` will change the tree's own.
fn own(edge: &mut Arc<Page>, bounds: Bounds<'_>) -> Result<(), Missing> {
    let Some(page) = Page::own(edge) else {
        return Err(Missing::of(edge));
    };
    page.change(|body, _| match body {
        Body::Leaf(_) => (Ok(()), false),
        Body::Branch(branch) => {
            let partial = branch.plan(bounds).partial;
            let mut partial = partial.into_iter().flatten();
            let owned = partial.try_for_each(|(at, bounds)| own(&mut branch.children[at], bounds));
            (owned, false)
        }
    })
}

/// Removes what lies between the bounds from owned pages; tells whether anything changed.
fn cut_page(edge: &mut Arc<Page>, bounds: Bounds<'_>) -> bool {
    let page = Page::own(edge).expect("pages at the bounds were owned before");
    page.change(|body, memory| {
        let changed = match body {
            Body::Leaf(entries) => {
                let (from, to) = bounds;
                let from = from.map_or(Bound::Unbounded, Bound::Included);
                let range = entries.between(from, to.map_or(Bound::Unbounded, Bound::Excluded));
                entries.remove(range.clone());
                !range.is_empty()
            }
            Body::Branch(branch) => branch.cut(bounds, memory),
        };
        (changed, changed)
    })
}

impl Branch {
    fn cut(&mut self, bounds: Bounds<'_>, memory: &Memory) -> bool {
        let Cut { whole, partial } = self.plan(bounds);
        let mut changed = !whole.is_empty();
        for (at, bounds) in partial.into_iter().flatten() {
            changed |= cut_page(&mut self.children[at], bounds);
        }
        self.unlink(whole.clone());
        if changed {
            // The right one first: mending it may take it away, or the left one in.
            for (at, _) in partial.into_iter().flatten().rev() {
                let at = if at < whole.end { at } else { at - whole.len() };
                if at < self.children.len() {
                    self.mend(at, memory);
                }
            }
        }
        changed
    }

    /// Tells which children lie wholly between the bounds and which partly.
    fn plan<'a>(&self, (from, to): Bounds<'a>) -> Cut<'a> {
        // A child that begins or ends where the cut does is not parted there.
        let (first, from) = match from.map(|key| (key, self.separators.find(key))) {
            None => (0, None),
            Some((_, Ok(at))) => (at + 1, None),
            Some((key, Err(at))) => (at, Some(key)),
        };
        let (last, to) = match to.map(|key| (key, self.separators.find(key))) {
            None => (self.children.len() - 1, None),
            Some((_, Ok(at))) => (at, None),
            Some((key, Err(at))) => (at, Some(key)),
        };
        let mut partial = [None, None];
        if first >= last {
            let is_whole = first == last && from.is_none() && to.is_none();
            if first == last && !is_whole {
                partial[0] = Some((first, (from, to)));
            }
            return Cut {
                whole: first..first + usize::from(is_whole),
                partial,
            };
        }
        partial[0] = from.map(|from| (first, (Some(from), None)));
        partial[1] = to.map(|to| (last, (None, Some(to))));
        let whole = first + usize::from(from.is_some())..last + usize::from(to.is_none());
        Cut { whole, partial }
    }
}
