//! A drive as its clients see it: scenarios through the calls of `Owner`, crashes, refusals and checks.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod world;

mod crash;
mod damage;
mod fold;
mod fork;
mod history;
mod killed;
mod repeats;
mod room;
mod scenario;
mod session;
mod trust;
