//! What each branch and checkpoint needs of the bucket: what nothing else needs, and what several share.
//!
//! Each page and chunk is looked at once, or twice where several need it, however many branches there are: what a second one needs is
//! shared from there down. Invariant: every byte is counted once.

use crate::drive::Inner;
use std::collections::HashMap;
use tenure_core::Stored;
use tenure_model::Address;
use tenure_wire::{Error, LineUsage, Usage};

/// Lines, by their place in the list of all.
type Place = u32;

/// Who needs something.
#[derive(Clone, Copy)]
struct Needed {
    by: Place,
    last: Place,
    is_shared: bool,
    by_branch: bool,
}

/// What was found so far, and which line is looked at.
#[derive(Default)]
struct Needs {
    pages: HashMap<Address, Needed>,
    chunks: HashMap<Address, Needed>,
    line: Place,
    is_branch: bool,
}

impl Inner {
    pub(crate) fn usage(&self) -> Result<Usage, Error> {
        // Pages that were never written have no size.
        self.fold()?;
        let mut state = self.with(|live| Ok(live.state.clone()))?;
        let mut needs = Needs::default();
        let mut lines = Vec::new();
        for (id, line) in state.lines() {
            let branch = state.opened(id).expect("the line was listed just now").branch;
            needs.is_branch = line.kind.is_branch();
            self.loader.ask(|| branch.stored_parts(&mut needs))?;
            needs.line += 1;
            lines.push(LineUsage {
                line: id,
                name: line.name,
                is_branch: line.kind.is_branch(),
                own: 0,
            });
            self.work_on_pages();
        }
        self.counted(&needs, lines)
    }

    fn counted(&self, needs: &Needs, lines: Vec<LineUsage>) -> Result<Usage, Error> {
        let mut usage = Usage {
            lines,
            shared: 0,
            by_checkpoints: 0,
        };
        for (at, needed) in needs.pages.iter().chain(&needs.chunks) {
            // What was lost and is put back from elsewhere has no place in a pack.
            let bytes = self.packs.find(*at)?.map_or(0, |entry| u64::from(entry.len));
            if !needed.is_shared {
                usage.lines[needed.by as usize].own += bytes;
            } else if needed.by_branch {
                usage.shared += bytes;
            } else {
                usage.by_checkpoints += bytes;
            }
        }
        Ok(usage)
    }
}

impl Needs {
    fn note(all: &mut HashMap<Address, Needed>, at: &Address, line: Place, is_branch: bool) {
        let needed = all.entry(*at).or_insert(Needed {
            by: line,
            last: line,
            is_shared: false,
            by_branch: is_branch,
        });
        needed.is_shared |= needed.by != line;
        needed.by_branch |= is_branch;
        needed.last = line;
    }
}

impl Stored for Needs {
    fn is_known(&mut self, page: &Address) -> bool {
        let (line, is_branch) = (self.line, self.is_branch);
        self.pages.get(page).is_some_and(|needed| {
            let is_all_told = needed.is_shared && (needed.by_branch || !is_branch);
            needed.last == line || is_all_told
        })
    }

    fn page(&mut self, at: &Address) {
        Self::note(&mut self.pages, at, self.line, self.is_branch);
    }

    fn chunk(&mut self, at: &Address) {
        Self::note(&mut self.chunks, at, self.line, self.is_branch);
    }
}
