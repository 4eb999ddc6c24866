//! The conversation: its bytes, and its calls over real sockets against the same calls made directly.

mod admitted;
mod bytes;
mod calls;
mod carrier;
mod cut;
mod differences;
mod errors;
mod fake;
mod foreign;
mod guests;
mod hostile;
mod killed;
mod lanes;
mod leases;
mod lent;
mod lines;
mod mend;
mod peer;
mod reviews;
mod samples;
mod script;
mod servers;
mod silent;
mod turns;
mod web;
