//! A machine that has nothing yet reads a drive on S3, and one that has read it before.

use crate::drives::Bucket;
use crate::home::{Home, text, until};
use crate::servers::Server;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure_store::proxy::{Delays, Proxy};

const FILES: usize = 800;
const DIRECTORIES: usize = 20;

/// A drive of small files in a far bucket, and a machine that knows nothing of it.
struct Far {
    home: Home,
    bucket: Bucket,
    proxy: Proxy,
    _store: Server,
}

fn file(number: usize) -> (String, String) {
    let contents = format!("{number} {}", "x".repeat(number * 37 % 9_000));
    (format!("d{}/f{number}", number % DIRECTORIES), contents)
}

impl Far {
    fn new() -> Option<Self> {
        let home = Home::new()?;
        let store = Server::seaweedfs();
        let proxy = Proxy::start(&store.address).unwrap();
        let bucket = Bucket::at(&home, proxy.endpoint(), "far");
        let dir = home.mount("work", "m", &[&bucket.named()[..], &["--create"]].concat());
        for number in 0..DIRECTORIES {
            fs::create_dir(dir.join(format!("d{number}"))).unwrap();
        }
        for (name, contents) in (0..FILES).map(file) {
            fs::write(dir.join(name), contents).unwrap();
        }
        let far = Self {
            home,
            bucket,
            proxy,
            _store: store,
        };
        far.unmount(&dir);
        far.forget();
        far.proxy.set_delays(Delays {
            put: Duration::from_millis(30),
            get: Duration::from_millis(15),
        });
        Some(far)
    }

    fn mount(&self, more: &[&str]) -> PathBuf {
        self.home
            .mount("work", "m", &[&self.bucket.named()[..], more].concat())
    }

    fn unmount(&self, dir: &Path) {
        self.home.done(&["unmount", text(dir)]);
    }

    fn cache(&self) -> PathBuf {
        self.home.tokens().with_file_name("cache").join("tenure")
    }

    /// Takes all that was kept from the machine.
    fn forget(&self) {
        fs::remove_dir_all(self.cache().join("packs")).unwrap();
    }

    fn gets(&self) -> u64 {
        self.proxy.requests().counts().gets
    }

    fn cached(&self, dir: &Path) -> Value {
        self.home.status(dir)["cache"].clone()
    }
}

fn read_all(dir: &Path) {
    for (name, contents) in (0..FILES).map(file) {
        assert!(fs::read_to_string(dir.join(&name)).unwrap() == contents, "{name}");
    }
}

/// Nothing but what the mount before has written when it ended, which nobody had read yet.
fn has_fetched_nothing(cache: &Value) {
    assert!(
        cache["fetched"].as_u64() < Some(10_000) && cache["reads"].as_u64() > Some(100),
        "{cache}"
    );
}

/// What a machine has read of a bucket, none of its mounts and servers reads of it again; without that all is right, too.
#[test]
fn small_files_come_with_their_neighbours_and_a_second_mount_reads_nothing_twice() {
    let Some(far) = Far::new() else { return };
    let dir = far.mount(&[]);
    let before = far.gets();
    read_all(&dir);
    let made = far.gets() - before;
    // An owner in use asks once a second whether it still is one.
    assert!(made < 60, "{made} requests for {FILES} files");
    let first = far.cached(&dir);
    assert!(first["bytes"].as_u64() > Some(3_000_000), "{first}");
    far.unmount(&dir);
    let dir = far.mount(&[]);
    read_all(&dir);
    has_fetched_nothing(&far.cached(&dir));
    let shown = far.home.done(&["status", text(&dir)]);
    assert!(shown.contains("reads found all there"), "{shown}");
    far.forget();
    far.unmount(&dir);
    let dir = far.mount(&["--cache-size", "0"]);
    read_all(&dir);
    assert_eq!(far.cached(&dir)["dir"], Value::Null);
    assert!(!far.cache().join("packs").exists());
    far.unmount(&dir);
}

/// A client of a server keeps what it reads as well, and verifies it itself.
#[test]
fn mounts_through_a_server_read_nothing_twice_either() {
    let Some(far) = Far::new() else { return };
    let token = far.home.token("ada", &[]);
    let server = far.home.serve_at(
        "127.0.0.1:0",
        &[&far.bucket.named()[..], &["--cache-size", "0"]].concat(),
    );
    let there = ["--server", &server.address, "--token-file", text(&token)];
    let dir = far.home.mount("work", "m", &there);
    read_all(&dir);
    let first = far.cached(&dir);
    assert!(first["fetched"].as_u64() > Some(3_000_000), "{first}");
    far.unmount(&dir);
    let dir = far.home.mount("work", "m", &there);
    read_all(&dir);
    has_fetched_nothing(&far.cached(&dir));
    far.unmount(&dir);
}

/// `--warm` brings a directory, or what the last mounts have read first; reading it then fetches nothing.
#[test]
fn what_is_warmed_is_there_before_it_is_read() {
    let Some(far) = Far::new() else { return };
    let brought = |dir: &Path| {
        until("it is brought", || {
            far.home.status(dir)["warm"]["is_over"] == true
        });
        far.home.status(dir)["warm"].clone()
    };
    let fetched = |dir: &Path| far.cached(dir)["fetched"].clone();
    let read = |dir: &Path| {
        for (name, contents) in (0..FILES).map(file).filter(|(name, _)| name.starts_with("d7/")) {
            assert!(fs::read_to_string(dir.join(&name)).unwrap() == contents, "{name}");
        }
    };
    let dir = far.mount(&["--warm=d7,nowhere"]);
    let warm = brought(&dir);
    assert_eq!(warm["done"], 1 + FILES / DIRECTORIES, "{warm}");
    let before = fetched(&dir);
    read(&dir);
    assert_eq!(fetched(&dir), before);
    let shown = far.home.done(&["status", text(&dir)]);
    assert!(shown.contains("d7, nowhere brought: 41 of 41"), "{shown}");
    far.unmount(&dir);
    far.forget();

    let dir = far.mount(&["--warm"]);
    let warm = brought(&dir);
    assert!(warm["done"].as_u64() >= Some(40), "{warm}");
    let before = fetched(&dir);
    read(&dir);
    assert_eq!(fetched(&dir), before);
    far.unmount(&dir);
}

/// A deep check reads packs by long ranges, and from the bucket, whatever is kept of them.
#[test]
fn a_deep_check_asks_for_no_chunk_alone() {
    let Some(far) = Far::new() else { return };
    let before = far.gets();
    let check = [&["check", "work", "--deep"][..], &far.bucket.named()].concat();
    assert!(far.home.done(&check).contains("to the last byte"));
    let made = far.gets() - before;
    assert!(made < 120, "{made} requests for {FILES} files");
}
