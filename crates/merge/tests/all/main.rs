//! The room `merge`, tried from outside.

mod attributes;
mod cases;
mod data;
mod foreign;
mod laws;
mod limits;
mod lines;
