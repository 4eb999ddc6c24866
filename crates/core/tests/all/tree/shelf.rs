//! A bucket for pages: what was put, by digest, and how often it was asked.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Missing, Pages, Tree};
use tenure_model::{Address, Digest, PackNumber};

/// Pages by digest.
#[derive(Default)]
pub(super) struct Shelf {
    pages: BTreeMap<Digest, Vec<u8>>,
    loads: Cell<usize>,
}

impl Shelf {
    pub(super) fn put(&mut self, bytes: &[u8]) -> Address {
        let digest = Digest::of(bytes);
        self.pages.insert(digest, bytes.to_vec());
        let pack = PackNumber(u64::from(digest.0[0]) << (digest.0[1] % 40));
        Address { pack, digest }
    }

    pub(super) fn fold(&mut self, tree: &Tree) -> Address {
        let folded = tree.fold(&mut |bytes| Ok::<_, Infallible>(self.put(bytes)));
        folded.expect("this bucket never fails")
    }

    pub(super) fn page(&self, at: &Address) -> &[u8] {
        &self.pages[&at.digest]
    }

    pub(super) fn supply(&self, missing: &Missing) {
        self.loads.set(self.loads.get() + 1);
        let bytes = self.page(&missing.at());
        missing.supply(bytes).expect("a page that was folded is a page");
    }

    /// Asks until nothing is missing.
    pub(super) fn ask<R>(&self, mut ask: impl FnMut() -> Result<R, Missing>) -> R {
        loop {
            match ask() {
                Ok(answer) => return answer,
                Err(missing) => self.supply(&missing),
            }
        }
    }

    /// Returns how many pages were loaded since the last call.
    pub(super) fn loads(&self) -> usize {
        self.loads.take()
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns everything in the tree, going on behind the last key when a page was missing.
    pub(super) fn contents(&self, tree: &Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::<Vec<u8>, Vec<u8>>::new();
        self.ask(|| {
            let last = all.last_key_value().map(|(key, _)| key.clone());
            let from = last
                .as_ref()
                .map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_slice()));
            tree.scan(from, Bound::Unbounded, |key, value| {
                assert!(
                    all.insert(key.to_vec(), value.to_vec()).is_none(),
                    "a key is visited once"
                );
                ControlFlow::Continue(())
            })
        });
        all
    }

    /// Returns the addresses of the tree's stored pages.
    pub(super) fn addresses(&self, tree: &Tree) -> Vec<Address> {
        let mut seen = Seen::default();
        self.ask(|| tree.pages(&mut seen));
        seen.0
    }
}

#[derive(Default)]
pub(super) struct Seen(pub(super) Vec<Address>);

impl Pages for Seen {
    fn is_known(&mut self, at: &Address) -> bool {
        self.0.contains(at)
    }

    fn visit(&mut self, at: &Address) {
        self.0.push(*at);
    }
}

/// Numbers that look random and are the same every time.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
