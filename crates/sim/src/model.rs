//! The protocol, small enough to try everything that can happen.
//!
//! Each model is a world of two or three servers, a handful of names and a few records, with every crash, delay, loss,
//! clone and takeover as a step of its own. The explorer visits every state of it and judges laws: what may never be,
//! what must be possible somewhere, and what must stay possible from everywhere. A rule of the protocol is a parameter:
//! a test takes it away and shows the steps that then lose something. So a model is to be read as a page of the protocol,
//! and its list of faults as the reasons for the rules.
//!
//! | model | question |
//! |---|---|
//! | [`epoch`] | who may write the journal, and what does a takeover find? |
//! | [`fold`] | which names may be deleted, and so be written again? |
//! | [`grant`] | who may answer, and until when? |
//! | [`batch`] | what of a session's work is accepted, and what is it told? |
//! | [`condemn`] | when may a pack be deleted? |
//! | [`folder`] | what does one disk keep, when a file lock takes the place of the claims? |
//! | [`subtree`] | what does a grant of a directory cover, and what must a change recall? |
//! | [`recall`] | how does a grant come back, from a machine that caches, pauses, dies or is cloned? |
//! | [`turns`] | who waits for whom, and for how long? |
//! | [`reclaim`] | whom does a new owner wait for before it answers? |
//! | [`seen`] | what becomes of work that follows what was lost with an owner? |
//!
//! They build on each other: `epoch` and `folder` show that there is a list of records with a durable prefix that a takeover
//! keeps, and the others begin there. What the models found, and the rules that follow from it, stands in
//! `docs/decisions/0002-protocol-model.md`; for branches that several sessions share, in
//! `docs/decisions/0007-shared-authority.md`.
//!
//! How they are kept small, where that loses nothing: a put of a server that died is a put of one that is slow and dies
//! later; a reply tells no more than reading the name does; servers with equal memories are interchangeable; a permission
//! is taken for as long as the slowest clock allows, a wait for as short as the quickest makes it.
//!
//! What no model knows: what a record means (that is `core`'s), bytes that the bucket changes or loses after it acknowledged
//! them, a bucket whose put-if-absent is not atomic, a server that lies, compaction of packs, pins of other drives, and
//! anything beyond the bounds that a test states. The numbers of states are part of the tests, so that a model does not
//! shrink unseen.

pub mod batch;
pub mod condemn;
mod crew;
pub mod epoch;
mod explorer;
pub mod fold;
pub mod folder;
pub mod grant;
pub mod recall;
pub mod reclaim;
pub mod seen;
pub mod subtree;
pub mod turns;

pub use explorer::{Counterexample, Report};
