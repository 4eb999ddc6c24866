//! One suite over every bucket: also over those of real servers.

use crate::servers::Server;
use tenure_model::Failure;
use tenure_store::remote::RemoteConfig;
use tenure_store::{Bucket, Key, OpenError, Put, RemoteBucket, conformance, proof};

fn check(config: &dyn Fn(&str) -> RemoteConfig) {
    conformance::check_bucket_alone(&RemoteBucket::create(&config("conforms")).unwrap());
    a_place_becomes_a_bucket_once(config);
    large_objects_are_put_and_read(config);
    a_listing_has_many_pages(config);
    threads_share_a_bucket(config);
}

#[test]
fn seaweedfs_keeps_a_bucket() {
    let server = Server::seaweedfs();
    proof::prove(&RemoteBucket::attach(&server.config("proven")).unwrap(), 1).unwrap();
    conformance::check_bucket(&RemoteBucket::create(&server.config("raced")).unwrap());
    check(&|prefix| server.config(prefix));
    a_bucket_is_reached_through_tls(&server);
}

/// It looks whether an object is there and puts it then, so that two at once can both create it: it is asked by one alone.
#[test]
fn moto_keeps_a_bucket() {
    let server = Server::moto();
    check(&|prefix| server.config(prefix));
}

fn a_bucket_is_reached_through_tls(server: &Server) {
    let address = server.tls_address.as_ref().unwrap();
    let untrusted = RemoteConfig {
        endpoint: Some(format!("https://{address}")),
        allow_http: false,
        ..server.config("by-tls")
    };
    let trusted = RemoteConfig {
        certificates: Some(server.certificate()),
        ..untrusted.clone()
    };
    conformance::check_bucket(&RemoteBucket::create(&trusted).unwrap());
    let stranger = RemoteBucket::attach(&untrusted).unwrap();
    let refused = stranger.put_if_absent(&key("drives/a"), b"x");
    let Err(Failure::DidNotHappen(why)) = refused else {
        panic!("sent to a stranger: {refused:?}");
    };
    assert!(why.contains("certificate"), "{why}");
    let damaged = RemoteConfig {
        certificates: Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()),
        ..untrusted
    };
    let refused = RemoteBucket::attach(&damaged)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("a certificate cannot be trusted"), "{refused}");
}

fn a_place_becomes_a_bucket_once(config: &dyn Fn(&str) -> RemoteConfig) {
    let config = config("deep/place");
    let refused = RemoteBucket::open(&config).map(|_| ()).unwrap_err().to_string();
    let described = format!(
        "the bucket {} at {}",
        config.url,
        config.endpoint.as_ref().unwrap()
    );
    assert_eq!(
        refused,
        format!("{described} is not a bucket: it has no `tenure-bucket`")
    );
    let bucket = RemoteBucket::create(&config).unwrap();
    assert_eq!(bucket.describe(), described);
    assert!(bucket.disk().is_none() && bucket.tier() == "bucket");
    assert_eq!(bucket.children(""), Ok(vec!["tenure-bucket".to_owned()]));
    assert!(RemoteBucket::open(&config).is_ok());
    assert!(
        RemoteBucket::create(&config).is_ok(),
        "creating what is a bucket opens it"
    );

    let other = RemoteConfig {
        url: config.url.replace("deep/place", "other"),
        ..config
    };
    let foreign = RemoteBucket::attach(&other).unwrap();
    foreign.put_if_absent(&key("thing/inside"), b"x").unwrap();
    let refused = RemoteBucket::create(&other).map(|_| ());
    assert!(matches!(refused, Err(OpenError::Refused(_))), "{refused:?}");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.ends_with(
        "holds other things, such as `thing/inside`: give an empty bucket, or a prefix of its own in it"
    ));
    assert_eq!(
        foreign.list(""),
        Ok(vec![key("thing/inside")]),
        "a refusal changes nothing"
    );
}

fn large_objects_are_put_and_read(config: &dyn Fn(&str) -> RemoteConfig) {
    let bucket = RemoteBucket::attach(&config("large")).unwrap();
    let bytes: Vec<u8> = (0u32..20 << 20).flat_map(u32::to_le_bytes).collect();
    assert_eq!(bucket.put_if_absent(&key("pack"), &bytes), Ok(Put::Created));
    assert_eq!(bucket.put_if_absent(&key("pack"), &bytes), Ok(Put::Exists));
    assert_eq!(bucket.size(&key("pack")), Ok(Some(bytes.len() as u64)));
    let mut range = vec![0; 3 << 20];
    bucket.get_range(&key("pack"), 70_000_001, &mut range).unwrap();
    assert!(range == bytes[70_000_001..][..3 << 20]);
    assert!(bucket.get(&key("pack")) == Ok(Some(bytes)));
}

fn a_listing_has_many_pages(config: &dyn Fn(&str) -> RemoteConfig) {
    let bucket = RemoteBucket::attach(&config("many")).unwrap();
    // In byte order, and not in that of folders: `-` and `.` stand before `/`.
    let name = |number: usize| match number % 4 {
        0 => format!("many/b/{number:04}"),
        1 => format!("many/b-{number:04}"),
        2 => format!("many/b.{number:04}"),
        _ => format!("many/a/{number:04}/c"),
    };
    let mut keys: Vec<Key> = (0..2_400).map(|number| key(&name(number))).collect();
    std::thread::scope(|threads| {
        for keys in keys.chunks(300) {
            let bucket = &bucket;
            threads.spawn(move || {
                for key in keys {
                    bucket.put_if_absent(key, b"x").unwrap();
                }
            });
        }
    });
    keys.sort_unstable();
    let before = bucket.requests().counts().lists;
    assert!(bucket.list("many/").unwrap() == keys);
    assert_eq!(bucket.requests().counts().lists - before, 3);
    assert_eq!(bucket.children("many/").unwrap().len(), 1202);
    assert_eq!(bucket.children("many/a/").unwrap().len(), 600);
}

fn threads_share_a_bucket(config: &dyn Fn(&str) -> RemoteConfig) {
    let mut config = config("shared");
    // More callers than connections: each has its turn.
    config.bounds.connections_max = 3;
    let bucket = RemoteBucket::attach(&config).unwrap();
    std::thread::scope(|threads| {
        for writer in 0..12 {
            let bucket = bucket.clone();
            threads.spawn(move || {
                let key = key(&format!("by/{writer}"));
                assert_eq!(
                    bucket.put_if_absent(&key, key.as_str().as_bytes()),
                    Ok(Put::Created)
                );
                assert_eq!(bucket.get(&key), Ok(Some(key.as_str().as_bytes().to_vec())));
            });
        }
    });
    // Also from a thread that may not wait, and it is dropped there.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move {
        assert_eq!(bucket.list("by/").unwrap().len(), 12);
        drop(bucket);
    });
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}
