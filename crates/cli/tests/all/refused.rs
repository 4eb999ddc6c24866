//! What a person gets wrong when machines speak to each other: each is refused within a bound, in words that say what and by
//! which command to mend it, and nothing secret is shown.

use crate::home::{Home, run, text, until};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Runs a command that must end in a while with an exit code; returns what was said, which holds a hint.
fn told(home: &Home, code: i32, arguments: &[&str]) -> String {
    let command = home.command(arguments);
    let program = command.get_program().to_owned();
    let mut bounded = std::process::Command::new("timeout");
    let output = home
        .with_folders(bounded.arg("60").arg(program).args(arguments))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "tenure {arguments:?}: {said}");
    assert!(said.contains("hint: "), "tenure {arguments:?}: {said}");
    said
}

/// Tokens: none, a wrong one, a file that others can read or that holds none.
#[test]
fn who_shows_no_token_or_a_wrong_one_is_told_what_would_let_him_in() {
    let home = Home::unmounted();
    home.token("ada", &[]);
    home.done(&["drive", "create", "work"]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let list = |more: &[&str]| {
        told(
            &home,
            1,
            &[&["drive", "list", "--server", &server.address], more].concat(),
        )
    };
    let said = list(&[]);
    assert!(
        said.contains("no token was shown") && said.contains("--token-file FILE"),
        "{said}"
    );
    let wrong = home.secret("wrong", "tenure_0123456789abcdef0123456789abcdef\n");
    let said = list(&["--token-file", text(&wrong)]);
    assert!(
        said.contains("is not known to this server") && said.contains("tenure token new"),
        "{said}"
    );
    assert!(!said.contains("0123456789abcdef"), "{said}");
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert!(list(&["--token-file", text(&wrong)]).contains("chmod 600"));
    let none = home.secret("none", "# nothing here\n");
    assert!(list(&["--token-file", text(&none)]).contains("there is no token in"));
    assert!(list(&["--token-file", "/nowhere/token"]).contains("cannot read /nowhere/token"));
    let place = home.folder.path().join("m");
    fs::create_dir(&place).expect("there is room");
    let said = told(
        &home,
        1,
        &["mount", "work", text(&place), "--server", &server.address],
    );
    assert!(said.contains("no token was shown"), "{said}");
}

/// Listens, and answers the first who comes with these bytes.
fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let at = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer);
        }
    });
    at.to_string()
}

/// Ports: nobody there, another product, TLS where there is none and none where there is, a machine that does not answer.
#[test]
fn what_answers_and_is_no_server_that_is_meant_is_named() {
    let home = Home::unmounted();
    let token = home.token("ada", &[]);
    home.done(&["drive", "create", "work"]);
    let (tls, plain) = (
        home.serve_at("127.0.0.1:0", &[]),
        home.serve_at("http://127.0.0.1:0", &[]),
    );
    let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
    let at = |scheme: &str, address: &str| format!("{scheme}://127.0.0.1:{}", port(address));
    let web = answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot here\n");
    let ssh = answering(b"SSH-2.0-OpenSSH_9.9\r\n");
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("there are ports")
        .local_addr()
        .expect("it is bound");
    for (address, code, parts) in [
        (
            at("http", &tls.address),
            1,
            &["speaks TLS", "--server HOST:PORT"][..],
        ),
        (
            at("https", &plain.address),
            1,
            &["does not speak TLS", "--server http://"],
        ),
        (
            format!("http://{web}"),
            3,
            &["is no server of drives", "HTTP 404 not here", "tenure serve"],
        ),
        (format!("https://{web}"), 1, &["does not speak TLS"]),
        (format!("http://{ssh}"), 1, &["is no server of drives"]),
        (ssh.clone(), 1, &["does not speak TLS"]),
        (free.to_string(), 3, &["nobody listens there", "tenure serve"]),
        // An address of documentation (RFC 5737), which nobody has.
        (
            "192.0.2.1:7430".to_owned(),
            3,
            &["cannot reach the server at https://192.0.2.1:7430"],
        ),
        (
            "http://192.0.2.1:7430".to_owned(),
            1,
            &["nothing would be encrypted", "--unencrypted"],
        ),
        ("unix:/nowhere/socket".to_owned(), 3, &["ls -l /nowhere/socket"]),
        (
            format!("{free},unix:/nowhere/socket"),
            3,
            &["nobody listens there", "/nowhere/socket"],
        ),
    ] {
        let arguments = [
            "check",
            "work",
            "--server",
            &address,
            "--token-file",
            text(&token),
        ];
        let said = told(&home, code, &arguments);
        for part in parts {
            assert!(said.contains(part), "{address}: {part} is not in {said}");
        }
    }
    let wrong = home.tenure(&["drive", "list", "--server", "ftp://box"]);
    assert_eq!(wrong.status.code(), Some(2), "it is no address");
}

