//! The tests of this crate, in one binary.

mod model;
mod scenarios;
mod worlds;
