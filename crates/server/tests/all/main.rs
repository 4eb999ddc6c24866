//! A drive as its clients see it: scenarios through the calls of `Owner`, crashes, refusals and checks.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod borrower;
mod world;

mod clones;
mod cost;
mod crash;
mod damage;
mod diff;
mod drives;
mod fold;
mod fork;
mod gathering;
mod history;
mod killed;
mod lent;
mod lent_lost;
mod lent_random;
mod lines;
mod merge;
mod owners;
mod parts;
mod reclaim;
mod reclaim_lost;
mod repeats;
mod restore;
mod review;
mod room;
mod scenario;
mod session;
mod shared;
mod still;
mod stray;
mod trust;
mod turn;
mod usage;