/// Makes an authority, and a certificate of this machine that it has signed and that ends after so many days.
fn sign(folder: &Path, name: &str, days: &str) {
    let at = |what: &str| folder.join(what).to_str().expect("it is text").to_owned();
    if !folder.join("authority.pem").exists() {
        run(
            "openssl",
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=an authority",
                "-keyout",
                &at("authority.key"),
                "-out",
                &at("authority.pem"),
            ],
        );
    }
    let (key, request) = (at(&format!("{name}.key")), at(&format!("{name}.csr")));
    run(
        "openssl",
        &[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=box",
            "-keyout",
            &key,
            "-out",
            &request,
        ],
    );
    fs::write(
        folder.join("names"),
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n",
    )
    .expect("there is room");
    run(
        "openssl",
        &[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &at("authority.pem"),
            "-CAkey",
            &at("authority.key"),
            "-days",
            days,
            "-extfile",
            &at("names"),
            "-out",
            &at(&format!("{name}.pem")),
        ],
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// Certificates: one that has changed since it was first seen, until a person says that it counts.
#[test]
fn another_certificate_than_before_is_named_and_counts_once_a_person_says_so() {
    let home = Home::unmounted();
    let token = home.token("ada", &[]);
    home.done(&["drive", "create", "work"]);
    let server = home.serve_at("127.0.0.1:0", &[]);
    let (address, first) = (server.address.clone(), server.fingerprint.clone());
    let list = [
        "drive",
        "list",
        "--server",
        &address,
        "--token-file",
        text(&token),
    ];
    let seen = home.tenure(&list);
    let noted = String::from_utf8_lossy(&seen.stderr).into_owned();
    assert!(
        noted.contains("seen for the first time") && noted.contains(&first),
        "{noted}"
    );
    assert!(home.tenure(&list).stderr.is_empty(), "it is known by now");
    assert_eq!(home.done(&["trust"]), format!("{address} {first}\n"));
    assert_eq!(home.done(&["trust", &address]), format!("{first}\n"));

    server.kill();
    let again = home.serve_at(&address, &[]);
    assert_eq!(again.fingerprint, first, "it is kept");
    again.kill();
    fs::remove_file(home.folder.path().join("state/tenure/server-identity.pem")).expect("it is kept there");
    let other = home.serve_at(&address, &[]);
    let said = told(&home, 1, &list);
    for part in [&first, &other.fingerprint, "another certificate than before"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let (_, command) = said.rsplit_once("tenure trust ").expect("the hint is a command");
    let words: Vec<_> = command.split_whitespace().collect();
    home.done(&[&["trust"], &words[..]].concat());
    assert_eq!(home.done(&list), "work\n");
    home.done(&["trust", &address, "--forget"]);
    assert_eq!(home.done(&["trust", "--json"]), "[]\n");
    home.done(&["trust", &address, &first]);
    assert!(
        told(&home, 1, &list).contains("another certificate than before"),
        "it was set beforehand"
    );
}

/// Certificates: those of an authority, for another name, that have ended; and one that is renewed.
#[test]
fn a_certificate_of_an_authority_counts_as_long_as_it_does() {
    let home = Home::unmounted();
    let token = home.token("ada", &[]);
    home.done(&["drive", "create", "work"]);
    let folder = home.folder.path();
    for (name, days) in [("own", "1"), ("next", "1"), ("ended", "-1")] {
        sign(folder, name, days);
    }
    let file = |name: &str| text(&folder.join(name)).to_owned();
    let served = |name: &str| {
        let pair = [file(&format!("{name}.pem")), file(&format!("{name}.key"))];
        home.serve_at("127.0.0.1:0", &["--certificate", &pair[0], "--key", &pair[1]])
    };
    let list = |address: &str, more: &[&str]| -> Vec<String> {
        let words = ["drive", "list", "--server", address, "--token-file", text(&token)];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let authority = file("authority.pem");
    let trusting = |address: &str| list(address, &["--authorities", &authority]);
    let words = |owned: &[String]| {
        owned
            .iter()
            .map(|word| word.clone().leak() as &str)
            .collect::<Vec<_>>()
    };

    let server = served("own");
    let good = trusting(&server.address);
    assert_eq!(home.done(&words(&good)), "work\n");
    let elsewhere = trusting(&server.address.replace("127.0.0.1", "localhost"));
    assert!(
        told(&home, 1, &words(&elsewhere)).contains("is not trusted"),
        "it has another name"
    );

    for part in ["pem", "key"] {
        fs::copy(file(&format!("next.{part}")), file(&format!("own.{part}"))).expect("there is room");
    }
    kill_process(server.process(), Signal::HUP).expect("it is there");
    until("the renewed one is shown to who comes next", || {
        home.done(&["trust", &server.address, "--forget"]);
        home.done(&words(&list(&server.address, &[])));
        home.done(&["trust", &server.address]).trim() != server.fingerprint
    });
    assert_eq!(home.done(&words(&good)), "work\n");

    let server = served("ended");
    let said = told(&home, 1, &words(&trusting(&server.address)));
    assert!(
        said.contains("is not trusted") && said.to_lowercase().contains("expired"),
        "{said}"
    );
}

/// Certificates and keys that prove nothing, or that others can read.
#[test]
fn what_proves_nothing_is_not_served() {
    let home = Home::unmounted();
    home.token("ada", &[]);
    home.done(&["drive", "create", "work"]);
    let folder = home.folder.path();
    ["own", "next"].iter().for_each(|name| sign(folder, name, "1"));
    let file = |name: &str| text(&folder.join(name)).to_owned();
    for (certificate, key, code, part) in [
        ("own.pem", "next.key", 1, "prove nothing"),
        ("own.key", "own.key", 1, "there is no certificate"),
        ("own.pem", "own.pem", 1, "others can read it"),
        ("none.pem", "own.key", 1, "cannot read"),
    ] {
        let tokens = home.tokens();
        let (certificate, key) = (file(certificate), file(key));
        let listen = ["serve", "--listen", "127.0.0.1:0", "--tokens", text(&tokens)];
        let said = told(
            &home,
            code,
            &[&listen[..], &["--certificate", &certificate, "--key", &key]].concat(),
        );
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

/// A server that would let everybody in, or let everybody read, does not begin.
#[test]
fn a_server_that_keeps_nobody_out_does_not_begin() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    home.token("ada", &[]);
    let tokens = home.tokens();
    let tokens = text(&tokens);
    let empty = home.secret("empty", "\n");
    let bad = home.secret("bad", "ada short\n");
    let open = home.secret("open", "ada 0123456789-0123456789\n");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let busy = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let busy_at = busy.local_addr().expect("it is bound").to_string();
    let foreign = home.folder.path().join("foreign");
    fs::create_dir(&foreign).expect("there is room");
    fs::write(foreign.join("a-file"), "of another product").expect("there is room");
    let local = ["serve", "--listen", "127.0.0.1:0", "--tokens"];
    for (code, arguments, part) in [
        (
            1,
            vec!["serve", "--listen", "127.0.0.1:0"],
            "no file of tokens is named",
        ),
        (1, [&local[..], &[text(&empty)]].concat(), "nobody could come in"),
        (1, [&local[..], &[text(&bad)]].concat(), "line 1 of"),
        (1, [&local[..], &[text(&open)]].concat(), "chmod 600"),
        (
            1,
            [&local[..], &["/nowhere/tokens"]].concat(),
            "cannot read /nowhere/tokens",
        ),
        (
            1,
            vec!["serve", "--listen", "http://0.0.0.0:0", "--tokens", tokens],
            "--unencrypted lets whoever is on the way",
        ),
        (
            3,
            vec!["serve", "--listen", &busy_at, "--tokens", tokens],
            "cannot listen at",
        ),
        (
            1,
            [&local[..], &[tokens, "--bucket", text(&foreign)]].concat(),
            "is not a bucket",
        ),
        (
            1,
            [&local[..], &[tokens, "--bucket", "/nowhere/at/all"]].concat(),
            "there is no bucket at",
        ),
        (
            1,
            [&local[..], &[tokens, "--bucket", "ftp://box/x"]].concat(),
            "there are no ftp:// buckets",
        ),
    ] {
        let said = told(&home, code, &arguments);
        assert!(said.contains(part), "{arguments:?}: {part} is not in {said}");
        assert!(!said.contains("0123456789-0123456789"), "{said}");
    }
    let usage = home.tenure(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tokens",
        tokens,
        "--key",
        tokens,
    ]);
    assert_eq!(usage.status.code(), Some(2), "a key has a certificate");
    let said = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(said.contains("--certificate"), "{said}");
}

/// What `tenure token` makes is read by servers and clients, and by nobody else.
#[test]
fn tokens_are_made_into_files_that_nobody_else_reads() {
    let home = Home::unmounted();
    let line = home.done(&["token", "new", "ada", "--drives", "work,play"]);
    let words: Vec<_> = line.split_whitespace().collect();
    assert!(
        matches!(words[..], ["ada", token, "work,play"] if token.starts_with("tenure_")),
        "{line}"
    );
    let tokens = home.tokens();
    let add = |agent: &str| home.done(&["token", "new", agent, "--add-to", text(&tokens)]);
    let (ada, bob) = (add("ada"), add("bob"));
    let mode = fs::metadata(&tokens).expect("it is made").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let kept = fs::read_to_string(&tokens).expect("it is made");
    assert_eq!(kept, format!("ada {}\nbob {}\n", ada.trim(), bob.trim()));
    let out = home.folder.path().join("bob.token");
    let said = home.done(&[
        "token",
        "new",
        "bob",
        "--add-to",
        text(&tokens),
        "--out",
        text(&out),
    ]);
    let word = fs::read_to_string(&out).expect("it is there");
    let mode = fs::metadata(&out).expect("it is there").permissions().mode();
    assert!(
        said.contains("--token-file") && !said.contains(word.trim()),
        "{said}"
    );
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        fs::read_to_string(&tokens)
            .expect("it is there")
            .contains(word.trim())
    );
    let again = [
        "token",
        "new",
        "eve",
        "--add-to",
        text(&tokens),
        "--out",
        text(&out),
    ];
    assert!(told(&home, 1, &again).contains("is there already"));
    assert!(
        !fs::read_to_string(&tokens)
            .expect("it is there")
            .contains("\neve ")
    );
    let open = fs::File::create(home.folder.path().join("open")).expect("there is room");
    open.set_permissions(fs::Permissions::from_mode(0o644))
        .expect("it is ours");
    let warned = home.command(&["token", "new", "eve"]).stdout(open).output();
    let warned = String::from_utf8_lossy(&warned.expect("the program starts").stderr).into_owned();
    assert!(warned.contains("others can read"), "{warned}");
    assert!(told(&home, 1, &["token", "new", "two words"]).contains("an agent's name"));
}

/// A drive with which something is wrong is there: nobody is told to make one of its name.
#[test]
fn a_drive_that_cannot_be_opened_is_not_taken_for_none() {
    let home = Home::unmounted();
    home.done(&["drive", "create", "work"]);
    // Its manifest makes the journal before it needless.
    home.done(&["fork", "work", "attempt"]);
    let bucket = home.folder.path().join("data/tenure/bucket");
    fs::remove_dir_all(bucket.join("drives/work/manifests")).expect("it is there");
    let dir = home.folder.path().join("m");
    fs::create_dir(&dir).expect("there is room");
    let output = home.tenure(&["mount", "work", text(&dir)]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("drives/work/manifests/ holds no manifest: restore") && !said.contains("--create"),
        "{said}"
    );
}
