//! Random histories of forks, folds, reloads and evictions beside a sorted map.

use super::shelf::Shelf;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Depth, Hand, Memory, Tree};

#[derive(Clone, Debug)]
enum Step {
    Insert(Key, usize),
    /// Many at once, in order or not, so that trees become high.
    Fill {
        from: u16,
        count: u16,
        stride: u16,
        value_len: usize,
    },
    Update(Key, usize),
    Remove(Key),
    RemoveMany {
        from: u16,
        count: u16,
        stride: u16,
    },
    RemoveRange(Key, Key),
    Floor(Key),
    Scan(Key, Key),
    Fork,
    Turn,
    Fold,
    Reload,
    Evict(usize),
}

/// A key of one of several shapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(Vec<u8>);

fn number_key(number: u16) -> Vec<u8> {
    let mut key = vec![b'n', 0, 0, 0];
    key.extend_from_slice(&number.to_be_bytes());
    key.extend_from_slice(&[b'.'; 40][..usize::from(number % 40)]);
    key
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        6 => (0u16..2000).prop_map(number_key),
        2 => prop::collection::vec(0u8..3, 0..6),
        1 => (0u8..3, prop_oneof![4 => 100usize..300, 1 => Just(5000usize)]).prop_map(|(byte, len)| vec![byte; len]),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
    .prop_map(Key)
}

fn value_len() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0usize..200,
        2 => Just(64usize),
        2 => 200usize..3000,
        1 => 3000usize..9000,
        1 => Just(70_000usize),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (key(), value_len()).prop_map(|(key, len)| Step::Insert(key, len)),
        3 => (0u16..2000, 1u16..400, prop_oneof![Just(1u16), Just(7), Just(1999)], 0usize..400)
            .prop_map(|(from, count, stride, value_len)| Step::Fill { from, count, stride, value_len }),
        3 => (key(), value_len()).prop_map(|(key, len)| Step::Update(key, len)),
        4 => key().prop_map(Step::Remove),
        2 => (0u16..2000, 1u16..400, prop_oneof![Just(1u16), Just(7), Just(1999)])
            .prop_map(|(from, count, stride)| Step::RemoveMany { from, count, stride }),
        2 => (key(), key()).prop_map(|(from, to)| Step::RemoveRange(from, to)),
        2 => key().prop_map(Step::Floor),
        2 => (key(), key()).prop_map(|(from, to)| Step::Scan(from, to)),
        1 => Just(Step::Fork),
        2 => Just(Step::Turn),
        2 => Just(Step::Fold),
        2 => Just(Step::Reload),
        2 => (0usize..50_000).prop_map(Step::Evict),
    ]
}

fn run(from: u16, count: u16, stride: u16) -> impl Iterator<Item = u16> {
    (0..count).map(move |at| ((u32::from(from) + u32::from(at) * u32::from(stride)) % 2000) as u16)
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    /// Trees with what must be in them; steps act on the first.
    forks: Vec<(Tree, Map)>,
    shelf: Shelf,
    memory: Memory,
    hand: Hand,
    filler: u8,
}

impl World {
    fn new() -> Self {
        let mut shelf = Shelf::default();
        let memory = Memory::new();
        let empty = shelf.fold(&Tree::new());
        World {
            forks: vec![(Tree::stored(empty, &memory), Map::new())],
            shelf,
            memory,
            hand: Hand::default(),
            filler: 0,
        }
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        self.filler = self.filler.wrapping_add(1);
        vec![self.filler; len]
    }

    /// Changes the first tree; while a page is missing it must stay as it is.
    fn change<R>(&mut self, change: impl Fn(&mut Tree) -> Result<R, tenure_core::Missing>) -> R {
        let Self { forks, shelf, .. } = self;
        let tree = &mut forks[0].0;
        shelf.ask(|| {
            let before = tree.address();
            let changed = change(tree);
            assert!(
                changed.is_ok() || tree.address() == before,
                "what is missing a page changes nothing"
            );
            changed
        })
    }

    fn insert(&mut self, key: Vec<u8>, len: usize) {
        let value = self.value(len);
        let was_there = self.change(|tree| tree.insert(&key, &value));
        assert_eq!(was_there, self.forks[0].1.insert(key, value).is_some());
    }

