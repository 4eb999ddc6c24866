//! What nothing needs is looked for by itself, a moment at a time, while a drive is in use.
//!
//! It begins when so much was written or deleted that it may be worth it, and some time after the last. Invariant: there is one search at a
//! time; a drive in which nothing happens is not looked through.

use super::{Doomed, Search};
use crate::drive::{Inner, Threads};
use crate::outset::Which;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_wire::{Error, ReclaimAsk};

/// How long is searched at once, before whatever else there is to do; and how long it is rested then, so that those who work have
/// the machine.
const SLICE: Duration = Duration::from_millis(20);
const SLICE_REST: Duration = Duration::from_millis(20);
/// How long it is rested between two searches, and before the first.
const REST: Duration = Duration::from_secs(600);
const REST_FIRST: Duration = Duration::from_secs(60);
/// The part of what is needed that must have been written or deleted to look again.
const WORTH_PART: u64 = 4;

/// What is known of what may be given up.
pub(crate) struct Sweep {
    pub(super) doomed: Doomed,
    search: Option<Search>,
    /// When it may be looked next.
    next: Duration,
    /// How many bytes were needed when it was looked last.
    needed: u64,
}

/// Bytes that were written, or belonged to what was deleted, since it was looked last: so much may be needed no more.
#[derive(Debug, Default)]
pub(crate) struct Stale(AtomicU64);

impl Stale {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Sweep {
    /// Begins at some time with what owners before have given up and left.
    pub(crate) fn begin(doomed: Doomed, now: Duration) -> Self {
        Self {
            doomed,
            search: None,
            next: now + REST_FIRST,
            needed: 0,
        }
    }

    /// Ends a search that goes on by itself.
    pub(super) fn stop(&mut self) {
        self.search = None;
    }

    pub(super) fn note_needed(&mut self, bytes: u64) {
        self.needed = bytes;
    }
}

impl Inner {
    /// Goes on looking for what nothing needs, or begins to, where that is worth it; returns after how long there is more to do.
    pub(crate) fn sweep(&self) -> Result<Option<Duration>, Error> {
        // Whoever asks for it does it himself meanwhile.
        let Some(mut sweep) = self
            .sweep
            .try_lock()
            .filter(|_| self.options.threads == Threads::Started)
        else {
            return Ok(None);
        };
        let now = self.options.clock.elapsed();
        let Some(mut search) = sweep.search.take() else {
            let worth = self.options.reclaim_bytes.max(sweep.needed / WORTH_PART);
            if self.stale.bytes() < worth {
                return Ok(None);
            }
            if now < sweep.next {
                return Ok(Some(sweep.next - now));
            }
            if self.holds.are_at_work() {
                return Ok(Some(SLICE_REST));
            }
            self.renew_outsets().inspect_err(|_| sweep.next = now + REST)?;
            sweep.search = self.begin_search(Which::All)?;
            return Ok(Some(SLICE_REST));
        };
        match search.survey.go_on(self, SLICE) {
            Ok(false) => {
                sweep.search = Some(search);
                return Ok(Some(SLICE_REST));
            }
            Ok(true) => {}
            Err(error) => {
                self.holds.end_search();
                sweep.next = now + REST;
                return Err(error);
            }
        }
        self.stale.take();
        let done = self.give_up(&search, ReclaimAsk::default(), &mut sweep);
        self.holds.end_search();
        sweep.next = self.options.clock.elapsed() + REST;
        let told = done?;
        let (drive, freed, needed) = (&self.name, told.freed, told.needed);
        tracing::info!(%drive, freed, needed, "what nothing needs was given back");
        Ok(None)
    }
}
