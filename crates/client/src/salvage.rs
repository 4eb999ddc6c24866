//! Salvage: what a branch had accepted when it was lost, and not shipped, goes into a stray branch beside it.
//!
//! Invariant: whoever syncs is told that the branch is lost, and never that a sync is done; what is brought here is the log as it
//! is, in its order, behind the last batch that the owner took.

use crate::branch::{Branch, Inner};
use crate::ship::{Shipping, is_not_done};
use std::sync::mpsc;
use tenure_model::{Batch, Failure, Refusal};
use tenure_wire::{Error, Salvaged, Shipped};

/// What has become of what a lost branch had not shipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Salvage {
    /// It is being brought, or waits for an owner that can be reached.
    #[default]
    Underway,
    /// All of it is in the stray of that name; none where nothing was missing.
    Done(Option<String>),
    /// The owner does not take it.
    Failed(Error),
}

impl Branch {
    /// Returns what has become of what this branch had not shipped when it was lost; none while it is not lost.
    pub fn salvage(&self) -> Option<Salvage> {
        self.inner.is_lost().then(|| self.inner.salvage.lock().clone())
    }
}

impl Inner {
    /// Tells whether the branch was taken from this session.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.read().broken == Some(Error::Refused(Refusal::Stale))
    }

    /// Brings what a lost branch has not shipped into a stray, and ends the session. What cannot be brought now is tried again
    /// with the shipper's next look.
    pub(crate) fn save(&self) {
        if !self.is_lost() || *self.salvage.lock() != Salvage::Underway {
            return;
        }
        let saved = {
            let mut shipping = self.shipping.lock();
            shipping.begin_salvage();
            let brought = self
                .save_kept(&mut shipping)
                .and_then(|()| self.settle_all())
                .and_then(|()| self.ship_cuts(&mut shipping));
            brought.map(|()| shipping.stray().cloned())
        };
        match saved {
            Ok(stray) => {
                *self.salvage.lock() = Salvage::Done(stray);
                // An owner that does not hear of the end stops waiting some day. One to whom the session is not over means another
                // client that goes on with it.
                if self.owner.renew(self.opened.session) == Err(Refusal::Stale.into()) {
                    let _ = self.owner.close(self.opened.session);
                }
            }
            Err(error) if is_not_done(&error) || self.may_be_accepted(&error) => self.waiting.changed(),
            Err(error) => {
                tracing::error!(%error, "what was not durable cannot be saved");
                *self.salvage.lock() = Salvage::Failed(error);
            }
        }
    }

    /// Brings what was sent and may be lost: what is not is known there.
    fn save_kept(&self, shipping: &mut Shipping) -> Result<(), Error> {
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        for batch in kept.all(self.retained.as_ref()) {
            let number = batch.number;
            self.salvage_once(shipping, batch, None)?;
            kept.settle(number);
        }
        Ok(())
    }

    /// Brings one batch.
    pub(crate) fn salvage_once(
        &self,
        shipping: &mut Shipping,
        batch: Batch,
        after: Option<tenure_core::Branch>,
    ) -> Result<Shipped, Error> {
        let (send, receive) = mpsc::sync_channel(1);
        let told = Box::new(move |salvaged| drop(send.send(salvaged)));
        self.owner.salvage(batch, after, told);
        let salvaged = receive
            .recv()
            .unwrap_or_else(|_| Err(Failure::Unknown("the owner has ended".into()).into()));
        let Salvaged { digest, stray } = salvaged?;
        shipping.note_stray(stray);
        Ok(Shipped { digest })
    }
}
