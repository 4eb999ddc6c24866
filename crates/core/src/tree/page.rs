//! A page: a leaf or a branch that may be in memory, in the bucket, or both; and the page that is missing.
//!
//! Pages are shared between trees, so what is loaded or folded through one tree shows in all. A page is changed in
//! place only by a tree that alone holds it; otherwise its copy is.
//!
//! Invariant: a page without an address (a *dirty* one) has its body, and so has every page above it in the same tree
//! no address either: below a clean page everything is clean.

use super::bytes;
use super::entries::{Entries, PAGE_LEN_MAX};
use super::memory::Memory;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tenure_model::codec::{Malformed, malformed};
use tenure_model::{Address, Digest};
use thiserror::Error;

/// The first byte of a leaf: version 1, kind 1.
pub(super) const LEAF: u8 = 0x11;
/// The first byte of a branch page: version 1, kind 2.
pub(super) const BRANCH: u8 = 0x12;
/// Bytes that an address takes in a branch page, nearly.
pub(super) const ADDRESS_LEN: usize = 35;
/// Below this many bytes a page is merged into a neighbour that has the room.
pub(super) const PAGE_LEN_MIN: usize = PAGE_LEN_MAX / 4;
/// Bytes that a merged page holds at most, so that the next insert does not split it again.
pub(super) const MERGED_LEN_MAX: usize = PAGE_LEN_MAX / 4 * 3;

/// A leaf or a branch, in memory or not.
#[repr(C)]
pub(super) struct Page {
    /// Whether it was read since an evictor last looked.
    touched: AtomicBool,
    /// How far above the leaves it must be; unknown for the root of a stored tree.
    level: Option<u8>,
    /// Absent only while `stored` says where to load it from.
    body: RwLock<Option<Body>>,
    /// Where its bytes rest; unset while it is dirty.
    stored: OnceLock<Address>,
    memory: Memory,
}

/// What a page holds.
#[derive(Clone)]
pub(super) enum Body {
    /// Keys and values.
    Leaf(Entries),
    /// Pages, and the keys that tell them apart.
    Branch(Branch),
}

/// The inside of the tree: child `i` holds the keys from separator `i - 1` on and below separator `i`.
#[derive(Clone)]
pub(super) struct Branch {
    /// How far above the leaves; at least 1.
    pub(super) level: u8,
    /// Keys without values, one fewer than there are children.
    pub(super) separators: Entries,
    /// The pages below.
    pub(super) children: Vec<Arc<Page>>,
}

/// What came of an attempt to forget a body.
pub(super) enum Eviction {
    /// So many bytes are free.
    Freed(usize),
    /// It was read since the last attempt, and may go at the next.
    Spared,
    /// It is dirty, being read, or gone already.
    Impossible,
}

/// A body that is read; nobody evicts it meanwhile.
pub(super) type Reading<'a> = MappedRwLockReadGuard<'a, Body>;

/// A page that must be loaded before the question can be answered: supply it and ask again.
#[derive(Clone, Error)]
#[error("a page of the tree is not loaded: {} in pack {}", .0.resting().digest, .0.resting().pack)]
pub struct Missing(Arc<Page>);

impl Missing {
    /// Names `page`, which has no body and therefore an address.
    pub(super) fn of(page: &Arc<Page>) -> Self {
        Self(page.clone())
    }

    /// Returns where the page's bytes rest.
    pub fn at(&self) -> Address {
        *self.0.resting()
    }

    /// Installs the page from its bytes; refuses bytes that are not the page's. Doing it twice is harmless.
    pub fn supply(&self, bytes: &[u8]) -> Result<(), Malformed> {
        let Self(page) = self;
        if page.is_resident() {
            return Ok(());
        }
        if Digest::of(bytes) != page.resting().digest {
            return Err(malformed("page: its digest is another"));
        }
        let body = bytes::decode(bytes, page.level, &page.memory)?;
        let mut slot = page.body.write();
        if slot.is_none() {
            page.memory.resident(0, body.heap());
            page.touched.store(true, Ordering::Relaxed);
            *slot = Some(body);
        }
        Ok(())
    }
}

impl PartialEq for Missing {
    fn eq(&self, other: &Self) -> bool {
        self.at() == other.at()
    }
}

impl Eq for Missing {}

impl fmt::Debug for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Missing({:?})", self.at())
    }
}

impl Page {
    /// Returns a dirty page.
    pub(super) fn new(body: Body, memory: &Memory) -> Arc<Self> {
        let weight = WEIGHT + body.heap();
        memory.resident(0, weight);
        memory.dirty(0, weight);
        Arc::new(Self {
            level: Some(body.level()),
            body: RwLock::new(Some(body)),
            touched: AtomicBool::new(true),
            stored: OnceLock::new(),
            memory: memory.clone(),
        })
    }

    /// Returns a page that is in the bucket; `level` is what its parent says.
    pub(super) fn stored(at: Address, level: Option<u8>, memory: &Memory) -> Arc<Self> {
        memory.resident(0, WEIGHT);
        Arc::new(Self {
            level,
            body: RwLock::new(None),
            touched: AtomicBool::new(false),
            stored: OnceLock::from(at),
            memory: memory.clone(),
        })
    }

