//! Unix sockets: where a process listens on its own machine, and how others there get at it.

mod address;

pub use address::{dial, listen, listener, socket_path};
