//! Worlds of several servers over one bucket without a lock.

use tenure_sim::servers::{Flaw, Options, run};

/// Worlds that `cargo test` lets happen.
const SEEDS: u64 = 40;
/// Worlds that have found something: who slept for too long opened a file without a question; an owner that had heard nothing of a
/// session, and was asked for a page alone, counted as one that had.
const KEPT: [u64; 2] = [77_833_885_877_116, 256_764_233_868_093];
/// Worlds within which a flaw must be found.
const SEEDS_WITH_FLAW: u64 = 240;

#[test]
fn whatever_becomes_of_servers_what_was_synced_is_there_and_no_answer_is_older_than_the_question() {
    let (mut syncs, mut reads, mut looks, mut epochs) = (0, 0, 0, 0);
    for seed in (0..SEEDS).chain(KEPT) {
        let report = run(seed, Options::default());
        assert_eq!(report.broken, None, "seed {seed}: {:#?}", report.last);
        syncs += report.syncs;
        reads += report.reads;
        looks += report.looks;
        epochs += report.epochs;
    }
    assert!(syncs > SEEDS * 5, "{syncs} syncs were acknowledged");
    assert!(reads > SEEDS * 3, "{reads} answers were read");
    assert!(
        looks > SEEDS * 30,
        "{looks} looks at what is shared were answered"
    );
    assert!(epochs > SEEDS * 3, "{epochs} epochs were claimed");
}

#[test]
fn one_seed_lets_the_same_happen_among_servers() {
    for seed in 0..3 {
        let [one, other] = [(); 2].map(|()| run(seed, Options::default()).trace);
        assert_eq!(one, other);
    }
}

#[test]
fn every_flaw_of_servers_and_their_store_is_found() {
    for flaw in Flaw::ALL {
        let options = Options {
            flaw: Some(flaw),
            ..Options::default()
        };
        let found = (0..SEEDS_WITH_FLAW).find_map(|seed| run(seed, options).broken.map(|why| (seed, why)));
        let (seed, why) = found.unwrap_or_else(|| panic!("{flaw:?} is not found"));
        println!("{flaw:?} is found by seed {seed}: {}", why.0);
    }
}
