//! Mounts and commands that reach their drives over the network: what they find, and how they go on when servers and
//! connections end.

use crate::home::{Home, Server, pause, sync, text, until};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a client of a server needs.
struct Client {
    token: PathBuf,
}

impl Client {
    fn new(home: &Home) -> Self {
        Client {
            token: home.token("ada", &[]),
        }
    }

    fn at<'a>(&'a self, address: &'a str) -> [&'a str; 4] {
        ["--server", address, "--token-file", text(&self.token)]
    }
}

fn save(dir: &Path, name: &str, contents: &str) {
    fs::write(dir.join(name), contents).expect("there is room");
    sync(&dir.join(name));
}

fn holds(dir: &Path, name: &str, contents: &str) {
    assert_eq!(
        fs::read_to_string(dir.join(name)).expect("it was synced"),
        contents
    );
}

/// Everything that is asked about drives is asked over the network as it is on the server's own machine.
#[test]
fn every_command_about_drives_reaches_them_over_the_network() {
    let home = Home::unmounted();
    let client = Client::new(&home);
    home.done(&["drive", "create", "first"]);
    for listen in ["127.0.0.1:0", "http://127.0.0.1:0"] {
        let server = home.serve_at(listen, &[]);
        let there = client.at(&server.address);
        let on = |arguments: &[&str]| home.done(&[arguments, &there].concat());
        assert_eq!(on(&["drive", "list"]), "first\n");
        on(&["drive", "create", "work"]);
        on(&["checkpoint", "work", "begun"]);
        on(&["fork", "work@begun", "attempt"]);
        let lines = on(&["branch", "list", "work"]);
        assert!(lines.contains("begun") && lines.contains("attempt"), "{lines}");
        on(&["branch", "delete", "work", "attempt", "--yes"]);
        let shown: serde_json::Value =
            serde_json::from_str(&on(&["drive", "show", "work", "--json"])).expect("it is JSON");
        assert_eq!(shown["owner_pid"], server.process().as_raw_nonzero().get());
        assert!(on(&["check", "work", "--deep"]).contains("whole"));
        on(&["drive", "delete", "work", "--yes"]);
        assert_eq!(on(&["drive", "list"]), "first\n");
        // The environment says the same as the options.
        let output = home
            .command(&["drive", "list"])
            .env("TENURE_SERVER", format!("unix:/nowhere,{}", server.address))
            .env(
                "TENURE_TOKEN",
                fs::read_to_string(&client.token).expect("it is there").trim(),
            )
            .output()
            .expect("the program starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "first\n", "{output:?}");
    }
}

/// Guarantee 14: the server of a mount is killed and started again, and nothing that the mount was told is lost.
#[test]
fn a_mount_over_the_network_goes_on_with_a_server_that_was_killed_and_started_again() {
    let Some(home) = Home::new() else { return };
    let client = Client::new(&home);
    home.done(&["drive", "create", "work"]);
    let mut server = home.serve_at("127.0.0.1:0", &[]);
    let address = server.address.clone();
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let token = client
        .token
        .file_name()
        .and_then(|name| name.to_str())
        .expect("it has a name");
    let mounted = home
        .command(&[
            "mount",
            "work",
            text(&dir),
            "--server",
            &address,
            "--token-file",
            token,
        ])
        .current_dir(home.folder.path())
        .status();
    assert!(
        mounted.is_ok_and(|status| status.success()),
        "a token may be named from where one is"
    );
    assert_eq!(home.status(&dir)["server"], address);
    for round in 0..3 {
        let (before, during) = (format!("before-{round}"), format!("during-{round}"));
        save(&dir, &before, "synced");
        server.kill();
        fs::write(dir.join(&during), "written meanwhile").expect("the branch is lent whole");
        let waits = dir.join(&during);
        let waiting = std::thread::spawn(move || sync(&waits));
        pause(Duration::from_millis(300));
        assert!(!waiting.is_finished(), "nothing is durable that no server has");
        server = home.serve_at(&address, &[]);
        waiting.join().expect("it is durable once there is a server");
    }
    kill_process(home.process(&dir), Signal::KILL).expect("it is there");
    home.take_away(&dir);
    server.kill();
    let dir = home.mount("work", "m", &[]);
    for round in 0..3 {
        holds(&dir, &format!("before-{round}"), "synced");
        holds(&dir, &format!("during-{round}"), "written meanwhile");
    }
    home.done(&["unmount", text(&dir)]);
    assert!(home.done(&["check", "work", "--deep"]).contains("whole"));
}

/// A way to a server that can be cut.
struct Way {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
    is_closed: Arc<AtomicBool>,
}

impl Way {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let port = listener.local_addr().expect("it is bound").port();
        let there = server.strip_prefix("https://").expect("it has TLS").to_owned();
        let way = Way {
            address: format!("https://127.0.0.1:{port}"),
            open: Arc::default(),
            is_closed: Arc::default(),
        };
        let (open, is_closed) = (way.open.clone(), way.is_closed.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(&there) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let clone = |stream: &TcpStream| stream.try_clone().expect("there are descriptors");
                    let (from, to) = (clone(from), clone(to));
                    std::thread::spawn(move || carry(from, to));
                }
                open.lock().expect("nobody panics").extend([near, far]);
            }
        });
        way
    }

    fn cut(&self) {
        for stream in self.open.lock().expect("nobody panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::SeqCst);
        self.cut();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(len) if to.write_all(&bytes[..len]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Connections that are cut again and again, also for a while, are no more than a pause.
#[test]
fn a_mount_whose_connections_are_cut_notices_no_more_than_a_pause() {
    let Some(home) = Home::new() else { return };
    let client = Client::new(&home);
    home.done(&["drive", "create", "work"]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let way = Way::to(&server.address);
    let dir = home.mount("work", "m", &client.at(&way.address));
    let is_done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..200 {
                save(&dir, &format!("file-{number}"), &format!("contents of {number}"));
            }
            is_done.store(true, Ordering::SeqCst);
        });
        while !is_done.load(Ordering::SeqCst) {
            way.cut();
            pause(Duration::from_millis(30));
        }
        writer.join().expect("every sync is answered");
    });
    fs::write(dir.join("big"), vec![7; 8 << 20]).expect("there is room");
    way.close(true);
    let waits = dir.join("big");
    let waiting = std::thread::spawn(move || sync(&waits));
    pause(Duration::from_millis(500));
    assert!(!waiting.is_finished());
    way.close(false);
    waiting.join().expect("the way is open again");
    home.done(&["unmount", text(&dir)]);
    let there = client.at(&server.address);
    assert!(
        home.done(&[&["check", "work", "--deep"][..], &there].concat())
            .contains("whole")
    );
    let dir = home.mount("work", "m", &there);
    (0..200).for_each(|number| holds(&dir, &format!("file-{number}"), &format!("contents of {number}")));
    assert_eq!(
        fs::read(dir.join("big")).expect("it was synced"),
        vec![7; 8 << 20]
    );
    home.done(&["unmount", text(&dir)]);
}

