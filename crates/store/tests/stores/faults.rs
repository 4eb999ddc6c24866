//! Every fault at every call of a remote bucket, and what each must come to. A store that lies in its own words, such
//! as one that denies what it did, is beyond any client, and not here.

use crate::servers::{Server, config};
use std::time::Duration;
use tenure_model::Failure;
use tenure_store::faulty::{CallKind, Plan};
use tenure_store::proxy::{Proxy, ProxyFault as Fault};
use tenure_store::{Bucket, Key, Put, RemoteBucket};

const DENIED: Fault = Fault::Answer(403, "AccessDenied");
const NO_BUCKET: Fault = Fault::Answer(404, "NoSuchBucket");
const NOT_FOUND_BY_SOMETHING_ELSE: Fault = Fault::Answer(404, "");
const CONFLICT: Fault = Fault::Answer(409, "ConditionalRequestConflict");
const THROTTLED: Fault = Fault::Answer(429, "SlowDown");
const BROKEN: Fault = Fault::Answer(500, "InternalError");
const BUSY: Fault = Fault::Answer(503, "SlowDown");
const BROKEN_AFTER: Fault = Fault::AnswerAfter(500, "InternalError");
const CONFLICT_AFTER: Fault = Fault::AnswerAfter(409, "ConditionalRequestConflict");

/// A call that fails in one of these ways is made again.
const PASSING: &[Fault] = &[
    NOT_FOUND_BY_SOMETHING_ELSE,
    CONFLICT,
    THROTTLED,
    BROKEN,
    BUSY,
    Fault::CutBefore,
    Fault::SilentBefore,
];
/// It happened, and who made it cannot know.
const HIDDEN: &[Fault] = &[BROKEN_AFTER, CONFLICT_AFTER, Fault::CutAfter, Fault::SilentAfter];

/// A server, a proxy before it, and a bucket that is reached through both.
struct Between {
    proxy: Proxy,
    bucket: RemoteBucket,
    /// The same, and it does not wait long for who is silent.
    hasty: RemoteBucket,
    /// The same bucket, reached without the proxy.
    direct: RemoteBucket,
    _server: Server,
}

/// Tries of a call.
const TRIES: u64 = 4;

impl Between {
    fn new() -> Self {
        Self::before(Server::moto())
    }

    fn before(server: Server) -> Self {
        let proxy = Proxy::start(&server.address).unwrap();
        let mut through = config(&proxy.endpoint(), "faults");
        let bucket = RemoteBucket::attach(&through).unwrap();
        through.bounds.try_timeout = Duration::from_secs(2);
        Self {
            bucket,
            hasty: RemoteBucket::attach(&through).unwrap(),
            direct: RemoteBucket::attach(&server.config("faults")).unwrap(),
            proxy,
            _server: server,
        }
    }

    /// Makes a call whose first try meets a fault; also returns how many tries there were.
    fn first<T>(&self, fault: Fault, call: impl FnOnce(&RemoteBucket) -> T) -> (T, u64) {
        self.at(0, fault, call)
    }

    /// Makes a call that meets a fault at the try of that number.
    fn at<T>(&self, number: u64, fault: Fault, call: impl FnOnce(&RemoteBucket) -> T) -> (T, u64) {
        self.meeting(Plan::none().at(number, fault), self.for_fault(fault), call)
    }

    /// Makes a call of which every try meets a fault.
    fn always<T>(&self, kind: CallKind, fault: Fault, call: impl FnOnce(&RemoteBucket) -> T) -> (T, u64) {
        self.meeting(Plan::none().on(kind, "", fault), self.for_fault(fault), call)
    }

    fn for_fault(&self, fault: Fault) -> &RemoteBucket {
        if matches!(fault, Fault::SilentBefore | Fault::SilentAfter) {
            &self.hasty
        } else {
            &self.bucket
        }
    }