    /// Returns the body, or which page to load first.
    pub(super) fn read(self: &Arc<Self>) -> Result<Reading<'_>, Missing> {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
        self.peek().ok_or_else(|| Missing::of(self))
    }

    /// Returns the body if it is in memory, and does not count as a use of it.
    pub(super) fn peek(&self) -> Option<Reading<'_>> {
        // Recursive: whoever reads the tree while reading the tree must not queue behind a writer that waits for it.
        RwLockReadGuard::try_map(self.body.read_recursive(), Option::as_ref).ok()
    }

    /// Tells whether the body is in memory.
    pub(super) fn is_resident(&self) -> bool {
        self.body.read_recursive().is_some()
    }

    /// Tells whether its parent knows that it is a leaf.
    pub(super) fn is_known_leaf(&self) -> bool {
        self.level == Some(0)
    }

    /// Returns where its bytes rest; none while it is dirty.
    pub(super) fn address(&self) -> Option<&Address> {
        self.stored.get()
    }

    /// Returns where the bytes of a page without its body rest.
    fn resting(&self) -> &Address {
        self.stored.get().expect("a page without its body is stored")
    }

    /// Tells whether both are the same bytes for certain, without loading either.
    pub(super) fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
            || self
                .address()
                .is_some_and(|mine| other.address().is_some_and(|theirs| mine.digest == theirs.digest))
    }

    /// Returns the count that it is under.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Makes the page this tree's own, with its body in memory, or tells that the body must be loaded first.
    /// Nothing observable changes: a copy of a clean page is clean.
    pub(super) fn own(edge: &mut Arc<Self>) -> Option<&mut Self> {
        // A shared page is loaded where all see it, not in a copy.
        if Arc::strong_count(edge) > 1 && !edge.is_resident() {
            return None;
        }
        let page = Arc::make_mut(edge);
        page.body.get_mut().is_some().then_some(page)
    }

    /// Changes the body of a page that is its tree's own. `change` returns what to tell the caller, and whether the
    /// page's content is another now.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut Body, &Memory) -> (R, bool)) -> R {
        let body = self.body.get_mut().as_mut().expect("an owned page has its body");
        let before = body.heap();
        let (answer, changed) = change(body, &self.memory);
        let after = body.heap();
        self.memory.resident(before, after);
        if self.stored.get().is_none() {
            self.memory.dirty(before, after);
        } else if changed {
            self.stored.take();
            self.memory.dirty(0, WEIGHT + after);
        }
        answer
    }

    /// Notes where the page's bytes rest now; of two who do, the first is believed. Returns the address that counts.
    pub(super) fn settle(&self, at: Address, body: &Body) -> Address {
        if self.stored.set(at).is_ok() {
            self.memory.dirty(WEIGHT + body.heap(), 0);
        }
        *self.stored.get().expect("it was set just now")
    }

    /// Forgets the body if the page is clean, is not being read, and was not read since the last call.
    pub(super) fn evict(&self) -> Eviction {
        if self.address().is_none() {
            return Eviction::Impossible;
        }
        if self.touched.swap(false, Ordering::Relaxed) {
            return Eviction::Spared;
        }
        let take = || self.body.try_write().and_then(|mut slot| slot.take());
        let Some(body) = self.memory.while_not_held(take) else {
            return Eviction::Impossible;
        };
        let freed = body.heap();
        self.memory.resident(freed, 0);
        Eviction::Freed(freed)
    }
}

/// Bytes of a page besides what its body allocates.
const WEIGHT: usize = size_of::<Page>() + 2 * size_of::<usize>();

impl Clone for Page {
    fn clone(&self) -> Self {
        // The body first: a page that is found without one has an address by then.
        let body = self.peek().map(|body| body.clone());
        let stored = self.stored.clone();
        let weight = WEIGHT + body.as_ref().map_or(0, Body::heap);
        self.memory.resident(0, weight);
        if stored.get().is_none() {
            self.memory.dirty(0, weight);
        }
        Self {
            body: RwLock::new(body),
            touched: AtomicBool::new(true),
            level: self.level,
            stored,
            memory: self.memory.clone(),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let weight = WEIGHT + self.body.get_mut().as_ref().map_or(0, Body::heap);
        self.memory.resident(weight, 0);
        if self.stored.get().is_none() {
            self.memory.dirty(weight, 0);
        }
    }
}

impl Body {
    /// Returns how far above the leaves it is.
    pub(super) fn level(&self) -> u8 {
        match self {
            Body::Leaf(_) => 0,
            Body::Branch(branch) => branch.level,
        }
    }

    /// Returns about how many bytes it is when written.
    pub(super) fn size(&self) -> usize {
        match self {
            Body::Leaf(entries) => entries.bytes().len(),
            Body::Branch(branch) => branch.size(),
        }
    }

    /// Returns the bytes allocated.
    pub(super) fn heap(&self) -> usize {
        match self {
            Body::Leaf(entries) => entries.heap(),
            Body::Branch(branch) => {
                branch.separators.heap() + branch.children.capacity() * size_of::<Arc<Page>>()
            }
        }
    }

    /// Tells whether nothing is in it or below it.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Body::Leaf(entries) => entries.len() == 0,
            Body::Branch(branch) => branch.children.is_empty(),
        }
    }
}

impl Branch {
    /// Returns about how many bytes it is when written.
    pub(super) fn size(&self) -> usize {
        self.separators.bytes().len() + self.children.len() * ADDRESS_LEN
    }

    /// Returns the child in which `key` belongs.
    pub(super) fn child_for(&self, key: &[u8]) -> usize {
        match self.separators.find(key) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }
}