    fn remove(&mut self, key: &[u8]) {
        let was_there = self.change(|tree| tree.remove(key));
        assert_eq!(was_there, self.forks[0].1.remove(key).is_some());
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Insert(Key(key), len) => self.insert(key, len),
            Step::Fill {
                from,
                count,
                stride,
                value_len,
            } => {
                for number in run(from, count, stride) {
                    self.insert(number_key(number), value_len);
                }
            }
            Step::Update(Key(key), len) => {
                let value = self.value(len);
                let was_there =
                    self.change(|tree| tree.update(&key, |old| [&old[..old.len() / 2], &value].concat()));
                let old = self.forks[0].1.get_mut(&key);
                assert_eq!(was_there, old.is_some());
                old.into_iter()
                    .for_each(|old| *old = [&old[..old.len() / 2], &value].concat());
            }
            Step::Remove(Key(key)) => self.remove(&key),
            Step::RemoveMany { from, count, stride } => {
                for number in run(from, count, stride) {
                    self.remove(&number_key(number));
                }
            }
            Step::RemoveRange(Key(from), Key(to)) => {
                self.change(|tree| tree.remove_range(&from, &to));
                self.forks[0].1.retain(|key, _| !(from <= *key && *key < to));
            }
            Step::Floor(Key(key)) => self.floor(&key),
            Step::Scan(from, to) => self.scan(&from.0, &to.0),
            Step::Fork => self.forks.push(self.forks[0].clone()),
            Step::Turn => self.forks.rotate_left(1),
            Step::Fold => drop(self.shelf.fold(&self.forks[0].0)),
            Step::Reload => {
                let at = self.shelf.fold(&self.forks[0].0);
                self.forks[0].0 = Tree::stored(at, &self.memory);
            }
            Step::Evict(bytes) => {
                let before = self.memory.resident_bytes();
                let freed = self.forks[0].0.evict(&mut self.hand, bytes);
                assert!(self.memory.resident_bytes() <= before - freed);
            }
        }
    }

    fn floor(&self, key: &[u8]) {
        let (tree, map) = &self.forks[0];
        let found = self
            .shelf
            .ask(|| tree.floor(key, |key, value| (key.to_vec(), value.to_vec())));
        let expected = map
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(key)))
            .next_back();
        assert_eq!(found, expected.map(|(key, value)| (key.clone(), value.clone())));
        let value = self.shelf.ask(|| tree.get(key, <[u8]>::to_vec));
        assert_eq!(value.as_ref(), map.get(key));
    }

    fn scan(&self, from: &[u8], to: &[u8]) {
        let (tree, map) = &self.forks[0];
        let keys = map
            .keys()
            .filter(|key| from < key.as_slice() && key.as_slice() <= to);
        let found = self.shelf.ask(|| {
            let mut found = Vec::new();
            tree.scan(Bound::Excluded(from), Bound::Included(to), |key, _| {
                found.push(key.to_vec());
                if found.len() == 40 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            Ok(found)
        });
        assert!(found.iter().eq(keys.take(40)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_tree_is_a_sorted_map_whatever_is_forked_folded_reloaded_or_evicted(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.forks[0].0.check(Depth::Shape);
        }
        for (tree, map) in &world.forks {
            tree.check(Depth::Digests);
            prop_assert_eq!(&world.shelf.contents(tree), map);
        }
        let memory = world.memory.clone();
        drop(world);
        prop_assert_eq!((memory.resident_bytes(), memory.dirty_bytes()), (0, 0));
    }
}

#[test]
fn nothing_is_dirty_after_a_fold_and_everything_clean_can_be_evicted() {
    let mut shelf = Shelf::default();
    let mut tree = Tree::new();
    for number in 0..20_000u32 {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        tree.insert(&key, &[7; 60]).expect("nothing is out of memory");
    }
    let memory = tree.memory().clone();
    assert!(memory.dirty_bytes() > 20_000 * 60);
    shelf.fold(&tree);
    assert_eq!(memory.dirty_bytes(), 0);
    let before = memory.resident_bytes();
    let freed = tree.evict(&mut Hand::default(), usize::MAX);
    assert!(freed > before / 10 * 9, "{freed} of {before} bytes");
    assert!(
        memory.resident_bytes() < 1000,
        "one page without its body is left"
    );
    assert_eq!(shelf.contents(&tree).len(), 20_000);
}

#[test]
fn what_is_read_all_the_time_is_evicted_last() {
    let mut shelf = Shelf::default();
    let mut tree = Tree::new();
    for number in 0..20_000u32 {
        tree.insert(&number.to_be_bytes(), &[7; 60])
            .expect("nothing is out of memory");
    }
    shelf.fold(&tree);
    let mut hand = Hand::default();
    tree.evict(&mut hand, 1);
    for _ in 0..100 {
        let hot = tree.get(&77u32.to_be_bytes(), |_| ());
        hot.expect("a page in use stays");
        tree.evict(&mut hand, 10_000);
    }
}
