//! Packs: uploaded, named by a batch, condemned, deleted.
//!
//! A session puts a pack and, once that is durable, ships a batch that names it. Reclaim finds a pack that nothing
//! reaches in all that is *ordered*, and condemns it by a record: from then on a batch that names the pack is refused, and
//! its session sends the bytes again under a new name. Condemned stays condemned, over every takeover and after the object
//! is gone. Only when the record is durable is the object deleted.
//!
//! A batch may arrive at any time after it was sent, and again: a pack may be named by several batches. A delete may be
//! applied at any time after it was asked for, and again, whoever owns the drive by then. A put as well: one that lands
//! after its pack was deleted leaves an object that nothing will ever name, which only a scrub finds.
//!
//! The journal here is a list with a durable prefix (`epoch` shows that it is one). A takeover keeps the prefix.
//!
//! It does not model chunks within packs, nor readers: a reader that finds a pack gone asks its owner again.

use super::explorer::{Law, Model, Report, explore};

/// How many packs there are: one, and the name under which its bytes are sent again.
const PACKS: usize = 2;
/// The most items in the journal.
const ITEMS: usize = 8;

/// What a wrong owner or session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Reclaim deletes a pack once the condemnation is ordered.
    DeletesBeforeCondemnIsDurable,
    /// Reclaim looks at what is durable, not at what is ordered, to find what nothing reaches.
    CondemnsByWhatIsDurable,
    /// Reclaim looks at one branch only.
    CondemnsByOneBranch,
    /// The owner drops the mark when the object is gone.
    ForgetsTheCondemned,
    /// The owner orders a batch if the pack's object exists, condemned or not.
    AsksTheBucketInstead,
    /// A session ships a batch before the pack that it names is durable.
    ShipsBeforeTheUpload,
}

/// The world's bounds, and what is done wrong.
#[derive(Clone, Copy, Debug)]
pub struct Condemnations {
    /// How many owners follow each other.
    pub epochs: u8,
    /// How many items the journal may have; at most 8.
    pub items: u8,
    /// The planted fault.
    pub fault: Option<Fault>,
}

impl Condemnations {
    /// Explores every interleaving within the bounds.
    pub fn explore(&self) -> Report {
        assert!(usize::from(self.items) <= ITEMS);
        explore(self)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A pack's number.
type Pack = usize;

/// What the journal holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    /// A batch names the pack: a file of the main branch holds it.
    Names(Pack),
    /// That file is removed from the main branch.
    Removes(Pack),
    /// Another branch begins as the main branch is.
    Forks,
    /// The pack is condemned.
    Condemns(Pack),
}

/// The bucket, the network, and the journal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    epoch: u8,
    items: [Option<Item>; ITEMS],
    length: u8,
    durable: u8,
    packs: [Object; PACKS],
}

/// A pack's object, and what is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Object {
    exists: bool,
    /// Its session has sent the put, which may land whenever the object is not there.
    put: bool,
    /// A batch that names it was sent, and may arrive at any time.
    named: bool,
    /// Its delete was asked for, and may be applied at any time.
    delete: bool,
    /// The mark was dropped (by a wrong owner).
    forgotten: bool,
}

/// What an owner knows of a pack after some items.
#[derive(Clone, Copy, Default)]
struct Known {
    in_main: bool,
    in_fork: bool,
    condemned: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "a trace prints them")]
pub(crate) enum Step {
    Uploads(Pack),
    UploadLands(Pack),
    ShipsABatch(Pack),
    BatchIsOrdered(Pack),
    FileIsRemoved(Pack),
    BranchIsForked,
    Condemns(Pack),
    NextIsDurable,
    AsksForDelete(Pack),
    DeleteIsApplied(Pack),
    DropsTheMark(Pack),
    IsTakenOver { epoch: u8 },
}

impl Model for Condemnations {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let object = Object {
            exists: false,
            put: false,
            named: false,
            delete: false,
            forgotten: false,
        };
        vec![State {
            epoch: 0,
            items: [None; ITEMS],
            length: 0,
            durable: 0,
            packs: [object; PACKS],
        }]
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        for pack in 0..PACKS {
            self.session_steps(state, pack, next);
            self.owner_steps(state, pack, next);
            self.reclaim_steps(state, pack, next);
        }
        let forks = !state.items.contains(&Some(Item::Forks));
        if forks && state.has_room(self.items) {
            next.push((Step::BranchIsForked, state.with_item(Item::Forks)));
        }
        if state.durable < state.length {
            let mut after = state.clone();
            after.durable += 1;
            next.push((Step::NextIsDurable, after));
        }
        if state.epoch + 1 < self.epochs {
            let mut after = state.clone();
            after.epoch += 1;
            after.length = state.durable;
            after.items[usize::from(state.durable)..].fill(None);
            next.push((Step::IsTakenOver { epoch: after.epoch }, after));
        }
    }

    fn laws(&self) -> Vec<Law<Self>> {
        vec![
            Law::always("what a durable record names is there", |_, s: &State| {
                s.finds_all(s.durable)
            }),
            Law::always("what an ordered record names is there", |_, s: &State| {
                s.finds_all(s.length)
            }),
            Law::sometimes(
                "a condemned pack is gone and its bytes are named under a new name",
                |_, s: &State| {
                    let (old, new) = (s.known(0, s.durable), s.known(1, s.durable));
                    old.condemned && !s.packs[0].exists && s.packs[0].named && new.in_main && !new.condemned
                },
            ),
            Law::sometimes(
                "a fork keeps a pack that the main branch dropped",
                |_, s: &State| {
                    let known = s.known(0, s.durable);
                    known.in_fork && !known.in_main && usize::from(s.durable) == usize::from(s.length)
                },
            ),
            Law::sometimes(
                "a late upload leaves an object that nothing names",
                |_, s: &State| s.known(0, s.durable).condemned && s.packs[0].delete && s.packs[0].exists,
            ),
            Law::stays_possible(
                "a condemned pack can be deleted",
                |_, s: &State| (0..PACKS).any(|pack| s.known(pack, s.durable).condemned),
                |_, s: &State| {
                    (0..PACKS).all(|pack| !s.packs[pack].exists || !s.known(pack, s.durable).condemned)
                },
            ),
        ]
    }
}

