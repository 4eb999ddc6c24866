//! How we know that it is right: one world per seed, and the protocol model.

pub mod model;
