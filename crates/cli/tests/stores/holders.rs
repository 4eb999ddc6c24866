//! Holders that are killed while they sync, many at once over one store.

use crate::drives::Bucket;
use crate::home::{Home, text, until};
use crate::servers::Server;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Holders that are killed, each of a branch of its own.
const HOLDERS: u64 = 25;

fn contents(holder: u64, number: u64) -> Vec<u8> {
    format!("file {number} of holder {holder}\n")
        .repeat(100)
        .into_bytes()
}

/// Makes and syncs files until that fails; counts those that are acknowledged.
fn write(dir: &Path, holder: u64, acknowledged: &AtomicU64) -> io::Result<()> {
    loop {
        let number = acknowledged.load(Ordering::Relaxed);
        let mut file = File::create_new(dir.join(number.to_string()))?;
        file.write_all(&contents(holder, number))?;
        file.sync_all()?;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// Kills a holder while it syncs, and looks for what it was told is durable on the mount of another machine, which has the branch once
/// the lease of the first is over.
fn trial(home: &Home, there: &[&str], holder: u64) {
    let what = format!("work@branch-{holder}");
    let dir = home.mount(&what, &format!("m-{holder}"), there);
    let (process, acknowledged) = (home.process(&dir), AtomicU64::new(0));
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&dir, holder, &acknowledged));
        // Each is killed after another number of syncs, somewhere within the next.
        until("enough is synced", || {
            acknowledged.load(Ordering::Relaxed) > holder
        });
        kill_process(process, Signal::KILL).unwrap();
        writing
            .join()
            .unwrap()
            .expect_err("a mount whose process was killed takes nothing");
    });
    let next = home.folder.path().join(format!("n-{holder}"));
    fs::create_dir(&next).unwrap();
    let mount = [&["mount", &what, text(&next)][..], there].concat();
    let output = home.command_elsewhere(&mount).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for number in 0..acknowledged.into_inner() {
        let found = fs::read(next.join(number.to_string())).unwrap();
        assert_eq!(
            found,
            contents(holder, number),
            "file {number} of holder {holder}"
        );
    }
    home.take_away(&dir);
    home.done(&["unmount", text(&next)]);
}

/// Of holders that are killed while they sync, each branch is had once the lease is over, with every file that was acknowledged.
#[test]
fn no_acknowledged_sync_of_twenty_five_killed_holders_is_lost() {
    let Some(home) = Home::new() else { return };
    let store = Server::seaweedfs();
    let bucket = Bucket::of(&home, &store, "holders");
    let token = home.token("ada", &[]);
    home.done(&[&["drive", "create", "work"][..], &bucket.named()].concat());
    let server = home.serve_at("127.0.0.1:0", &bucket.named());
    let there = ["--server", &server.address, "--token-file", text(&token)];
    for holder in 0..HOLDERS {
        home.done(&[&["fork", "work", &format!("branch-{holder}")][..], &there].concat());
    }
    thread::scope(|scope| {
        for holder in 0..HOLDERS {
            let (home, there) = (&home, &there[..]);
            scope.spawn(move || trial(home, there, holder));
        }
    });
    assert!(
        home.done(&[&["check", "work", "--deep"][..], &there].concat())
            .contains("whole")
    );
}