fn owner(home: &Home, dir: &Path) -> i64 {
    home.status(dir)["owner_pid"].as_i64().unwrap_or_default()
}

fn pid(server: &Server) -> i64 {
    i64::from(server.process().as_raw_nonzero().get())
}

/// Any server of a bucket tells where the owner of a drive is, and takes the drive over when that has gone.
#[test]
fn a_client_of_any_server_is_sent_to_the_owner_and_goes_on_where_it_is_next() {
    let Some(home) = Home::new() else { return };
    let client = Client::new(&home);
    home.done(&["drive", "create", "work"]);
    let (first, second) = (
        home.serve_at("127.0.0.1:0", &[]),
        home.serve_at("127.0.0.1:0", &[]),
    );
    let there = client.at(&first.address);
    home.done(&[&["drive", "show", "work"][..], &there].concat());
    let dir = home.mount("work", "m", &client.at(&second.address));
    assert_eq!(owner(&home, &dir), pid(&first), "it was sent there");
    save(&dir, "before", "synced");
    first.kill();
    save(&dir, "after", "synced at the next");
    until("the other server owns it", || owner(&home, &dir) == pid(&second));
    holds(&dir, "before", "synced");
    home.done(&["unmount", text(&dir)]);
    let there = client.at(&second.address);
    assert!(
        home.done(&[&["check", "work", "--deep"][..], &there].concat())
            .contains("whole")
    );
}

