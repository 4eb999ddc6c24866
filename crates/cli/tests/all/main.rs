//! The tests of the command as a whole: it guards the house, and it mounts, is killed and mounts again.

mod mounted;
mod tidy;
