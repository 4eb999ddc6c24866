//! What of the bucket a branch needs: its stored pages, and the chunks that its files name.

use crate::branch::Branch;
use crate::key::Named;
use crate::tree::{Missing, Pages};
use tenure_model::codec::Codec;
use tenure_model::{Address, Extent};

/// Is told what branches need, each page once.
pub trait Stored {
    /// Tells whether what a page and all below it need was told before; if so it is not told again.
    fn is_known(&mut self, page: &Address) -> bool;

    /// Is told a page after all that is below it.
    fn page(&mut self, at: &Address);

    /// Is told a chunk, as often as something names it.
    fn chunk(&mut self, at: &Address);
}

impl Branch {
    /// Tells what the branch needs, but for pages that were never stored. After a `Missing`, ask again with the same `stored`.
    pub fn stored_parts(&self, stored: &mut dyn Stored) -> Result<(), Missing> {
        self.tree.pages(&mut Parts(stored))
    }
}

struct Parts<'a>(&'a mut dyn Stored);

impl Pages for Parts<'_> {
    fn is_known(&mut self, at: &Address) -> bool {
        self.0.is_known(at)
    }

    fn visit(&mut self, at: &Address) {
        self.0.page(at);
    }

    fn wants_entries(&self) -> bool {
        true
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) {
        let Some(Named::Extent(..)) = Named::parse(key) else {
            return;
        };
        // What is no extent is for `check` to tell.
        if let Ok(Extent::Chunk { at, .. }) = Extent::parsed(value) {
            self.0.chunk(&at);
        }
    }
}
