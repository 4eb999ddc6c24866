//! What the journal promises: order, durability, one owner.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod appending;
mod claims;
mod crashes;
mod folding;
mod histories;
mod killed;
mod missing;
mod objects;
mod room;
mod takeovers;
mod world;
