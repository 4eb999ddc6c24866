//! How the conversation travels between processes.

pub mod unix;
