//! The room `model`, tried from outside: its bytes, its names and its lists.

mod access;
mod allocation;
mod broken;
mod golden;
mod names;
mod round_trip;
mod values;
