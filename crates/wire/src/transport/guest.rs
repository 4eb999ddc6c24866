//! Somebody who was let in by the network: what he may speak about, who he is, and whether that still holds.
//!
//! Invariant: his token is shown in no message and no log.

use super::web::Doorkeeper;
use std::fmt;
use std::sync::Arc;
use tenure_model::{DriveName, Refusal};

/// Somebody who was let in by the network.
pub(super) struct Guest {
    /// The drive that he may speak about; none where he speaks with the server itself.
    drive: Option<DriveName>,
    /// The agent that his token stands for, if for one.
    agent: Option<String>,
    doorkeeper: Arc<dyn Doorkeeper>,
    shown: Option<String>,
}

impl Guest {
    /// Lets somebody in who shows a token, or none, if the doorkeeper does.
    pub(super) fn admitted(
        doorkeeper: &Arc<dyn Doorkeeper>,
        shown: Option<&str>,
        drive: Option<DriveName>,
    ) -> Result<Self, Refusal> {
        let agent = doorkeeper.admit(shown, drive.as_ref())?;
        Ok(Self {
            drive,
            agent,
            doorkeeper: doorkeeper.clone(),
            shown: shown.map(str::to_owned),
        })
    }

    pub(super) fn drive(&self) -> Option<&DriveName> {
        self.drive.as_ref()
    }

    pub(super) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// Tells whether the doorkeeper would let him in now, as the same agent.
    pub(super) fn may_stay(&self) -> bool {
        let admitted = self.doorkeeper.admit(self.shown.as_deref(), self.drive());
        admitted.is_ok_and(|agent| agent == self.agent)
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("drive", &self.drive)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}
