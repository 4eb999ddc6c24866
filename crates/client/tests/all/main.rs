//! A held branch and its owner together: what becomes of contents that are written in pieces.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod owner;
mod world;

mod bulk;
mod copies;
mod crash;
mod cut;
mod ended;
mod here;
mod lent;
mod listing;
mod merge;
mod near;
mod random;
mod reclaim;
mod salvage;
mod serving;
mod shared;
mod unheard;
mod waiting;