    fn meeting<T>(
        &self,
        plan: Plan<Fault>,
        bucket: &RemoteBucket,
        call: impl FnOnce(&RemoteBucket) -> T,
    ) -> (T, u64) {
        self.proxy.set_plan(plan);
        let before = bucket.requests().counts().total();
        let came = call(bucket);
        (came, bucket.requests().counts().total() - before)
    }

    fn has(&self, key: &Key) -> Option<Vec<u8>> {
        self.direct.get(key).unwrap()
    }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn did_not_happen<T>(result: &Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::DidNotHappen(_)))
}

#[test]
fn a_put_that_meets_a_fault_is_created_or_exists_or_unknown_and_never_falsely_so() {
    let between = Between::new();
    let ours = b"ours".as_slice();
    let mut number = 0;
    let mut fresh = || {
        number += 1;
        key(&format!("puts/{number}"))
    };
    for fault in PASSING {
        let key = fresh();
        let came = between.first(*fault, |bucket| bucket.put_if_absent(&key, ours));
        assert_eq!(came, (Ok(Put::Created), 2), "{fault:?}");
        assert_eq!(between.has(&key).as_deref(), Some(ours), "{fault:?}");
    }
    for fault in HIDDEN {
        let key = fresh();
        let came = between.first(*fault, |bucket| bucket.put_if_absent(&key, ours));
        assert_eq!(came, (Ok(Put::Exists), 2), "{fault:?}: it may be ours");
        assert_eq!(between.has(&key).as_deref(), Some(ours), "{fault:?}: and is");
    }
    let key = fresh();
    let fault = Fault::AnswerAfter(412, "PreconditionFailed");
    let came = between.first(fault, |bucket| bucket.put_if_absent(&key, ours));
    assert_eq!(
        (came, between.has(&key).as_deref()),
        ((Ok(Put::Exists), 1), Some(ours))
    );
    for fault in [
        DENIED,
        NO_BUCKET,
        Fault::Answer(301, "PermanentRedirect"),
        Fault::Answer(501, "NotImplemented"),
    ] {
        let key = fresh();
        let (came, tries) = between.first(fault, |bucket| bucket.put_if_absent(&key, ours));
        assert!(
            did_not_happen(&came) && tries == 1,
            "{fault:?}: {came:?} after {tries}"
        );
        assert_eq!(between.has(&key), None, "{fault:?}");
    }
    let (came, tries) = between.first(Fault::Answer(403, ""), |bucket| {
        bucket.put_if_absent(&fresh(), ours)
    });
    let is_unknown = matches!(came, Err(Failure::Unknown(_)));
    assert!(
        is_unknown && tries == 1,
        "something in between refuses: {came:?} after {tries}"
    );
}

#[test]
fn a_put_that_meets_nothing_but_faults_is_unknown_and_one_of_another_is_told_from_ours() {
    let between = Between::new();
    for fault in [
        BROKEN,
        CONFLICT,
        THROTTLED,
        BROKEN_AFTER,
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::SilentBefore,
    ] {
        let key =
            key(&format!("lost/{fault:?}").replace(|c: char| !c.is_ascii_alphanumeric() && c != '/', "-"));
        let (came, tries) =
            between.always(CallKind::Put, fault, |bucket| bucket.put_if_absent(&key, b"ours"));
        assert!(
            matches!(came, Err(Failure::Unknown(_))) && tries == TRIES,
            "{fault:?}: {came:?} after {tries}"
        );
    }
    // A refusal after a try of which nobody knows says nothing of that try.
    let key = key("refused-then");
    let plan = Plan::none().at(0, Fault::CutAfter).at(1, DENIED);
    let (came, tries) = between.meeting(plan, &between.bucket, |bucket| {
        bucket.put_if_absent(&key, b"ours")
    });
    assert!(
        matches!(came, Err(Failure::Unknown(_))) && tries == 2,
        "{came:?} after {tries}"
    );
    assert_eq!(between.has(&key).as_deref(), Some(b"ours".as_slice()));
    let another = self::key("another");
    between.direct.put_if_absent(&another, b"theirs").unwrap();
    let came = between.first(Fault::CutBefore, |bucket| bucket.put_if_absent(&another, b"ours"));
    assert_eq!(came, (Ok(Put::Exists), 2));
    assert_eq!(between.has(&another).as_deref(), Some(b"theirs".as_slice()));
}

