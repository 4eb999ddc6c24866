//! What the store promises, over every bucket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod buckets;
mod cache;
mod crashes;
mod damage;
mod held;
mod hostile;
mod overlay;
mod packs;
mod proof;
mod remote;
mod world;
