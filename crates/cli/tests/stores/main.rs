//! Drives in buckets that real servers keep: made, served, mounted, killed and found again from the bucket alone.
//! `./check stores` installs and starts the servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../all/home.rs"]
#[expect(dead_code, reason = "other tests stand on the rest of it")]
mod home;
#[path = "../../../store/tests/stores/servers.rs"]
#[expect(dead_code, reason = "other tests stand on the rest of it")]
mod servers;

mod cold;
mod drives;
mod holders;
