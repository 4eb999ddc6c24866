//! Whether a tree is what a tree must be, and which stored pages it is made of.
//!
//! `check` looks at what is in memory and loads nothing; a violation is a bug, so it panics. `pages` goes through the
//! branch pages and needs them loaded.

use super::bytes::encode;
use super::entries::PAGE_LEN_MAX;
use super::page::{Body, Branch, Missing, Page};
use std::sync::Arc;
use tenure_model::{Address, Digest};

/// How much `Tree::check` looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The shape of the pages in memory.
    Shape,
    /// Also that the pages in memory have the digests under which they are stored.
    Digests,
}

/// Goes through the stored pages of trees, each page once.
pub trait Pages {
    /// Tells whether the page at `at` and all below it were visited before; if so it is not looked into.
    fn is_known(&mut self, at: &Address) -> bool;
    /// Is told a stored page after all pages below it.
    fn visit(&mut self, at: &Address);

    /// Tells whether it wants to be told entries: leaves are loaded then.
    fn wants_entries(&self) -> bool {
        false
    }

    /// Is told an entry of a leaf that is looked into; once more where a page was missing.
    fn entry(&mut self, key: &[u8], value: &[u8]) {
        let _ = (key, value);
    }
}

/// Visits the stored pages at and below `edge`, children before parents.
pub(super) fn pages(edge: &Arc<Page>, visitor: &mut dyn Pages) -> Result<(), Missing> {
    let at = edge.address();
    if at.is_some_and(|at| visitor.is_known(at)) {
        return Ok(());
    }
    if !edge.is_known_leaf() || visitor.wants_entries() {
        match &*edge.read()? {
            Body::Branch(branch) => {
                for child in &branch.children {
                    pages(child, visitor)?;
                }
            }
            Body::Leaf(entries) if visitor.wants_entries() => {
                let mut key = Vec::new();
                for entry in 0..entries.len() {
                    let value = entries.read(entry, &mut key);
                    visitor.entry(&key, value);
                }
            }
            Body::Leaf(_) => {}
        }
    }
    at.into_iter().for_each(|at| visitor.visit(at));
    Ok(())
}

/// Panics unless the pages in memory at and below `root` are a tree.
pub(super) fn check(root: &Arc<Page>, depth: Depth) {
    if let Some(body) = root.peek() {
        assert!(
            !matches!(&*body, Body::Branch(branch) if branch.children.len() < 2),
            "a root leads to more than one page"
        );
        check_body(root, &body, (None, None), depth);
    }
}

/// Keys of a page: not below the first, below the second.
type Fences<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn check_body(page: &Arc<Page>, body: &Body, fences: Fences<'_>, depth: Depth) {
    match body {
        Body::Leaf(entries) => {
            entries.check();
            assert!(
                entries.bytes().len() <= PAGE_LEN_MAX || entries.len() == 1,
                "a leaf of several entries is no larger than a page"
            );
            check_fences((0..entries.len()).map(|at| entries.key(at)), fences, "a key");
        }
        Body::Branch(branch) => check_branch(branch, fences, depth),
    }
    let Some(at) = page.address() else { return };
    if let Body::Branch(branch) = body {
        let is_clean = branch.children.iter().all(|child| child.address().is_some());
        assert!(is_clean, "below a clean page everything is clean");
    }
    if depth == Depth::Digests {
        let digest = Digest::of(encode(body, &mut Vec::new()));
        assert_eq!(digest, at.digest, "a page in memory is what is stored");
    }
}

fn check_branch(branch: &Branch, fences: Fences<'_>, depth: Depth) {
    let (separators, children) = (&branch.separators, &branch.children);
    separators.check();
    assert_eq!(
        separators.len() + 1,
        children.len(),
        "a separator stands between two children"
    );
    assert!(
        branch.size() <= PAGE_LEN_MAX || children.len() < 4,
        "a branch page of several children is no larger than a page"
    );
    let keys: Vec<_> = (0..separators.len()).map(|at| separators.key(at)).collect();
    check_fences(keys.iter(), fences, "a separator");
    for (at, child) in children.iter().enumerate() {
        let Some(body) = child.peek() else {
            assert!(child.address().is_some(), "a page without its body is stored");
            continue;
        };
        assert_eq!(
            body.level() + 1,
            branch.level,
            "children are one level below their parent"
        );
        assert!(!body.is_empty(), "only a root is empty");
        let low = at.checked_sub(1).map_or(fences.0, |at| Some(&keys[at]));
        let high = keys.get(at).map_or(fences.1, |key| Some(key));
        check_body(child, &body, (low, high), depth);
    }
}

fn check_fences<K: AsRef<[u8]>>(mut keys: impl Iterator<Item = K>, (low, high): Fences<'_>, what: &str) {
    let is_within = |key: &[u8]| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
    assert!(
        keys.all(|key| is_within(key.as_ref())),
        "{what} lies within the separators above it"
    );
}
