//! Buckets of services that are named wrongly, or that answer what no bucket answers: refused within a bound, with what to do.

use crate::home::{Home, text};
use std::io::{Read, Write};
use std::net::TcpListener;

/// Listens, and gives everybody the same answer.
fn answering(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it is bound");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 16 << 10]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{at}")
}

fn error(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>in words</Message></Error>")
}

const KEYS: &str = "[default]\naws_access_key_id = someone\naws_secret_access_key = a-word\n";

/// Runs a command without AWS's own variables; returns its exit code and what it said.
fn say(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = home.command(arguments);
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ENDPOINT_URL",
        "AWS_PROFILE",
    ] {
        command.env_remove(name);
    }
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// Wrong keys, a bucket that is not there or elsewhere, one of another product, what is no service at all, and nobody.
#[test]
fn what_is_no_bucket_of_a_service_is_told_with_what_would_help() {
    let home = Home::unmounted();
    let keys = home.secret("keys", KEYS);
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("there are ports")
        .local_addr()
        .expect("it is bound");
    for (endpoint, code, parts) in [
        (
            answering("403 Forbidden", &error("InvalidAccessKeyId")),
            3,
            ["check the keys", "--keys FILE"],
        ),
        (
            answering("403 Forbidden", &error("SignatureDoesNotMatch")),
            3,
            ["check the keys", "--keys FILE"],
        ),
        (
            answering("400 Bad Request", &error("ExpiredToken")),
            3,
            ["the keys have ended", "--keys FILE"],
        ),
        (
            answering("403 Forbidden", &error("AccessDenied")),
            3,
            ["let these keys", "--keys FILE"],
        ),
        (
            answering("404 Not Found", &error("NoSuchBucket")),
            3,
            ["there is no such bucket", "--endpoint"],
        ),
        (
            answering("301 Moved", &error("PermanentRedirect")),
            3,
            ["is elsewhere", "--endpoint"],
        ),
        (
            answering("404 Not Found", &error("NoSuchKey")),
            1,
            ["is not a bucket", "tenure drive create NAME --bucket s3://b"],
        ),
        (
            answering("200 OK", "<html>welcome</html>"),
            1,
            ["cannot be read", "hint: "],
        ),
        (format!("http://{free}"), 3, ["Connection refused", "--endpoint"]),
        // An address of documentation (RFC 5737), which nobody has.
        (
            "http://192.0.2.1:8333".to_owned(),
            1,
            ["in the clear", "--unencrypted"],
        ),
        ("192.0.2.1:8333".to_owned(), 1, ["is no endpoint", "hint: "]),
        (
            "https://me:word@127.0.0.1".to_owned(),
            1,
            ["holds no user or password", "hint: "],
        ),
    ] {
        let of = [
            "--bucket",
            "s3://b",
            "--endpoint",
            &endpoint,
            "--keys",
            text(&keys),
        ];
        let (found, said) = say(&home, &[&["drive", "list"], &of[..]].concat());
        assert_eq!(found, Some(code), "{endpoint}: {said}");
        for part in parts {
            assert!(said.contains(part), "{endpoint}: {part} is not in {said}");
        }
        assert!(!said.contains("a-word") && !said.contains("me:word"), "{said}");
    }
    for bucket in ["s3://", "s3://a/../b", "s4://b", "s3://a b"] {
        let (code, said) = say(
            &home,
            &["drive", "list", "--bucket", bucket, "--keys", text(&keys)],
        );
        assert!(code == Some(1) && said.contains("hint: "), "{bucket}: {said}");
    }
}

/// A hint can be pasted: it reaches the same bucket the same way.
#[test]
fn a_hint_goes_the_way_that_was_gone() {
    let home = Home::unmounted();
    let keys = home.secret("keys", KEYS);
    let endpoint = answering("404 Not Found", &error("NoSuchKey"));
    let way = format!(
        "--bucket s3://b --endpoint {endpoint} --keys {} --unencrypted",
        text(&keys)
    );
    let list: Vec<_> = ["drive", "list"].into_iter().chain(way.split(' ')).collect();
    let (code, said) = say(&home, &list);
    assert!(
        code == Some(1) && said.contains(&format!("tenure drive create NAME {way} makes one")),
        "{said}"
    );
}

/// Who waits for a service that says nothing is told so before long.
#[test]
fn who_waits_for_a_silent_service_is_told_for_which() {
    let home = Home::unmounted();
    let keys = home.secret("keys", KEYS);
    // It takes connections, and reads nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let endpoint = format!("http://{}", silent.local_addr().expect("it is bound"));
    let list = [
        "drive",
        "list",
        "--bucket",
        "s3://b",
        "--endpoint",
        &endpoint,
        "--keys",
        text(&keys),
    ];
    let mut waits = home
        .command(&list)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = format!("note: still waiting for s3://b, which is looked for at {endpoint}\n");
    let mut told = vec![0; said.len()];
    let mut errors = waits.stderr.take().expect("it is piped");
    errors.read_exact(&mut told).expect("it says something");
    assert_eq!(String::from_utf8_lossy(&told), said);
    waits.kill().expect("it is ours");
    waits.wait().expect("it is ours");
}

/// Keys that others can read, or that are not where they should be.
#[test]
fn keys_that_are_not_there_or_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::unmounted();
    let endpoint = answering("404 Not Found", &error("NoSuchKey"));
    let keys = home.secret("keys", KEYS);
    let list = |keys: &str| {
        let of = ["--bucket", "s3://b", "--endpoint", &endpoint, "--keys", keys];
        say(&home, &[&["drive", "list"], &of[..]].concat())
    };
    assert!(list(text(&keys)).1.contains("is not a bucket"), "these are good");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let (code, said) = list(text(&keys));
    assert!(
        code == Some(1) && said.contains("chmod 600") && !said.contains("a-word"),
        "{said}"
    );
    let other = home.secret("other", &KEYS.replace("default", "other"));
    let (code, said) = list(text(&other));
    assert!(
        code == Some(1) && said.contains("no keys in its section [default]"),
        "{said}"
    );
    assert!(list("/nowhere/keys").1.contains("cannot read /nowhere/keys"));
}
