//! How fast the tree is and how much memory it takes, on keys and values like a drive's.
//!
//! Run by hand: `cargo run --release -p tenure-core --example tree_speed`. Times are those on a processor, so that a
//! busy machine disturbs them less; the sorted map of vectors is there to compare with.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use tenure_core::tree::{Depth, Hand, Tree};
use tenure_model::{Address, Digest, PackNumber};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const COUNT: usize = 1_000_000;

/// Returns a key of 17 to 25 bytes: prefix, inode, kind, and what tells an inode's records apart.
fn key(number: usize, key: &mut Vec<u8>) {
    key.clear();
    key.push(1);
    key.extend_from_slice(&(number as u64 / 4).to_be_bytes());
    key.extend_from_slice(&[(number % 4) as u8; 8]);
    key.extend_from_slice(&[7; 8][..number % 9]);
}

/// Returns `0..COUNT` in an order that looks random.
fn shuffled() -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..COUNT).collect();
    let mut state = 1u64;
    for at in (1..COUNT).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        numbers.swap(at, (state >> 33) as usize % (at + 1));
    }
    numbers
}

fn timed<R>(what: &str, count: usize, work: impl FnOnce() -> R) -> R {
    let start = nanoseconds();
    let result = work();
    let took = nanoseconds() - start;
    println!("{what:<44} {:>9.3} us", took as f64 / 1e3 / count as f64);
    result
}

/// Returns how long this thread has run so far.
fn nanoseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    let first = stat.split(' ').next().expect("it has three numbers");
    first.parse().expect("it has three numbers")
}

fn filled(order: impl Iterator<Item = usize>) -> Tree {
    let (mut tree, mut name) = (Tree::new(), Vec::new());
    for number in order {
        key(number, &mut name);
        tree.insert(&name, &[number as u8; 60])
            .expect("nothing is out of memory");
    }
    tree
}

fn memory(what: &str, tree: &Tree) {
    let mut name = Vec::new();
    let raw: usize = (0..COUNT)
        .map(|number| {
            key(number, &mut name);
            name.len() + 60
        })
        .sum();
    let resident = tree.memory().resident_bytes();
    println!("{what:<44} {:>9.3} x raw", resident as f64 / raw as f64);
}

fn fold(tree: &Tree) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    let folded = tree.fold(&mut |page| {
        count += 1;
        bytes += page.len();
        Ok::<_, Infallible>(Address {
            pack: PackNumber(1000),
            digest: Digest::of(page),
        })
    });
    folded.expect("this bucket never fails");
    (count, bytes)
}

fn change_all(tree: &mut Tree, order: &[usize]) {
    let mut name = Vec::new();
    timed("update in place, random", COUNT, || {
        for &number in order {
            key(number, &mut name);
            let updated = tree.update(&name, |old| [old[0].wrapping_add(1); 60]);
            updated.expect("nothing is out of memory");
        }
    });
    timed("insert over, same length, random", COUNT, || {
        for &number in order {
            key(number, &mut name);
            tree.insert(&name, &[number as u8; 60])
                .expect("nothing is out of memory");
        }
    });
}

fn read_all(tree: &Tree, order: &[usize]) {
    let mut name = Vec::new();
    timed("get, random", COUNT, || {
        for &number in order {
            key(number, &mut name);
            let found = tree.get(&name, |value| value[0]);
            assert_eq!(found, Ok(Some(number as u8)));
        }
    });
    timed("get, in order", COUNT, || {
        for number in 0..COUNT {
            key(number, &mut name);
            black_box(tree.get(&name, |value| value[0])).expect("nothing is out of memory");
        }
    });
    let half = |order: &[usize], what| {
        let mut name = Vec::new();
        timed(what, order.len(), || {
            for &number in order {
                key(number, &mut name);
                black_box(tree.get(&name, |value| value[0])).expect("nothing is out of memory");
            }
        });
    };
    std::thread::scope(|scope| {
        let (one, two) = order.split_at(COUNT / 2);
        scope.spawn(move || half(one, "get, random, one of two threads"));
        scope.spawn(move || half(two, "get, random, the other"));
    });
    timed("floor, random", COUNT, || {
        for &number in order {
            key(number, &mut name);
            name.push(0);
            black_box(tree.floor(&name, |_, value| value[0])).expect("nothing is out of memory");
        }
    });
    timed("scan, each entry", COUNT, || {
        let mut count = 0;
        let scanned = tree.scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
            count += black_box(key.len() + value.len()).min(1);
            ControlFlow::Continue(())
        });
        assert_eq!((scanned, count), (Ok(()), COUNT));
    });
    timed("scan of 4 entries, random", COUNT, || {
        for &number in order {
            key(number & !3, &mut name);
            let to = (number as u64 / 4 + 1).to_be_bytes();
            let to = [&[1], to.as_slice()].concat();
            let mut count = 0;
            let scanned = tree.scan(Bound::Included(&name), Bound::Excluded(&to), |_, _| {
                count += 1;
                ControlFlow::Continue(())
            });
            assert_eq!((scanned, count), (Ok(()), 4));
        }
    });
}

fn fork_and_fold(tree: &mut Tree, order: &[usize]) {
    let (count, bytes) = timed("fold, each entry", COUNT, || fold(tree));
    println!("  {count} pages of {} bytes", bytes / count);
    let mut name = Vec::new();
    let fork = timed("clone", 1, || tree.clone());
    timed("update after a fork, 1,000 random", 1000, || {
        for &number in &order[..1000] {
            key(number, &mut name);
            tree.update(&name, |_| [9; 60]).expect("nothing is out of memory");
        }
    });
    let mut told = 0;
    timed("diff of these, each", 1000, || {
        let compared = fork.diff(tree, Bound::Unbounded, |_, _, _| {
            told += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(compared, Ok(()));
    });
    let (count, bytes) = timed("fold of these, each", 1000, || fold(tree));
    println!("  {told} entries in {count} pages, {bytes} bytes");
    drop(fork);
    let freed = timed("evict everything, each entry", COUNT, || {
        tree.evict(&mut Hand::default(), usize::MAX)
    });
    println!("  {freed} bytes");
}

fn yardstick(order: &[usize]) {
    let (mut map, mut name) = (BTreeMap::new(), Vec::new());
    for number in 0..COUNT {
        key(number, &mut name);
        map.insert(name.clone(), vec![number as u8; 60]);
    }
    timed("get, random, BTreeMap<Vec<u8>, Vec<u8>>", COUNT, || {
        for &number in order {
            key(number, &mut name);
            assert_eq!(map.get(&name).map(|value| value[0]), Some(number as u8));
        }
    });
}

fn main() {
    let order = shuffled();
    yardstick(&order);
    let mut tree = timed("insert, in order", COUNT, || filled(0..COUNT));
    memory("memory, inserted in order", &tree);
    read_all(&tree, &order);
    change_all(&mut tree, &order);
    fork_and_fold(&mut tree, &order);
    drop(tree);

    let mut tree = timed("insert, random", COUNT, || filled(order.iter().copied()));
    memory("memory, inserted at random", &tree);
    read_all(&tree, &order);
    tree.check(Depth::Shape);
    let mut name = Vec::new();
    timed("remove, random", COUNT, || {
        for &number in &order {
            key(number, &mut name);
            assert_eq!(tree.remove(&name), Ok(true));
        }
    });
    let mut tree = filled(0..COUNT);
    timed("remove, in order", COUNT, || {
        for number in 0..COUNT {
            key(number, &mut name);
            assert_eq!(tree.remove(&name), Ok(true));
        }
    });
}
