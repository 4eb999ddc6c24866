//! Threads of one client over a drive with all its threads, cut off by a power loss.

use tenure_sim::crowd::run;

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
