//! Immutable bytes in a bucket: conditional put, packs and faults.
