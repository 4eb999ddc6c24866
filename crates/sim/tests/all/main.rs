//! The tests of this crate, in one binary.

mod crowds;
mod model;
mod scenarios;
mod servers;
mod worlds;