#[test]
fn a_read_that_meets_a_fault_brings_the_bytes_or_a_failure() {
    let between = Between::new();
    let key = key("read");
    let bytes: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    between.direct.put_if_absent(&key, &bytes).unwrap();
    let ranged = |bucket: &RemoteBucket| {
        let mut into = vec![0; 20_000];
        bucket.get_range(&key, 1_000, &mut into).map(|()| into)
    };
    let conditional = [Fault::Answer(412, "PreconditionFailed"), Fault::Answer(304, "")];
    let transient = PASSING.iter().chain(HIDDEN).chain(&conditional);
    for fault in transient.chain(&[Fault::HalfBody]) {
        let came = between.first(*fault, |bucket| bucket.get(&key));
        assert_eq!(came, (Ok(Some(bytes.clone())), 2), "{fault:?}");
        let came = between.first(*fault, ranged);
        assert_eq!(came, (Ok(bytes[1_000..21_000].to_vec()), 2), "{fault:?}");
        let came = between.first(*fault, |bucket| bucket.size(&key));
        assert_eq!(came, (Ok(Some(50_000)), 2), "{fault:?}");
        let came = between.first(*fault, |bucket| bucket.get_end(&key, 3_000));
        let end = bytes[47_000..].to_vec();
        assert_eq!(came, (Ok(Some((end, 50_000))), 2), "{fault:?}");
    }
    let came = between.first(Fault::ShortBody, ranged);
    assert_eq!(
        came,
        (Ok(bytes[1_000..21_000].to_vec()), 2),
        "a range says how long it is"
    );
    for fault in [
        DENIED,
        NO_BUCKET,
        Fault::Answer(400, "AuthorizationHeaderMalformed"),
        Fault::Answer(403, ""),
    ] {
        let (came, tries) = between.first(fault, |bucket| bucket.get(&key));
        assert!(
            did_not_happen(&came) && tries == 1,
            "{fault:?}: {came:?} after {tries}"
        );
        let (came, tries) = between.first(fault, ranged);
        assert!(
            did_not_happen(&came) && tries == 1,
            "{fault:?}: {came:?} after {tries}"
        );
    }
    for fault in [
        BROKEN,
        THROTTLED,
        Fault::CutAfter,
        Fault::SilentBefore,
        Fault::HalfBody,
    ] {
        let (came, tries) = between.always(CallKind::Get, fault, |bucket| bucket.get(&key));
        assert!(
            did_not_happen(&came) && tries == TRIES,
            "{fault:?}: {came:?} after {tries}"
        );
    }
    let came = between.first(Fault::OtherBody, |bucket| bucket.get(&key));
    let other = bytes.iter().map(|byte| !byte).collect();
    assert_eq!(came, (Ok(Some(other)), 1), "digests tell, above");
}

#[test]
fn a_listing_that_meets_a_fault_is_whole_or_a_failure() {
    let between = Between::new();
    let keys: Vec<Key> = (0..1_500)
        .map(|number| key(&format!("listed/{number:04}")))
        .collect();
    for key in &keys {
        between.direct.put_if_absent(key, b"x").unwrap();
    }
    let list = |bucket: &RemoteBucket| bucket.list("listed/");
    let bodies = [Fault::HalfBody, Fault::ShortBody, Fault::OtherBody];
    for fault in PASSING.iter().chain(HIDDEN).chain(&bodies) {
        for page in 0..2 {
            let (came, requests) = between.at(page, *fault, list);
            assert!(
                came == Ok(keys.clone()) && requests == 3,
                "{fault:?} at page {page}: {requests} requests"
            );
        }
    }
    for fault in [DENIED, NO_BUCKET, Fault::Answer(404, "NoSuchKey")] {
        let (came, tries) = between.first(fault, list);
        assert!(
            did_not_happen(&came) && tries == 1,
            "{fault:?}: {came:?} after {tries}"
        );
    }
    let (came, tries) = between.always(CallKind::List, Fault::OtherBody, list);
    assert!(did_not_happen(&came) && tries == TRIES, "{came:?} after {tries}");
}

