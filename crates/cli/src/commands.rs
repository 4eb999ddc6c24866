//! One file a command: its arguments with their help, and what it does.

pub(crate) mod branch;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod conflicts;
pub(crate) mod delegations;
pub(crate) mod diff;
pub(crate) mod drive;
pub(crate) mod du;
pub(crate) mod fork;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod merge;
pub(crate) mod mount;
pub(crate) mod reclaim;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod sync;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod unmount;
