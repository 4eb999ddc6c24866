//! A branch that several sessions share, and what they do there, whoever the owner is and whatever lies between.

mod ground;
mod sharer;

pub(crate) use ground::{Ground, Phase};
pub(crate) use sharer::{Comer, Seat, Way};
