//! A remote bucket as far as it needs no service: what names one, and what is refused before anything is asked.

use std::time::Duration;
use tenure_model::Failure;
use tenure_store::remote::{AccessKeys, Bounds, RemoteConfig};
use tenure_store::{Bucket, Key, OpenError, RemoteBucket, url};

fn refusal(config: &RemoteConfig) -> String {
    match RemoteBucket::attach(config) {
        Err(OpenError::Refused(refusal)) => refusal.to_string(),
        Err(failed) => panic!("failed: {failed}"),
        Ok(_) => panic!("{} was taken", config.url),
    }
}

#[test]
fn what_names_no_bucket_is_refused_with_what_to_write() {
    for url in ["", "name", "http://name", "s3:/name", "S3://name"] {
        let refusal = refusal(&RemoteConfig::of(url));
        assert!(
            refusal.ends_with("write s3://NAME, gs://NAME or az://NAME, and behind it /PREFIX if need be")
        );
    }
    for url in ["s3://", "s3:///prefix", "s3://na me", "gs://ä", "az://a?b"] {
        assert!(
            refusal(&RemoteConfig::of(url)).contains("is no name of one"),
            "{url}"
        );
    }
    let long = format!("s3://name/{}", "a/".repeat(300));
    for url in [
        "s3://name/a//b",
        "s3://name/.a",
        "s3://name/a b",
        "s3://name/../x",
        &long,
    ] {
        assert!(
            refusal(&RemoteConfig::of(url)).contains("a prefix is at most 500"),
            "{url}"
        );
    }
}

#[test]
fn an_endpoint_is_whole_holds_no_secret_and_is_not_in_the_clear_by_chance() {
    let with = |endpoint: &str| RemoteConfig {
        endpoint: Some(endpoint.to_owned()),
        ..RemoteConfig::of("s3://name")
    };
    assert_eq!(
        refusal(&with("127.0.0.1:8333")),
        "\"127.0.0.1:8333\" is no endpoint: write https://HOST[:PORT]"
    );
    assert_eq!(
        refusal(&with("http://user:secret@127.0.0.1")),
        "an endpoint holds no user or password: give the keys apart from it"
    );
    assert_eq!(
        refusal(&with("http://127.0.0.1:8333")),
        "http://127.0.0.1:8333 would send everything in the clear: use https://, or allow plain HTTP"
    );
}

#[test]
fn a_bucket_is_described_without_what_is_secret() {
    let config = RemoteConfig {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        keys: Some(AccessKeys {
            id: "the-id".to_owned(),
            secret: "the-secret".to_owned(),
            session_token: Some("the-token".to_owned()),
        }),
        allow_http: true,
        bounds: Bounds {
            tries_max: 2,
            first_wait: Duration::from_millis(1),
            ..Bounds::default()
        },
        ..RemoteConfig::of("s3://name/deep/")
    };
    let bucket = RemoteBucket::attach(&config).unwrap();
    assert_eq!(
        bucket.describe(),
        "the bucket s3://name/deep/ at http://127.0.0.1:1"
    );
    let failed = bucket.get(&Key::parse("drives/a").unwrap()).unwrap_err();
    let Failure::DidNotHappen(why) = &failed else {
        panic!("{failed:?}");
    };
    assert!(
        why.starts_with("the bucket s3://name/deep/ at http://127.0.0.1:1: get drives/a: "),
        "{why}"
    );
    assert!(!why.contains("the-"), "{why}");
    assert_eq!(bucket.requests().counts().gets, 2);
}

#[test]
fn every_service_is_known_by_its_scheme_and_told_what_it_knows() {
    let options = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_CONDITIONAL_PUT", "disabled"),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0"),
        ("GOOGLE_SKIP_SIGNATURE", "true"),
        ("AWS_OF_A_LATER_TIME", "ignored"),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for url in ["s3://name", "gs://name/prefix", "az://name/a/b"] {
        let config = RemoteConfig {
            options: options.to_vec(),
            ..RemoteConfig::of(url)
        };
        assert!(RemoteConfig::knows(url));
        let bucket = RemoteBucket::attach(&config).unwrap();
        assert_eq!(bucket.describe(), format!("the bucket {url}"));
    }
}

#[test]
fn a_url_of_a_folder_names_a_folder_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let config = RemoteConfig::of(&format!("file://{}", folder.path().display()));
    assert!(url::open(&config).is_err(), "it is no bucket yet");
    let bucket = url::create(&config).unwrap();
    assert_eq!(
        bucket.describe(),
        format!("the folder {}", folder.path().display())
    );
    assert_eq!(url::open(&config).unwrap().tier(), "folder");
    assert!(!RemoteConfig::knows(&config.url));
}
