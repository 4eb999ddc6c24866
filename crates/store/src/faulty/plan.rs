//! Which call meets which fault.

use crate::key::Key;
use std::collections::BTreeMap;

/// One way in which a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the caller is told so.
    Refuse,
    /// There is no space left; nothing happens.
    NoSpace,
    /// Nothing happens, and nobody knows.
    LoseRequest,
    /// It happens, and nobody knows: a timeout after success.
    LoseReply,
    /// A put happens, and a retry below us finds our own object, 409 or 412 after success: `Exists`.
    ClaimExists,
    /// Half of an object is returned; half of a write is made.
    ShortRead,
    /// Another object's bytes are returned.
    WrongBody,
    /// The process ends before this call: neither it nor any call after it happens.
    Halt,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// An object is put.
    Put,
    /// An object, a part or a size is asked for.
    Get,
    /// Keys are listed.
    List,
    /// An object or file is deleted.
    Delete,
    /// A file is created.
    Create,
    /// A file is opened.
    Open,
    /// A file is renamed.
    Rename,
    /// A lock is taken.
    Lock,
    /// A file is written.
    Write,
    /// A file is read.
    Read,
    /// A file is made durable.
    Sync,
    /// A file is given room, or cut.
    Resize,
}

/// One call of a bucket, its disk or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its place among all calls since the plan was given, from 0.
    pub number: u64,
    /// What it asks for.
    pub kind: CallKind,
    /// Of which key.
    pub key: Key,
}

/// Which faults, of a kind of them, happen when. The empty plan has none.
#[derive(Clone, Debug)]
pub struct Plan<F = Fault> {
    at: BTreeMap<u64, F>,
    on: Vec<(CallKind, String, F)>,
    random: Option<RandomFaults<F>>,
}

#[derive(Clone, Debug)]
struct RandomFaults<F> {
    seed: u64,
    one_in: u64,
    kinds: Vec<F>,
}

impl<F: Copy> Plan<F> {
    /// Returns a plan without faults.
    pub fn none() -> Self {
        Self {
            at: BTreeMap::new(),
            on: Vec::new(),
            random: None,
        }
    }

    /// Adds a fault at the call of that number.
    pub fn at(mut self, number: u64, fault: F) -> Self {
        self.at.insert(number, fault);
        self
    }

    /// Adds a fault at every call of a kind whose key contains `part`.
    pub fn on(mut self, kind: CallKind, part: &str, fault: F) -> Self {
        self.on.push((kind, part.to_owned(), fault));
        self
    }

    /// Adds faults of these kinds at about one in `one_in` calls; the same seed gives the same faults.
    pub fn at_random(mut self, seed: u64, one_in: u64, kinds: &[F]) -> Self {
        self.random = Some(RandomFaults {
            seed,
            one_in,
            kinds: kinds.to_vec(),
        });
        self
    }

    pub(crate) fn fault_at(&self, call: &Call) -> Option<F> {
        let named = |(kind, part, _): &&(CallKind, String, F)| {
            *kind == call.kind && call.key.as_str().contains(part.as_str())
        };
        let random = || {
            self.random
                .as_ref()
                .and_then(|random| random.fault_at(call.number))
        };
        let at = self.at.get(&call.number).copied();
        at.or_else(|| self.on.iter().find(named).map(|(.., fault)| *fault))
            .or_else(random)
    }
}

impl<F: Copy> RandomFaults<F> {
    fn fault_at(&self, number: u64) -> Option<F> {
        let mut mixed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let kind = usize::try_from(mixed / self.one_in % self.kinds.len() as u64);
        (mixed.is_multiple_of(self.one_in)).then(|| self.kinds[kind.expect("an index into a list")])
    }
}

/// Returns a key that stands for a listing in the calls.
pub(super) fn listed(under: &str) -> Key {
    Key::parse(under.trim_end_matches('/')).unwrap_or_else(|_| Key::parse("all").expect("a literal key"))
}
