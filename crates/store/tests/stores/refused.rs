//! What cannot hold drives is refused, by its name and with what to do.

use crate::servers::{Server, config};
use tenure_model::Failure;
use tenure_store::remote::RemoteConfig;
use tenure_store::{Bucket, Key, OpenError, RemoteBucket, proof};

fn refusal(server: &Server) -> String {
    let bucket = RemoteBucket::attach(&server.config("probed")).unwrap();
    let refused = proof::prove(&bucket, 1);
    assert_eq!(
        bucket.list(""),
        Ok(Vec::new()),
        "what was put to prove it is removed"
    );
    match refused {
        Err(OpenError::Refused(refusal)) => refusal.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn rclone_does_not_keep_conditional_puts_and_is_refused() {
    let server = Server::rclone();
    assert_eq!(
        refusal(&server),
        format!(
            "the bucket s3://tenure/probed at http://{} cannot hold drives: it puts an object over another, although it \
             is told not to; use a store that keeps conditional puts (`If-None-Match: *`)",
            server.address
        )
    );
}

#[test]
fn s3rver_does_not_keep_conditional_puts_and_is_refused() {
    let refusal = refusal(&Server::s3rver());
    assert!(refusal.contains("it puts an object over another"), "{refusal}");
}

#[test]
fn a_bucket_that_is_not_there_is_named_at_every_call() {
    let server = Server::moto();
    let none = RemoteConfig {
        url: "s3://other".to_owned(),
        ..server.config("")
    };
    let bucket = RemoteBucket::attach(&none).unwrap();
    let key = Key::parse("drives/a").unwrap();
    let failures = [
        bucket.put_if_absent(&key, b"x").map(|_| ()),
        bucket.get(&key).map(|_| ()),
        bucket.size(&key).map(|_| ()),
        bucket.get_range(&key, 0, &mut [0]),
        bucket.list("").map(|_| ()),
    ];
    for failure in failures {
        let Err(Failure::DidNotHappen(why)) = failure else {
            panic!("{failure:?}");
        };
        assert!(
            why.starts_with(&format!("the bucket s3://other at http://{}: ", server.address)),
            "{why}"
        );
        assert!(why.contains("404 NoSuchBucket"), "{why}");
        assert!(
            why.ends_with("there is no such bucket: make it first, or check its name"),
            "{why}"
        );
    }
    let counts = bucket.requests().counts();
    assert_eq!(
        counts.total(),
        5,
        "what is refused is not tried again: {counts:?}"
    );
}

#[test]
fn nobody_at_the_address_is_a_failure_that_did_not_happen() {
    let server = Server::moto();
    let config = config(&format!("http://{}", server.address), "gone");
    drop(server);
    let bucket = RemoteBucket::attach(&config).unwrap();
    let key = Key::parse("drives/a").unwrap();
    let put = bucket.put_if_absent(&key, b"x");
    assert!(
        matches!(put, Err(Failure::DidNotHappen(_))),
        "it was never sent: {put:?}"
    );
    assert!(matches!(bucket.get(&key), Err(Failure::DidNotHappen(_))));
    assert_eq!(bucket.requests().counts().puts, 4, "and was tried again");
}
