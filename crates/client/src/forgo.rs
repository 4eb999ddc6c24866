//! Forgoing: the owner hears which of the places that it gave are named by now, or never will be, so that it keeps their packs no longer
//! than they may be named.
//!
//! Invariant: what the owner had counted at a mark is said to be over only when all that had waited here at the mark was shipped, and
//! nothing was on its way from the owner into the log then. Nobody waits for the call.

use crate::branch::Inner;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_model::Refusal;
use tenure_wire::{Error, Placings};

/// Renewals after which a mark is made though nothing was placed since the last: the owner may be another one by then.
const RENEWALS: u32 = 60;
/// How long it is waited for those who are placing something: the next ones wait meanwhile.
const PLACING_WAIT: Duration = Duration::from_millis(20);

/// What is known of places that the owner gave.
#[derive(Default)]
pub(crate) struct Forgoing {
    /// Held by who asks for places, until they are in the log or staged.
    placing: RwLock<()>,
    /// Whether anything was placed since the last mark.
    is_any: AtomicBool,
    mark: Mutex<Mark>,
}

#[derive(Default)]
struct Mark {
    /// When it was made, and how often something was placed by then; none when that is said.
    made: Option<(Duration, Placings)>,
    renewals: u32,
}

impl Forgoing {
    /// Begins to place something; ends when what is returned is dropped.
    pub(crate) fn place(&self) -> RwLockReadGuard<'_, ()> {
        let placing = self.placing.read();
        self.is_any.store(true, Ordering::Relaxed);
        placing
    }
}

impl Inner {
    /// Says now and then what was placed and is over.
    pub(crate) fn forgo(&self) {
        let Some(mut mark) = self.forgoing.mark.try_lock() else {
            return;
        };
        mark.renewals += 1;
        let is_wanted = mark.made.is_some() || self.forgoing.is_any.load(Ordering::Relaxed);
        if !is_wanted && mark.renewals < RENEWALS {
            return;
        }
        let said = match mark.made {
            Some((made, placings)) if self.has_shipped_since(made) => placings,
            Some(_) => return,
            None => Placings::default(),
        };
        let has_more = self.forgoing.is_any.swap(false, Ordering::Relaxed);
        match self.owner.forgo(self.opened.session, said) {
            Ok(placings) => {
                mark.renewals = 0;
                mark.made = None;
                if placings == said && !has_more {
                    return;
                }
                // Whatever the owner has counted was asked for before: once nobody is at it, it is in the log, or staged.
                match self.forgoing.placing.try_write_for(PLACING_WAIT) {
                    Some(_nobody) => mark.made = Some((self.clock.elapsed(), placings)),
                    None => self.forgoing.is_any.store(true, Ordering::Relaxed),
                }
            }
            // An owner of an earlier version keeps nothing, and is not asked often.
            Err(Error::Refused(Refusal::NotSupported)) => *mark = Mark::default(),
            Err(_) => self.forgoing.is_any.store(true, Ordering::Relaxed),
        }
    }

    /// Tells whether all that had waited here at some time was shipped.
    fn has_shipped_since(&self, made: Duration) -> bool {
        // Between the log and its way out nothing is seen of what is shipped.
        let Some(_shipping) = self.shipping.try_lock_for(PLACING_WAIT) else {
            return false;
        };
        let now = self.clock.elapsed();
        self.waits_for().is_none_or(|age| now.saturating_sub(age) > made)
    }
}
