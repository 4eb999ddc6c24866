//! The trace: everything that happened in a world, as a hash, and the last of it in words.
//!
//! Invariant: one seed gives one trace, byte for byte.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Arguments;
use std::sync::Arc;
use tenure_model::Digest;

/// Events that are kept in words.
const KEPT: usize = 60;

/// The trace of one world. Clones share it.
#[derive(Clone)]
pub(crate) struct Trace {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hasher: blake3::Hasher,
    count: u64,
    last: VecDeque<String>,
    is_printed: bool,
}

impl Trace {
    /// Returns an empty trace; with `is_printed` every event is printed as it happens.
    pub(crate) fn new(is_printed: bool) -> Self {
        let inner = Inner {
            hasher: blake3::Hasher::new(),
            count: 0,
            last: VecDeque::new(),
            is_printed,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Notes an event.
    pub(crate) fn note(&self, event: Arguments<'_>) {
        let line = event.to_string();
        let mut inner = self.inner.lock();
        inner.count += 1;
        inner.hasher.update(line.as_bytes()).update(b"\n");
        if inner.is_printed {
            println!("{:6} {line}", inner.count);
        }
        if inner.last.len() == KEPT {
            inner.last.pop_front();
        }
        let line = format!("{:6} {line}", inner.count);
        inner.last.push_back(line);
    }

    /// Notes a call of the bucket: it counts in the hash, and is told in words only where all is printed.
    pub(crate) fn note_call(&self, event: Arguments<'_>) {
        let line = event.to_string();
        let mut inner = self.inner.lock();
        inner.hasher.update(line.as_bytes()).update(b"\n");
        if inner.is_printed {
            println!("           {line}");
        }
    }

    /// Returns the hash of all that happened.
    pub(crate) fn digest(&self) -> Digest {
        Digest(*self.inner.lock().hasher.finalize().as_bytes())
    }

    /// Returns the last events.
    pub(crate) fn last(&self) -> Vec<String> {
        self.inner.lock().last.iter().cloned().collect()
    }
}
