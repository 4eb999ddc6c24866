//! Making one call of a bucket in several tries, each with its time, with waits between them.
//!
//! Invariant: a call ends: it has so many tries, and a try has so much time.

use super::client::observed;
use super::config::Bounds;
use super::reply::Miss;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes for which a try has a second more: slower lines are not of use.
const BYTES_A_SECOND: u64 = 1 << 20;

/// What all calls of a bucket share.
pub(super) struct Tries {
    bounds: Bounds,
    /// Those that are on their way.
    turns: Semaphore,
    seed: u64,
    waits: AtomicU64,
}

impl Tries {
    pub(super) fn new(bounds: Bounds, seed: u64) -> Self {
        Self {
            bounds,
            turns: Semaphore::new(bounds.connections_max),
            seed,
            waits: AtomicU64::new(0),
        }
    }

    /// Returns how often a call is tried.
    pub(super) fn max(&self) -> u32 {
        self.bounds.tries_max
    }

    /// Waits for a turn. Those before hold theirs no longer than their tries last.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("it is never closed")
    }

    /// Makes one try, of something that moves so many bytes.
    pub(super) async fn once<T>(
        &self,
        bytes: u64,
        tried: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Miss> {
        let more = Duration::from_secs(bytes / BYTES_A_SECOND);
        let timed = tokio::time::timeout(self.bounds.try_timeout + more, tried);
        let (result, exchange) = observed(timed).await;
        match result {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(Miss::of(&error, &exchange)),
            Err(_) => Err(Miss::timed_out(&exchange)),
        }
    }

    /// Waits before the try of that number, from 0: longer before each, and not as long as others who failed at the
    /// same time.
    pub(super) async fn wait_before(&self, number: u32) {
        let Some(waits) = number.checked_sub(1) else {
            return;
        };
        let doubled = self.bounds.first_wait.saturating_mul(1 << waits.min(16));
        let longest = doubled.min(self.bounds.wait_max);
        let chance = self.chance(self.waits.fetch_add(1, Ordering::Relaxed));
        tokio::time::sleep(longest / 2 + longest.mul_f64(chance / 2.0)).await;
    }

    /// Returns a number from 0 to 1 that follows from the seed.
    fn chance(&self, number: u64) -> f64 {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&self.seed.to_le_bytes())
            .update(&number.to_le_bytes());
        f64::from(hasher.finalize().as_bytes()[0]) / 255.0
    }
}
