//! The room `core`, tried from outside.

mod cover;
mod decisions;
mod diff;
mod faults;
mod frayed;
mod histories;
mod limits;
mod merge;
mod records;
mod reference;
mod restore;
mod scenario;
mod stored;
mod tree;
mod visible;
