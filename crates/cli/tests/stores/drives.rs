//! A drive in a bucket on S3, from the command line.

use crate::home::{Home, Stopped, sync, text, until};
use crate::servers::Server;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEYS: &str = "[default]\naws_access_key_id = S3RVER\naws_secret_access_key = S3RVER\n";

/// How commands are told of a bucket.
pub(crate) struct Bucket {
    url: String,
    endpoint: String,
    keys: PathBuf,
}

impl Bucket {
    pub(crate) fn of(home: &Home, server: &Server, prefix: &str) -> Self {
        Self::at(home, format!("http://{}", server.address), prefix)
    }

    pub(crate) fn at(home: &Home, endpoint: String, prefix: &str) -> Self {
        Bucket {
            url: format!("s3://tenure/{prefix}"),
            endpoint,
            keys: home.secret("keys", KEYS),
        }
    }

    pub(crate) fn named(&self) -> Vec<&str> {
        let named = [
            "--bucket",
            &self.url,
            "--endpoint",
            &self.endpoint,
            "--region",
            "us-east-1",
            "--keys",
        ];
        named.into_iter().chain([text(&self.keys)]).collect()
    }
}

fn save(dir: &Path, name: &str, contents: &str) {
    fs::write(dir.join(name), contents).unwrap();
    sync(&dir.join(name));
}

fn holds(dir: &Path, name: &str, contents: &str) {
    assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), contents);
}

/// Mounts go on when the server of their drive is killed and another serves the same bucket; everything that was synced is in
/// the bucket alone.
#[test]
fn a_drive_on_s3_outlives_its_servers_its_mounts_and_their_machines() {
    let Some(home) = Home::new() else { return };
    let store = Server::seaweedfs();
    let bucket = Bucket::of(&home, &store, "one");
    let token = home.token("ada", &[]);
    home.done(&[&["drive", "create", "work"][..], &bucket.named()].concat());
    let first = home.serve_at("127.0.0.1:0", &bucket.named());
    let second = home.serve_at("127.0.0.1:0", &bucket.named());
    let at_first = ["--server", &first.address, "--token-file", text(&token)];
    home.done(&[&["drive", "show", "work"][..], &at_first].concat());
    let there = ["--server", &second.address, "--token-file", text(&token)];
    let dir = home.mount("work", "m", &there);
    assert_eq!(home.status(&dir)["tier"], "bucket");
    let owner = |dir: &Path| home.status(dir)["owner_pid"].as_i64().unwrap_or_default();
    let pid = |process: rustix::process::Pid| i64::from(process.as_raw_nonzero().get());
    assert_eq!(
        owner(&dir),
        pid(first.process()),
        "the second has asked it, and sent the mount there"
    );
    save(&dir, "before", "synced at the first");
    fs::write(dir.join("big"), vec![7; 12 << 20]).unwrap();
    sync(&dir.join("big"));
    first.kill();
    save(&dir, "after", "synced at the second");
    until("the second owns it", || owner(&dir) == pid(second.process()));
    let check = [&["check", "work", "--deep"][..], &there].concat();
    assert!(home.done(&check).contains("whole"));
    for arguments in [&["check", "work"][..], &["drive", "delete", "work", "--yes"]] {
        let told = home.refused(&[arguments, &bucket.named()].concat());
        assert!(
            told.contains(&second.address),
            "a server that answers is not deposed: {told}"
        );
    }
    kill_process(home.process(&dir), Signal::KILL).unwrap();
    home.take_away(&dir);
    second.kill();

    // Another machine, which has nothing but the bucket's name.
    let other = Home::new().unwrap();
    let bucket = Bucket::of(&other, &store, "one");
    let dir = other.mount("work", "m", &bucket.named());
    holds(&dir, "before", "synced at the first");
    holds(&dir, "after", "synced at the second");
    assert_eq!(fs::read(dir.join("big")).unwrap(), vec![7; 12 << 20]);
    save(&dir, "elsewhere", "without a server");
    other.done(&["unmount", text(&dir)]);
    let check = [&["check", "work", "--deep"][..], &bucket.named()].concat();
    assert!(other.done(&check).contains("whole"));
    assert_eq!(
        other.done(&[&["drive", "list"][..], &bucket.named()].concat()),
        "work\n"
    );
}

/// An owner that is stopped, and so keeps its connections, is left for another server within seconds.
#[test]
fn a_stopped_owner_is_left_for_another_server() {
    let Some(home) = Home::new() else { return };
    let store = Server::seaweedfs();
    let bucket = Bucket::of(&home, &store, "stopped");
    let token = home.token("ada", &[]);
    home.done(&[&["drive", "create", "work"][..], &bucket.named()].concat());
    let first = home.serve_at("127.0.0.1:0", &bucket.named());
    let second = home.serve_at("127.0.0.1:0", &bucket.named());
    let both = format!("{},{}", first.address, second.address);
    let dir = home.mount("work", "m", &["--server", &both, "--token-file", text(&token)]);
    save(&dir, "before", "synced at the first");
    let now = |name: &str| {
        save(&dir, name, "");
        fs::metadata(dir.join(name)).unwrap().modified().unwrap()
    };
    let began = now("began");
    let stopped = Stopped::new(first.process());
    save(&dir, "after", "synced at the second");
    let took = now("ended").duration_since(began).unwrap();
    // To notice, 2 s at most; to ask it, a second; to take over, some 2 s; and what a machine that does other things takes.
    assert!(took < Duration::from_secs(9), "{took:?}");
    drop(stopped);
    let owner = home.status(&dir)["owner_pid"].as_i64();
    assert_eq!(owner, Some(i64::from(second.process().as_raw_nonzero().get())));
    holds(&dir, "before", "synced at the first");
    home.done(&["unmount", text(&dir)]);
}

/// A store that does not keep conditional puts is refused by name, when a bucket is made there and when one is served.
#[test]
fn a_store_that_ignores_conditions_is_refused_by_name() {
    let home = Home::unmounted();
    home.token("ada", &[]);
    let store = Server::rclone();
    let bucket = Bucket::of(&home, &store, "refused");
    let create = [&["drive", "create", "work"][..], &bucket.named()].concat();
    let said = home.refused(&create);
    assert!(
        said.contains("cannot hold drives") && said.contains(&store.address),
        "{said}"
    );
    let none = home.refused(&[&["drive", "list"][..], &bucket.named()].concat());
    assert!(none.contains("is not a bucket"), "nothing was left there: {none}");
    let tokens = home.tokens();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tokens", text(&tokens)];
    assert!(
        home.refused(&[&serve[..], &bucket.named()].concat())
            .contains("is not a bucket")
    );
}

/// A bucket that holds something else is left alone.
#[test]
fn a_bucket_of_another_product_is_left_alone() {
    let home = Home::unmounted();
    let store = Server::moto();
    let bucket = Bucket::of(&home, &store, "");
    let other = tenure_store::RemoteBucket::attach(&store.config("")).unwrap();
    let key = tenure_store::Key::parse("a-report").unwrap();
    tenure_store::Bucket::put_if_absent(&other, &key, b"of another product").unwrap();
    let said = home.refused(&[&["drive", "create", "work"][..], &bucket.named()].concat());
    assert!(
        said.contains("holds other things") && said.contains("a-prefix-of-its-own"),
        "{said}"
    );
    assert_eq!(tenure_store::Bucket::list(&other, "").unwrap(), [key]);
}
