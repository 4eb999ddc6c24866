//! Bulk on its way to a bucket where packs are put whole: what somebody syncs waits for no bulk of other files, and no batch names
//! what is not durable yet.

use crate::owner::Watched;
use crate::world::{At, Random, create_with, hold, make, read, server_options, sync};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tenure_client::{Branch, Options, Threads};
use tenure_model::Refusal;
use tenure_store::{Bucket, MemoryBucket};
use tenure_wire::Access;

/// Returns an owner whose packs are put whole, and `main` of it, held with threads or without.
fn held(at: At, threads: Threads) -> (Arc<Watched>, Branch) {
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new().without_disk());
    let options = tenure_server::Options {
        threads: match threads {
            Threads::Started => tenure_server::Threads::Started,
            Threads::None => tenure_server::Threads::None,
        },
        ..server_options()
    };
    let owner = Arc::new(Watched::new(create_with(bucket, options).unwrap()));
    let options = Options {
        stage_settle: 1 << 20,
        threads,
        ..Options::default()
    };
    let branch = hold(owner.clone(), at, ("main", Access::Exclusive), options).unwrap();
    (owner, branch)
}

#[test]
fn a_sync_of_a_small_file_waits_for_no_bulk_of_another() {
    for at in [At::Here, At::Elsewhere] {
        let (owner, branch) = held(at, Threads::Started);
        let (bulk, small) = (make(&branch, "bulk").unwrap(), make(&branch, "small").unwrap());
        let (begun, begins) = sync_channel(1);
        let (open, gate) = sync_channel::<()>(1);
        owner.before_secure(move || {
            begun.send(()).unwrap();
            gate.recv().unwrap();
            Ok(())
        });
        let content = Random::new(1).bytes(5 << 20);
        branch.write(bulk, 0, Bytes::from(content.clone())).unwrap();
        begins.recv().unwrap();
        branch.write(small, 0, Bytes::from_static(&[7; 4096])).unwrap();
        sync(&branch, small).unwrap();
        assert_eq!(branch.unsynced().bytes, content.len() as u64, "{at:?}");
        assert_eq!(read(&branch, bulk), content, "it is read meanwhile");
        open.send(()).unwrap();
        sync(&branch, bulk).unwrap();
        assert_eq!(branch.unsynced().bytes, 0);
        assert_eq!(read(&branch, bulk), content);
        branch.close().unwrap();
    }
}

#[test]
fn what_was_placed_and_lost_before_it_was_durable_is_placed_again() {
    let (owner, branch) = held(At::Elsewhere, Threads::None);
    let bulk = make(&branch, "bulk").unwrap();
    let content = Random::new(2).bytes(3 << 20);
    branch.write(bulk, 0, Bytes::from(content.clone())).unwrap();
    let at = tenure_model::Address {
        pack: tenure_model::PackNumber(1),
        digest: tenure_model::Digest([1; 32]),
    };
    owner.before_secure(move || Err(Refusal::NoChunk { at }.into()));
    assert!(sync(&branch, bulk).is_err());
    assert_eq!((branch.broken(), owner.shipped()), (None, 0));
    assert_eq!(read(&branch, bulk), content);
    sync(&branch, bulk).unwrap();
    assert_eq!((branch.unsynced().bytes, owner.shipped()), (0, 1));
    assert_eq!(read(&branch, bulk), content);
}

#[test]
fn many_small_files_are_placed_together_and_few_of_them_are_not_put_for_themselves() {
    let (owner, branch) = held(At::Elsewhere, Threads::None);
    let files: Vec<_> = (0..100_u64)
        .map(|number| make(&branch, &number.to_string()).unwrap())
        .collect();
    let content = |number: u64| Bytes::from(Random::new(number).bytes(5000));
    for (number, ino) in (0..).zip(&files) {
        branch.write(*ino, 0, content(number)).unwrap();
    }
    branch.sync_all().unwrap();
    assert_eq!((owner.places(), owner.secured()), (1, 1), "100 files, 500 kB");
    for (number, ino) in (100..).zip(&files[..40]) {
        branch.write(*ino, 0, content(number)).unwrap();
    }
    branch.sync_all().unwrap();
    assert_eq!(
        (owner.places(), owner.secured()),
        (2, 1),
        "40 files ride with their batch"
    );
    for (number, ino) in (100..).zip(&files[..40]) {
        assert_eq!(read(&branch, *ino), content(number));
    }
}
