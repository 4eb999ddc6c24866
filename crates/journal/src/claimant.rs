//! Who claims a drive, and where it takes time and chance from.

use std::sync::Arc;
use tenure_model::{Clock, Epoch};

/// Draws what tells two claims, or two segments, apart: of a machine that was cloned each twin draws another.
pub type Draw = Arc<dyn Fn() -> [u8; 16] + Send + Sync>;

/// Objects that are read at once when a journal is replayed: at 15 ms each, a thousand in a second.
const READS_AT_ONCE: usize = 16;

/// Who claims a drive, and by what means.
#[derive(Clone)]
pub struct Claimant {
    /// Who it is, in words: agent, host, process. Another one is refused with them.
    pub who: String,
    /// The epoch whose owner was found gone: a drive that was claimed since is refused. None where nobody was asked.
    pub after: Option<Epoch>,
    /// By what means.
    pub means: Means,
}

/// What an owner takes from outside.
#[derive(Clone)]
pub struct Means {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where chance comes from; asked when something is sent.
    pub draw: Draw,
    /// How many objects are read at once, by as many threads; 1 for the simulator.
    pub reads_at_once: usize,
}

impl Means {
    /// Returns the usual means.
    pub fn new(clock: Arc<dyn Clock>, draw: Draw) -> Self {
        Self {
            clock,
            draw,
            reads_at_once: READS_AT_ONCE,
        }
    }
}
