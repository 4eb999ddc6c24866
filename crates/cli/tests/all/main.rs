//! The tests of the command as a whole: it guards the house, and it mounts, is killed and mounts again.

mod branches;
mod closing;
mod compared;
mod files;
mod full;
mod hinted;
mod home;
mod killed;
mod leases;
mod merged;
mod mounted;
mod network;
mod odd;
mod output;
mod privileges;
mod reclaimed;
mod refused;
mod reviewed;
mod served;
mod services;
mod shared;
mod stopped;
mod tidy;
mod troubled;
mod turned;
mod unwritable;
