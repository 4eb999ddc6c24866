//! How the conversation travels between processes: [`serve`] lets others call the owners of a process, and [`Connection`]
//! is such an owner from afar.
//!
//! A client opens up to three streams to one owner: one for what is small and urgent (batches above all), one for
//! loading pages and chunks, one for placing chunks. Each has its own queue in the kernel, its own bound of calls in
//! flight and its own workers, so a bulk transfer cannot stand in front of a batch; interleaving them on one stream would
//! need windows and priorities of our own on both sides. On each stream calls are numbered and answered in any order.
//!
//! Invariant: a branch never crosses ([`Shared::Here`](crate::Shared)), and a caller learns about each call whether it
//! was done, was not, or may have been.

mod address;
mod answer;
mod call;
mod come;
mod connection;
mod group;
mod guest;
mod lane;
mod link;
mod outbox;
mod patience;
mod peer;
mod pool;
mod presence;
mod servers;
mod service;
mod stream;
pub mod unix;
mod visit;
pub mod web;
mod window;

pub use address::{HostPort, ServerAddress};
pub use connection::{Connection, Greeting};
pub use patience::{Dial, Dialer, Patience};
pub use servers::{Servers, Unencrypted};
pub use service::{Door, Host, Limits, Service, Whereabouts, serve};
pub use stream::Stream;
