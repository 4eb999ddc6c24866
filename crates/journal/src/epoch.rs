//! Claims: who owns a drive from an epoch on. Claims are never deleted.

use tenure_model::Epoch;

/// A claim of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The epoch before; 0 for the first.
    pub previous: Epoch,
    /// Drawn by the claimant when it was sent: tells two claimants apart.
    pub nonce: [u8; 16],
    /// Who claims it, in words: agent, host, process.
    pub who: String,
}