#[test]
fn a_deletion_that_meets_a_fault_is_made_or_unknown() {
    let between = Between::new();
    let key = key("deleted");
    let delete = |bucket: &RemoteBucket| bucket.delete(&key);
    for fault in PASSING.iter().chain(HIDDEN) {
        between.direct.put_if_absent(&key, b"x").unwrap();
        assert_eq!(between.first(*fault, delete), (Ok(()), 2), "{fault:?}");
        assert_eq!(between.has(&key), None, "{fault:?}");
    }
    between.direct.put_if_absent(&key, b"x").unwrap();
    let (came, tries) = between.first(DENIED, delete);
    assert!(did_not_happen(&came) && tries == 1, "{came:?} after {tries}");
    let (came, tries) = between.always(CallKind::Delete, BROKEN, delete);
    assert!(
        matches!(came, Err(Failure::Unknown(_))) && tries == TRIES,
        "{came:?} after {tries}"
    );
    assert!(between.has(&key).is_some());
}

#[test]
fn a_store_that_was_silent_is_used_again_when_it_heals() {
    let between = Between::new();
    let key = key("healed");
    for kind in [CallKind::Put, CallKind::Get] {
        let plan = [CallKind::Put, CallKind::Get, CallKind::List, CallKind::Delete]
            .into_iter()
            .fold(Plan::none(), |plan, kind| plan.on(kind, "", Fault::SilentBefore));
        let (came, tries) = between.meeting(plan, &between.hasty, |bucket| {
            if kind == CallKind::Put {
                bucket.put_if_absent(&key, b"x").map(|_| ())
            } else {
                bucket.get(&key).map(|_| ())
            }
        });
        assert!(came.is_err() && tries == TRIES, "{came:?}");
    }
    let (came, _) = between.meeting(Plan::none(), &between.hasty, |bucket| {
        bucket.put_if_absent(&key, b"x")
    });
    assert_eq!(came, Ok(Put::Created));
}

#[test]
fn in_a_storm_of_faults_writers_are_told_the_truth() {
    // Of those who race here, one wins.
    let between = Between::before(Server::seaweedfs());
    let kinds = [
        BROKEN,
        BUSY,
        CONFLICT,
        BROKEN_AFTER,
        CONFLICT_AFTER,
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::AnswerAfter(412, "PreconditionFailed"),
    ];
    between.proxy.set_plan(Plan::none().at_random(11, 2, &kinds));
    let keys: Vec<Key> = (0..40).map(|number| key(&format!("storm/{number}"))).collect();
    let body = |writer: usize, key: &Key| format!("{key} by {writer}").into_bytes();
    let told: Vec<Vec<Result<Put, Failure>>> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (keys, bucket) = (&keys, &between.bucket);
                threads.spawn(move || {
                    let put = |key: &Key| bucket.put_if_absent(key, &body(writer, key));
                    keys.iter().map(put).collect()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut seen = std::collections::BTreeSet::new();
    for (number, key) in keys.iter().enumerate() {
        let found = between.has(key);
        for (writer, told) in told.iter().enumerate() {
            let is_ours = found.as_ref() == Some(&body(writer, key));
            let (name, is_true) = match &told[number] {
                Ok(Put::Created) => ("created", is_ours),
                Ok(Put::Exists) => ("exists", found.is_some()),
                Err(Failure::Unknown(_)) => ("unknown", true),
                Err(_) => ("failed", !is_ours),
            };
            assert!(
                is_true,
                "writer {writer} of {key} was told {:?}; there is {found:?}",
                told[number]
            );
            seen.insert(name);
        }
    }
    assert!(
        seen.is_superset(&["created", "exists", "unknown"].into()),
        "the storm was one: {seen:?}"
    );
}
