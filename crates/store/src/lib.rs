//! Immutable bytes in a bucket: conditional put, packs of chunks and pages, and faults.
//!
//! A [`Bucket`] keeps objects that are written once and never changed. A bucket that is a folder of this
//! machine also gives a [`Disk`]: files that grow in place, for the journal and for the pack that is being
//! filled. [`pack`] puts chunks and pages into either. Everything here blocks; nothing reads a clock.

pub mod key;
pub mod signal;

pub mod aligned;
pub mod bucket;
pub mod disk;

pub mod marker;

pub mod faulty;
pub mod folder;
pub mod memory;
pub mod overlay;
pub mod remote;
pub mod url;

pub mod cache;
pub mod pack;

pub mod conformance;
pub mod proof;
pub mod proxy;
pub mod service;

pub use aligned::Aligned;
pub use bucket::{Bucket, Counts, OpenError, Put, Requests};
pub use cache::{Cache, CacheUsage};
pub use disk::{Disk, DiskFile, Lock};
pub use faulty::FaultyBucket;
pub use folder::FolderBucket;
pub use key::Key;
pub use memory::MemoryBucket;
pub use overlay::OverlayBucket;
pub use remote::RemoteBucket;
pub use signal::Signal;
