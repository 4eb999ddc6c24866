//! The room `core`, tried from outside.

mod decisions;
mod faults;
mod histories;
mod reference;
mod stored;
mod tree;
mod visible;