/// A token that is taken away while somebody is there makes him wait, also who syncs, and loses nothing; another one in its place
/// counts at once.
#[test]
fn a_mount_whose_token_ends_waits_for_one_that_counts() {
    let Some(home) = Home::new() else { return };
    let client = Client::new(&home);
    home.done(&["drive", "create", "work"]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let dir = home.mount("work", "m", &client.at(&server.address));
    save(&dir, "before", "synced");
    let tokens = fs::read_to_string(home.tokens()).expect("it is there");
    fs::write(home.tokens(), tokens.replace("ada", "# ada")).expect("there is room");
    fs::write(dir.join("during"), "written meanwhile").expect("the branch is lent whole");
    until("the status says why it waits", || {
        fs::write(dir.join("again"), "and more").expect("the branch is lent whole");
        home.status(&dir)["trouble"]
            .as_str()
            .is_some_and(|trouble| trouble.contains("not known to this server"))
    });
    let again = fs::File::open(dir.join("again")).expect("it is there");
    let syncing = std::thread::spawn(move || again.sync_all());
    let asked = home.done(&["status", text(&dir)]);
    assert!(asked.contains("not known to this server"), "{asked}");
    assert!(!syncing.is_finished(), "it is tried again");
    // Another token for the same agent, which the mount finds in its file.
    let next = home.token("ada", &[]);
    assert_eq!(next, client.token);
    syncing.join().expect("it ends").expect("it waited for the token");
    until("it goes on by itself", || home.status(&dir)["trouble"].is_null());
    until("what waited is durable", || {
        home.status(&dir)["unsynced"]["ops"] == 0
    });
    sync(&dir.join("during"));
    home.done(&["unmount", text(&dir)]);
    let dir = home.mount("work", "m", &client.at(&server.address));
    holds(&dir, "before", "synced");
    holds(&dir, "during", "written meanwhile");
    holds(&dir, "again", "and more");
    home.done(&["unmount", text(&dir)]);
}

/// A token for some drives opens these, and neither others nor the list of them; sessions are known by its agent.
#[test]
fn a_token_for_one_drive_opens_no_other_and_names_its_agent() {
    let Some(home) = Home::new() else { return };
    let token = home.token("bob", &["--drives", "work"]);
    home.done(&["drive", "create", "work"]);
    home.done(&["drive", "create", "other"]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let there = ["--server", &server.address, "--token-file", text(&token)];
    let dir = home.mount("work", "m", &there);
    let lines = home.done(&[&["branch", "list", "work"][..], &there].concat());
    assert!(lines.contains("bob on "), "{lines}");
    for arguments in [
        &["branch", "list", "other"][..],
        &["drive", "list"],
        &["drive", "create", "new"],
        &["drive", "delete", "work", "--yes"],
    ] {
        let refused = home.refused(&[arguments, &there].concat());
        assert!(refused.contains("the token of bob"), "{refused}");
    }
    home.done(&["unmount", text(&dir)]);
}

/// A server that was given another bucket is not taken for the one from before: its drive of the same name is another.
#[test]
fn a_mount_is_not_deceived_by_a_server_with_another_bucket() {
    let Some(home) = Home::new() else { return };
    let client = Client::new(&home);
    let wrong = home.folder.path().join("wrong");
    home.done(&["drive", "create", "work"]);
    home.done(&["drive", "create", "work", "--bucket", text(&wrong)]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let address = server.address.clone();
    let dir = home.mount("work", "m", &client.at(&address));
    save(&dir, "before", "synced");
    server.kill();
    let server = home.serve_at(&address, &["--bucket", text(&wrong)]);
    fs::write(dir.join("during"), "written meanwhile").expect("the branch is lent whole");
    let root = fs::File::open(&dir).expect("it is there");
    let syncing = std::thread::spawn(move || root.sync_all());
    until("the status says what is wrong", || {
        let trouble = home.status(&dir)["trouble"].clone();
        trouble
            .as_str()
            .is_some_and(|trouble| trouble.contains("another drive"))
    });
    assert!(!syncing.is_finished(), "nothing is durable there");
    server.kill();
    let _server = home.serve_at(&address, &[]);
    let synced = syncing.join().expect("it ends");
    synced.expect("it goes on with the right one");
    home.done(&["unmount", text(&dir)]);
    let dir = home.mount("work", "m", &client.at(&address));
    holds(&dir, "during", "written meanwhile");
    home.done(&["unmount", text(&dir)]);
    let other = home.done(&["branch", "list", "work", "--bucket", text(&wrong), "--json"]);
    assert!(other.contains("\"inodes\": 1"), "nothing came there: {other}");
}
