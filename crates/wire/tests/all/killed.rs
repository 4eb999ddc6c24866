//! Processes that are killed: an owner in the middle of calls, and a client that leaves a session behind.

use crate::calls::ship;
use crate::carrier::served;
use crate::fake::{Fake, LONG, dialling, greeting, limits, owner, patience, serve_at};
use crate::samples::{batch, chunk, who};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tenure_model::{Failure, SessionId};
use tenure_wire::{Connection, Error, Patience};

/// Says what this program does as a child, and at which socket.
const ROLE: &str = "TENURE_WIRE_TEST_ROLE";

/// A child that does something at a socket until it is killed.
struct Other(Child);

impl Other {
    /// Starts a child, and returns once it says that it is ready.
    fn start(role: &str, path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["killed::child", "--exact", "--nocapture"])
            .env(ROLE, format!("{role}:{}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("ready"));
        assert!(ready, "the child has ended before it was ready");
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test of its own: what the children of the others do.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, path) = role.split_once(':').expect("both are there");
    let path = PathBuf::from(path);
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    match role {
        "owner" => {
            let fake = Arc::new(Fake::default());
            kept.push(Box::new(serve_at(&path, fake, limits())));
        }
        "stuck owner" => {
            let fake = Arc::new(Fake::default());
            ["ship", "place", "page", "fork"]
                .into_iter()
                .for_each(|kind| fake.hold(kind));
            kept.push(Box::new(serve_at(&path, fake, limits())));
        }
        "client" => {
            let connection =
                Connection::reach(dialling(&path), greeting(), patience()).expect("somebody answers");
            owner(&connection).open(&who()).expect("it is opened");
            kept.push(Box::new(connection));
        }
        other => panic!("there is no role {other}"),
    }
    println!("ready");
    // Until it is killed, or its parent has gone.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn calls_to_an_owner_that_is_killed_go_to_the_next_one_or_say_that_they_are_unknown() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let path = directory.path().join("socket");
    let mut first = Other::start("stuck owner", &path);
    // Another process takes a while to start.
    let patience = Patience {
        redials_max: 60_000,
        ..patience()
    };
    let connection = Connection::reach(dialling(&path), greeting(), patience).expect("somebody answers");
    let session = owner(&connection).open(&who()).expect("it is opened").session;
    let long = vec![5; 3 << 20];
    let chunks: Vec<_> = long.chunks(1 << 20).map(chunk).collect();
    std::thread::scope(|scope| {
        let shipped = scope.spawn(|| ship(owner(&connection), batch(session, 1)));
        let placed = scope.spawn(|| owner(&connection).place(session, &chunks));
        let forked = scope.spawn(|| {
            let from = tenure_model::record::Source::Branch(tenure_model::BranchId(1));
            owner(&connection).fork(&tenure_wire::ForkAsk::new(from, crate::samples::branch("try")))
        });
        // An answer from the owner says that what was sent before over the same socket was read, if not done.
        owner(&connection).room().expect("it is not held");
        first.kill();
        let _second = Other::start("owner", &path);
        // The next owner is a new one, which knows no session: what it refuses it was asked.
        assert!(matches!(
            shipped.join().expect("it is told"),
            Err(Error::Refused(_))
        ));
        assert!(matches!(
            placed.join().expect("it is told"),
            Err(Error::Refused(_))
        ));
        let forked = forked.join().expect("it is told");
        assert!(
            matches!(forked, Ok(_) | Err(Error::Failed(Failure::Unknown(_)))),
            "{forked:?}"
        );
        assert!(owner(&connection).page(crate::samples::address(1)).is_ok());
    });
}

#[test]
fn the_session_of_a_client_that_is_killed_is_closed_without_waiting_for_the_grace() {
    let served = served(limits());
    let mut client = Other::start("client", served.path());
    assert_eq!(served.fake.open_sessions(), [SessionId(1)]);
    client.kill();
    // The grace is as long as this test may take in all.
    served.fake.wait_for("close 1", 1);
    assert!(LONG >= limits().grace);
}
