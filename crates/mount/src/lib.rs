//! A client as a Linux file system.
//!
//! `kernel` speaks the FUSE protocol with the kernel and knows nothing of drives.

pub mod kernel;
