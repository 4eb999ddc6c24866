//! Paths of sockets, and who may speak over them.

use crate::bytes::framed;
use crate::carrier::served;
use crate::fake::{LONG, limits};
use crate::samples::hello;
use rustix::process::{Uid, geteuid};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tenure_model::{Failure, Refusal};
use tenure_wire::Error;
use tenure_wire::frame::FrameReader;
use tenure_wire::message::Welcome;
use tenure_wire::unix::{dial, listen, listener, socket_path};

#[test]
fn the_path_of_a_socket_is_short_however_long_the_place_is() {
    let runtime = Path::new("/run/user/1000/tenure");
    let long = socket_path(runtime, &[b'x'; 4000]);
    let other = socket_path(runtime, &[b'x'; 4001]);
    assert!(long.as_os_str().len() < 60 && long.starts_with(runtime));
    assert_ne!(long, other);
    assert_eq!(long, socket_path(runtime, &[b'x'; 4000]));
}

#[test]
fn a_socket_is_listened_at_and_found_however_long_its_path_is() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let deep = directory.path().join("y".repeat(150)).join("z".repeat(150));
    let path = socket_path(&deep, b"place");
    let nobody = dial(&path, LONG).map(drop);
    assert!(
        matches!(nobody, Err(Error::Failed(Failure::DidNotHappen(_)))),
        "{nobody:?}"
    );
    std::fs::create_dir_all(&deep).expect("there is room");
    drop(listen(&path).expect("the path is free"));
    assert_eq!(listener(&path), None);
    let ours = listen(&path).expect("the one before has gone");
    dial(&path, LONG).expect("somebody listens");
    assert_eq!(listener(&path), Some(std::process::id()));
    let second = listen(&path).map(drop).expect_err("somebody listens");
    assert!(second.to_string().contains("listens at"), "{second}");
    drop(ours);
}

#[test]
fn a_name_that_no_socket_can_have_is_refused_in_words() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let long = directory.path().join("y".repeat(120));
    let because = |refused: Error| {
        let Error::Refused(Refusal::Because(why)) = refused else {
            panic!("{refused:?} is no refusal in words");
        };
        why
    };
    let refusals = [
        listen(&long).map(drop).expect_err("it is too long"),
        dial(&long, LONG).map(drop).expect_err("it is too long"),
    ];
    for why in refusals.map(because) {
        assert!(
            why.contains("at most 107") && why.contains("shorter name"),
            "{why}"
        );
    }
    let just_fits = directory
        .path()
        .join("z".repeat(107 - directory.path().as_os_str().as_bytes().len() - 1));
    listen(&just_fits).expect("it fits");
    dial(&just_fits, LONG)
        .map(drop)
        .expect_err("nobody listens any more");
}

#[test]
fn a_socket_that_nobody_listens_at_is_replaced_and_another_is_not() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let path = directory.path().join("socket");
    let nobody = dial(&path, LONG).map(drop);
    assert!(
        matches!(nobody, Err(Error::Failed(Failure::DidNotHappen(_)))),
        "{nobody:?}"
    );
    drop(listen(&path).expect("the path is free"));
    let nobody = dial(&path, LONG).map(drop);
    assert!(
        matches!(nobody, Err(Error::Failed(Failure::DidNotHappen(_)))),
        "{nobody:?}"
    );
    let listener = listen(&path).expect("the one before has gone");
    let second = listen(&path).map(drop);
    assert!(
        matches!(second, Err(Error::Refused(Refusal::Because(_)))),
        "{second:?}"
    );
    dial(&path, LONG).expect("the first listens still");
    let mode = std::fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(listener);
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let path = directory.path().join("precious");
    std::fs::write(&path, b"bytes").expect("there is room");
    // The kernel says of it what it says of a socket that nobody listens at: connection refused.
    let refused = listen(&path).map(drop);
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::Because(_)))),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&path).expect("it is there"), b"bytes");
}

#[test]
fn another_user_is_sent_away() {
    if !geteuid().is_root() {
        // Only root can come as somebody else; the rule itself is tried beside its code.
        return;
    }
    let served = served(limits());
    let open = |path: &Path, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).expect("it is ours");
    };
    open(served.path(), 0o666);
    open(served.path().parent().expect("it is in a directory"), 0o755);
    let path = served.path().to_owned();
    let stranger = std::thread::spawn(move || {
        // Of this thread alone.
        let uid = Uid::from_raw(12345);
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may become anybody");
        let mut stream = UnixStream::connect(path).expect("the socket is open to all");
        let _ = stream.write_all(&framed(&[&hello().written()]));
        let bytes = FrameReader::new(4096)
            .next(&mut &stream)
            .expect("it is a frame")
            .expect("there is an answer");
        Welcome::parse(&bytes).expect("it is an answer to a greeting")
    });
    let welcome = stranger.join().expect("it was answered");
    assert!(
        matches!(&welcome, Welcome::Refused(why) if why.contains("user 12345")),
        "{welcome:?}"
    );
    assert!(served.fake.begun().is_empty());
}
