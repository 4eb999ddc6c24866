//! Manifests: the root of a drive's state at a place in its order.

use crate::Position;
use tenure_model::{Address, DriveName, Epoch};

/// Where a sync must be before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In journal files inside the bucket's folder.
    Folder,
    /// In the bucket, as an object.
    Bucket,
}

/// A drive's whole state at a place in its order, by its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The drive.
    pub drive: DriveName,
    /// Who wrote it.
    pub epoch: Epoch,
    /// The place in the order: the state is that after this record.
    pub at: Position,
    /// Where the journal's records are that follow.
    pub tier: Tier,
    /// The root page of the drive's state; every pack it names is sealed.
    pub root: Option<Address>,
    /// What else the server needs to go on: opaque here.
    pub state: Vec<u8>,
}
