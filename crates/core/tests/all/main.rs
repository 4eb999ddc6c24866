//! The room `core`, tried from outside.

mod tree;
