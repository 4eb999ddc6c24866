//! Waiting for a branch that another session holds: whoever says nothing loses it, and whoever says something keeps it. Whose
//! process has ended, as is known here and not where the owner is, says nothing more, and is not waited for.

use std::time::Duration;
use tenure_model::{Clock, Refusal};
use tenure_wire::{Delegation, Error, Lease, Owner};

/// How often a branch is asked for again.
const REST: Duration = Duration::from_millis(100);

/// How much longer than its lease a silent holder is waited for: the owner may be busy with what it finds.
const BEYOND_LEASE: Duration = Duration::from_secs(2);

/// How long somebody waits for a branch that another holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the holder says nothing: until its lease is over.
    WhileSilent,
    /// So long, whatever the holder says.
    For(Duration),
}

impl Patience {
    fn lasts(self, waited: Duration, lent: &Delegation) -> bool {
        match (self, lent.lease) {
            (Patience::For(time), _) => waited < time,
            // What it has said last it said before it was waited for.
            (Patience::WhileSilent, Some(Lease { silence, length })) => {
                silence >= waited && waited < length + BEYOND_LEASE
            }
            (Patience::WhileSilent, None) => false,
        }
    }
}

/// Tries to hold the branch of a name, again as long as another holds it and there is patience; `told` hears who that is when it
/// is waited for. `has_ended` is asked once of each whether his process is known to have ended: then he loses it at once.
pub fn hold_when_free<B, R>(
    (owner, clock): (&dyn Owner<B>, &dyn Clock),
    (name, patience): (&str, Patience),
    (has_ended, mut told): (impl Fn(&Delegation) -> bool, impl FnMut(&Delegation)),
    hold: impl Fn() -> Result<R, Error>,
) -> Result<R, Error> {
    let begun = clock.elapsed();
    let (mut is_told, mut asked_of) = (false, None);
    loop {
        let held = match hold() {
            Err(held @ Error::Refused(Refusal::Held { .. })) => held,
            outcome => return outcome,
        };
        let waited = clock.elapsed().saturating_sub(begun);
        let lent = owner.delegations()?.into_iter().find(|lent| lent.name == name);
        // If nobody holds it any more it is tried again.
        if let Some(lent) = lent {
            if asked_of.replace(lent.session) != Some(lent.session) && has_ended(&lent) {
                match owner.close(lent.session) {
                    // Its owner may have heard of it as well.
                    Ok(()) | Err(Error::Refused(Refusal::Stale)) => continue,
                    Err(error) => return Err(error),
                }
            }
            if !patience.lasts(waited, &lent) {
                return Err(held);
            }
            if !is_told && is_worth_telling(patience, &lent) {
                is_told = true;
                told(&lent);
            }
        }
        std::thread::sleep(REST);
    }
}

/// Tells whether it is no usual pause between two words of a holder.
fn is_worth_telling(patience: Patience, lent: &Delegation) -> bool {
    match (patience, lent.lease) {
        (Patience::For(_), _) => true,
        (Patience::WhileSilent, Some(Lease { silence, length })) => silence > length / 4,
        (Patience::WhileSilent, None) => false,
    }
}
