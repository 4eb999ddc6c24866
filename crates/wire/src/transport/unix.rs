//! The conversation over unix sockets: [`serve`] lets other processes call the owners of a process, and [`Connection`]
//! is such an owner from afar.
//!
//! A client opens up to three sockets to one owner: one for what is small and urgent (batches above all), one for
//! loading pages and chunks, one for placing chunks. Each has its own queue in the kernel, its own bound of calls in
//! flight and its own workers, so a bulk transfer cannot stand in front of a batch; interleaving them on one socket would
//! need windows and priorities of our own on both sides. On each socket calls are numbered and answered in any order.
//!
//! Invariant: a branch never crosses ([`Shared::Here`](crate::Shared)), and a caller learns about each call whether it
//! was done, was not, or may have been.

mod address;
mod answer;
mod connection;
mod lane;
mod link;
mod outbox;
mod patience;
mod peer;
mod pool;
mod presence;
mod service;
mod visit;
mod window;

pub use address::{dial, listen, socket_path};
pub use connection::{Connection, Greeting};
pub use patience::{Dial, Patience};
pub use service::{Host, Limits, Service, serve};
