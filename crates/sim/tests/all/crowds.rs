//! Threads of one client over a drive with all its threads, cut off by a power loss.

use tenure_sim::crowd::{meet, run};

#[test]
fn threads_of_one_client_find_after_a_power_loss_what_each_was_promised() {
    let (mut syncs, mut cut_off) = (0, 0);
    for seed in 0..12 {
        let report = run(seed);
        assert_eq!(report.broken, None, "seed {seed}");
        syncs += report.syncs;
        cut_off += u64::from(report.was_cut_off);
    }
    assert!(syncs > 20, "{syncs} syncs were acknowledged");
    assert!(cut_off > 3, "the power failed in {cut_off} of them");
}

#[test]
fn one_order_explains_what_sessions_with_all_their_threads_see_of_a_branch_that_they_share() {
    let mut syncs = 0;
    for seed in 0..6 {
        let report = meet(seed);
        assert_eq!(report.broken, None, "seed {seed}");
        syncs += report.syncs;
    }
    assert!(syncs > 60, "{syncs} syncs were acknowledged");
}
