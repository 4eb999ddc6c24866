//! Random writes, cuts and holes, with merging, folds and openings in between, beside bytes that are just kept.

use crate::world::{At, Random, World, options};
use proptest::collection::vec;
use proptest::prelude::*;
use tenure_model::{AttrChange, Ino};
use tenure_wire::Owner;

const LEN_MAX: u64 = 600_000;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: u64 },
    Page { at: u64 },
    Append { len: u64 },
    Cut { size: u64 },
    Punch { at: u64, len: u64 },
    Copy { from: u64, to: u64, len: u64 },
    Sync,
    Fold,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..LEN_MAX;
    prop_oneof![
        3 => (at(), 1..100_000_u64).prop_map(|(at, len)| Step::Write { at, len }),
        40 => (0..40_u64).prop_map(|at| Step::Page { at }),
        10 => (1..3000_u64).prop_map(|len| Step::Append { len }),
        1 => at().prop_map(|size| Step::Cut { size }),
        2 => (at(), 1..20_000_u64).prop_map(|(at, len)| Step::Punch { at, len }),
        2 => (at(), at(), 1..20_000_u64).prop_map(|(from, to, len)| Step::Copy { from, to, len }),
        40 => Just(Step::Sync),
        2 => Just(Step::Fold),
        1 => Just(Step::Reopen),
    ]
}

/// A file as it must be: its bytes, and which of them are in no hole.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_data: Vec<bool>,
}

impl Kept {
    fn resize(&mut self, len: u64) {
        self.bytes.resize(len as usize, 0);
        self.is_data.resize(len as usize, false);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        self.resize(end.max(self.bytes.len() as u64));
        self.bytes[at as usize..end as usize].copy_from_slice(bytes);
        self.is_data[at as usize..end as usize].fill(true);
    }

    fn punch(&mut self, at: u64, len: u64) {
        let size = self.bytes.len();
        let range = (at as usize).min(size)..((at + len) as usize).min(size);
        self.bytes[range.clone()].fill(0);
        self.is_data[range].fill(false);
    }

    fn copy(&mut self, from: u64, to: u64, len: u64) {
        let source = from as usize..(from + len) as usize;
        let goal = to as usize..(to + len) as usize;
        self.resize((to + len).max(self.bytes.len() as u64));
        self.bytes.copy_within(source.clone(), goal.start);
        self.is_data.copy_within(source, goal.start);
    }
}

fn take(world: &World, ino: Ino, kept: &mut Kept, step: &Step, random: &mut Random) {
    let size = kept.bytes.len() as u64;
    let mut write = |at, len| {
        let bytes = random.bytes(len as usize);
        world.write(ino, at, &bytes);
        kept.write(at, &bytes);
    };
    match *step {
        Step::Write { at, len } => write(at, len),
        Step::Page { at } => write(at * 4096, 4096),
        Step::Append { len } => write(size, len),
        Step::Cut { size } => {
            let change = AttrChange {
                size: Some(size),
                ..AttrChange::default()
            };
            world.branch.set_attr(ino, &change).unwrap();
            kept.resize(size);
        }
        Step::Punch { at, len } => {
            world.branch.punch(ino, at, len).unwrap();
            kept.punch(at, len);
        }
        Step::Copy { from, to, len } => {
            let len = len.min(size.saturating_sub(from));
            let overlaps = from < to + len && to < from + len;
            if len > 0 && !overlaps {
                world.branch.copy((ino, from), (ino, to), len).unwrap();
                kept.copy(from, to, len);
            }
        }
        Step::Sync => world.sync(ino),
        Step::Fold => world.owner.drive.fold().unwrap(),
        Step::Reopen => unreachable!("the caller does it"),
    }
}

/// Reads all from an offset on into memory that holds something else.
fn read_over(world: &World, ino: Ino, from: usize) -> Vec<u8> {
    let mut bytes = vec![9; world.branch.attr(ino).unwrap().size as usize + 100];
    let len = world.branch.read_into(ino, from as u64, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn live(at: At, stage_settle: u64, steps: &[Step]) {
    let mut world = World::new(at, options(stage_settle));
    let ino = world.file("file");
    let (mut kept, mut random) = (Kept::default(), Random::new(1));
    for step in steps {
        if let Step::Reopen = step {
            world = world.reopen();
        } else {
            take(&world, ino, &mut kept, step, &mut random);
        }
        assert!(world.read(ino) == kept.bytes, "{step:?}");
        assert!(
            read_over(&world, ino, 100) == kept.bytes[kept.bytes.len().min(100)..],
            "{step:?}"
        );
    }
    let world = world.reopen();
    assert!(world.read(ino) == kept.bytes);
    let data = kept.is_data.iter().filter(|is_data| **is_data).count();
    assert_eq!(world.branch.attr(ino).unwrap().allocated, data as u64);
    assert_eq!(world.owner.drive.check(true).unwrap(), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_is_what_was_written_to_it_however_it_is_merged(
        steps in vec(step(), 0..150),
        is_here in any::<bool>(),
        stage_settle in prop_oneof![Just(1_u64), Just(16 << 10), Just(64 << 10)],
    ) {
        let at = if is_here { At::Here } else { At::Elsewhere };
        live(at, stage_settle, &steps);
    }
}