impl Condemnations {
    /// A session uploads a pack, under the next name when the one before is refused, and ships a batch that names it.
    fn session_steps(&self, state: &State, pack: Pack, next: &mut Vec<(Step, State)>) {
        let object = state.packs[pack];
        let is_wanted = pack == 0 || state.known(pack - 1, state.length).condemned;
        if !object.put && is_wanted {
            next.push((
                Step::Uploads(pack),
                state.with_pack(pack, Object { put: true, ..object }),
            ));
        }
        if object.put && !object.exists {
            next.push((
                Step::UploadLands(pack),
                state.with_pack(
                    pack,
                    Object {
                        exists: true,
                        ..object
                    },
                ),
            ));
        }
        let is_uploaded = object.exists || self.has(Fault::ShipsBeforeTheUpload);
        if object.put && !object.named && is_uploaded {
            next.push((
                Step::ShipsABatch(pack),
                state.with_pack(
                    pack,
                    Object {
                        named: true,
                        ..object
                    },
                ),
            ));
        }
    }

    /// The owner orders a batch that names a pack, unless that is condemned, and the removal of what holds it.
    fn owner_steps(&self, state: &State, pack: Pack, next: &mut Vec<(Step, State)>) {
        let (object, known) = (state.packs[pack], state.known(pack, state.length));
        let is_refused = match self.fault {
            Some(Fault::AsksTheBucketInstead) => !object.exists,
            _ => known.condemned && !object.forgotten,
        };
        if !state.has_room(self.items) {
            return;
        }
        if object.named && !is_refused && !known.in_main {
            next.push((Step::BatchIsOrdered(pack), state.with_item(Item::Names(pack))));
        }
        if known.in_main {
            next.push((Step::FileIsRemoved(pack), state.with_item(Item::Removes(pack))));
        }
    }

    /// Reclaim condemns what nothing reaches, and deletes what is condemned.
    fn reclaim_steps(&self, state: &State, pack: Pack, next: &mut Vec<(Step, State)>) {
        let (object, known) = (state.packs[pack], state.known(pack, state.length));
        let seen = match self.fault {
            Some(Fault::CondemnsByWhatIsDurable) => state.known(pack, state.durable),
            _ => known,
        };
        let is_reached = seen.in_main || seen.in_fork && !self.has(Fault::CondemnsByOneBranch);
        if object.put && !is_reached && !known.condemned && state.has_room(self.items) {
            next.push((Step::Condemns(pack), state.with_item(Item::Condemns(pack))));
        }
        let is_final = state.known(pack, state.durable).condemned
            || known.condemned && self.has(Fault::DeletesBeforeCondemnIsDurable);
        if is_final && !object.delete {
            next.push((
                Step::AsksForDelete(pack),
                state.with_pack(
                    pack,
                    Object {
                        delete: true,
                        ..object
                    },
                ),
            ));
        }
        if object.delete && object.exists {
            next.push((
                Step::DeleteIsApplied(pack),
                state.with_pack(
                    pack,
                    Object {
                        exists: false,
                        ..object
                    },
                ),
            ));
        }
        let drops = self.has(Fault::ForgetsTheCondemned) && object.delete && !object.exists;
        if drops && !object.forgotten {
            next.push((
                Step::DropsTheMark(pack),
                state.with_pack(
                    pack,
                    Object {
                        forgotten: true,
                        ..object
                    },
                ),
            ));
        }
    }
}

impl State {
    fn has_room(&self, items: u8) -> bool {
        self.length < items
    }

    fn with_item(&self, item: Item) -> Self {
        let mut after = self.clone();
        after.items[usize::from(self.length)] = Some(item);
        after.length += 1;
        after
    }

    fn with_pack(&self, pack: Pack, object: Object) -> Self {
        let mut after = self.clone();
        after.packs[pack] = object;
        after
    }

    /// Returns what the first `end` items say of a pack.
    fn known(&self, pack: Pack, end: u8) -> Known {
        let mut known = Known::default();
        for item in self.items[..usize::from(end)].iter().flatten() {
            match *item {
                Item::Names(named) if named == pack => known.in_main = true,
                Item::Removes(removed) if removed == pack => known.in_main = false,
                Item::Condemns(condemned) if condemned == pack => known.condemned = true,
                Item::Forks => known.in_fork = known.in_main,
                Item::Names(_) | Item::Removes(_) | Item::Condemns(_) => {}
            }
        }
        known
    }

    /// Whether every pack that the branches hold after `end` items exists.
    fn finds_all(&self, end: u8) -> bool {
        (0..PACKS).all(|pack| {
            let known = self.known(pack, end);
            self.packs[pack].exists || !(known.in_main || known.in_fork)
        })
    }
}
