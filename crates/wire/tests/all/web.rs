//! The port of a server: who is let in, what a certificate proves, and what comes to nothing that is no client.

use crate::carrier::{
    AGENT, Carrier, Seen, TOKEN, dialling_to, identity, port, serve_behind, served_over, servers, well_served,
};
use crate::fake::{Fake, greeting, limits, owner, patience};
use crate::hostile::bytes_of;
use crate::samples::{drive, who};
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tenure_model::{DriveName, Failure, Refusal};
use tenure_wire::web::{self, Identity, Pem, Security, Token, Trust};
use tenure_wire::{
    Connection, Dialer, Door, Error, Greeting, HostPort, Limits, ServerAddress, Servers, Service, Who,
};

fn because<T>(refused: Result<T, Error>) -> String {
    match refused.map(drop) {
        Err(Error::Refused(Refusal::Because(why))) => why,
        other => panic!("{other:?} is no refusal in words"),
    }
}

fn port_of(address: &ServerAddress) -> u16 {
    match address {
        ServerAddress::Plain(at) | ServerAddress::Tls(at) => at.port,
        ServerAddress::Unix(path) => panic!("{} is no port", path.display()),
    }
}

fn connected(address: &ServerAddress) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port_of(address))).expect("somebody listens")
}

fn is_well(address: &ServerAddress) {
    let reached = Connection::reach(dialling_to(address), greeting(), patience());
    assert!(owner(&reached.expect("it is served")).room().is_ok());
}

/// Says something, and returns what is answered until the connection is ended.
fn say(mut stream: TcpStream, bytes: &[u8]) -> String {
    // The other end may have heard enough.
    let _ = stream.write_all(bytes);
    let mut answered = Vec::new();
    let _ = stream.read_to_end(&mut answered);
    String::from_utf8_lossy(&answered).into_owned()
}

/// A server with its own certificate, and the tokens that it was shown.
struct Other {
    fake: Arc<Fake>,
    shown: Arc<Mutex<Vec<Option<String>>>>,
    identity: Identity,
    at: HostPort,
    service: Service,
}

fn other(pem: &Pem, port: u16) -> Other {
    let identity =
        Identity::from_pem(pem.certificate.as_bytes(), pem.key.as_bytes()).expect("it was made so");
    let at = HostPort {
        host: "127.0.0.1".into(),
        port,
    };
    let shown: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let notes = shown.clone();
    let keeper = move |token: Option<&str>, _: Option<&DriveName>| -> Result<Option<String>, Refusal> {
        notes.lock().push(token.map(str::to_owned));
        Ok(None)
    };
    let listener =
        web::listen(&at, &Security::Tls(identity.clone()), Arc::new(keeper)).expect("the port is free");
    let port = listener.address().expect("it is bound").port();
    let fake = Arc::new(Fake::default());
    let service = serve_behind(Door::Web(listener), &fake, limits());
    Other {
        fake,
        shown,
        identity,
        at: HostPort { port, ..at },
        service,
    }
}

fn pem() -> Pem {
    Pem::made_for(&["127.0.0.1".into()]).expect("the name is good")
}

fn trusting(at: &HostPort, trust: Trust) -> Servers {
    Servers::new(vec![ServerAddress::Tls(at.clone())], Some(drive("work")), trust)
        .with_token(|| Ok(Token::parse("secret")?))
}

#[test]
fn a_certificate_is_remembered_the_first_time_and_another_one_is_refused() {
    let first = other(&pem(), 0);
    let seen = Arc::new(Seen::default());
    let trust = Trust::Pinned(seen.clone());
    trusting(&first.at, trust.clone())
        .dial()
        .expect("it is seen for the first time");
    let server = format!("https://{}", first.at);
    let remembered = || seen.0.lock().get(&server).copied();
    assert_eq!(remembered(), Some(first.identity.fingerprint()));
    trusting(&first.at, trust.clone()).dial().expect("it is the same");
    assert_eq!(*first.shown.lock(), vec![Some("secret".to_owned()); 2]);
    first.service.stop();
    let second = other(&pem(), first.at.port);
    let why = because(trusting(&second.at, trust).dial());
    let (new, old) = (second.identity.fingerprint(), first.identity.fingerprint());
    for part in [
        &server,
        &new.to_string(),
        &old.to_string(),
        &format!("accept {new} of {server}"),
    ] {
        assert!(why.contains(part), "{part} is not in {why}");
    }
    assert_eq!(remembered(), Some(old));
    assert!(second.shown.lock().is_empty(), "it was shown a token");
    assert!(second.fake.begun().is_empty());
}

#[test]
fn a_certificate_that_was_renewed_is_shown_to_who_comes_next() {
    let server = other(&pem(), 0);
    let renewed = pem();
    let next = Identity::from_pem(renewed.certificate.as_bytes(), renewed.key.as_bytes());
    let trusted = Trust::signed_by(renewed.certificate.as_bytes()).expect("it is a certificate");
    assert!(because(trusting(&server.at, trusted.clone()).dial()).contains("is not trusted"));
    server.identity.become_as(&next.expect("it was made so"));
    trusting(&server.at, trusted).dial().expect("it is shown");
}

#[test]
fn a_certificate_is_trusted_when_an_authority_that_is_trusted_has_signed_it() {
    let own = pem();
    let server = other(&own, 0);
    let trust = Trust::signed_by(own.certificate.as_bytes()).expect("it is a certificate");
    trusting(&server.at, trust.clone())
        .dial()
        .expect("it vouches for itself");
    let elsewhere = HostPort {
        host: "localhost".into(),
        ..server.at.clone()
    };
    let why = because(trusting(&elsewhere, trust).dial());
    assert!(why.contains("is not trusted"), "{why}");
    let trust = Trust::signed_by(pem().certificate.as_bytes()).expect("it is a certificate");
    let why = because(trusting(&server.at, trust).dial());
    assert!(why.contains("is not trusted"), "{why}");
    assert!(Trust::signed_by(b"neither this").is_err());
    assert_eq!(server.shown.lock().len(), 1, "it was shown a token");
}

#[test]
fn what_is_no_certificate_or_key_is_refused_in_words() {
    let (good, other) = (pem(), pem());
    let from = |certificate: &str, key: &str| Identity::from_pem(certificate.as_bytes(), key.as_bytes());
    assert!(from(&good.certificate, &good.key).is_ok());
    for (certificate, key, part) in [
        ("", good.key.as_str(), "no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            good.key.as_str(),
            "cannot be read",
        ),
        (good.certificate.as_str(), "", "key cannot be read"),
        (good.certificate.as_str(), other.key.as_str(), "cannot be used"),
    ] {
        let why = from(certificate, key).map(drop).expect_err(part).to_string();
        assert!(why.contains(part), "{why}");
    }
    assert!(Pem::made_for(&["\u{e9}".into()]).is_err());
    assert!(!format!("{good:?} {:?}", identity()).contains("PRIVATE"));
}

#[test]
fn a_port_without_tls_is_on_this_machine_unless_asked_for() {
    let anywhere = HostPort {
        host: "0.0.0.0".into(),
        port: 0,
    };
    let listen = |security| web::listen(&anywhere, &security, crate::carrier::doorkeeper());
    assert!(because(listen(Security::Loopback)).contains("listen with TLS"));
    assert!(listen(Security::Plain).is_ok());
    assert!(listen(Security::Tls(identity())).is_ok());
}

#[test]
fn who_shows_no_token_or_a_wrong_one_is_refused() {
    for carrier in [Carrier::Plain, Carrier::Tls] {
        let served = well_served(carrier);
        let trust = Trust::Pinned(Arc::new(Seen::default()));
        let without = Servers::new(vec![served.address.clone()], Some(drive("work")), trust.clone());
        assert!(because(without.dial()).contains("does not open the drive work"));
        let wrong = Servers::new(vec![served.address.clone()], Some(drive("work")), trust)
            .with_token(|| Ok(Token::parse("another")?));
        let why = because(Connection::reach(Arc::new(wrong), greeting(), patience()));
        assert!(
            why.contains("does not open the drive work") && !why.contains("another"),
            "{why}"
        );
        assert!(served.fake.begun().is_empty());
        let head = say(
            connected(&well_served(Carrier::Plain).address),
            b"GET /v1/drives/work/session HTTP/1.1\r\nHost: a\r\n\r\n",
        );
        assert!(
            head.starts_with("HTTP/1.1 401 ") && head.to_lowercase().contains("www-authenticate: bearer"),
            "{head}"
        );
    }
}

#[test]
fn the_agent_of_a_token_counts_and_not_what_a_client_says() {
    let served = well_served(Carrier::Tls);
    let connection = served.connect();
    let liar = Who {
        agent: "root".into(),
        ..who()
    };
    owner(&connection).open(&liar).expect("it is opened");
    let ada = Who {
        agent: AGENT.into(),
        ..who()
    };
    assert_eq!(served.fake.begun(), [format!("open {ada:?}")]);
}

#[test]
fn who_was_let_in_to_one_drive_speaks_of_no_other_and_not_of_the_process() {
    let served = well_served(Carrier::Tls);
    for other in [Some(drive("other")), None] {
        let greeting = Greeting {
            drive: other,
            who: who(),
        };
        let why = because(Connection::reach(served.dialling(), greeting, patience()));
        assert!(why.contains("may speak about no other"), "{why}");
    }
    let said = served.connect().control("echo", b"", crate::fake::LONG);
    assert!(because(said).contains("may say nothing to the server itself"));
    assert!(served.fake.begun().is_empty());
}

#[test]
fn what_is_no_request_for_a_session_is_answered_so() {
    let served = well_served(Carrier::Plain);
    let upgrade = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n";
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let session = "/v1/drives/work/session";
    let old = upgrade.replace("13", "8");
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404"),
        ("GET /v1/drives/work HTTP/1.1\r\n\r\n".to_owned(), "404"),
        (
            format!("GET /v1/drives/../session HTTP/1.1\r\n{token}\r\n"),
            "404",
        ),
        (format!("POST {session} HTTP/1.1\r\n{token}\r\n"), "405"),
        (format!("GET {session} HTTP/1.1\r\n{token}\r\n"), "426"),
        (format!("GET {session} HTTP/1.1\r\n{token}{upgrade}\r\n"), "426"),
        (format!("GET {session} HTTP/1.1\r\n{token}{old}{key}\r\n"), "426"),
        (
            format!("GET {session} HTTP/1.0\r\n{token}{upgrade}{key}\r\n"),
            "426",
        ),
        (format!("GET {session} HTTP/1.1\r\n{upgrade}{key}\r\n"), "401"),
        (
            format!("GET {session} HTTP/1.1\r\nAuthorization: Basic {TOKEN}\r\n{upgrade}{key}\r\n"),
            "401",
        ),
        (
            format!("GET {session} HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000)),
            "431",
        ),
        ("GET / HTTP/9\r\n\r\n".to_owned(), "400"),
    ] {
        let answered = say(connected(&served.address), request.as_bytes());
        let status = answered.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, expected, "{request:?} was answered {answered:?}");
    }
    is_well(&served.address);
}

#[test]
fn bytes_of_any_kind_come_to_nothing_at_a_port() {
    for carrier in [Carrier::Plain, Carrier::Tls] {
        let served = well_served(carrier);
        let request = format!(
            "GET /v1/drives/work/session HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Authorization: Bearer {TOKEN}\r\n\r\n"
        );
        for seed in 0..200 {
            let garbage = bytes_of(seed, seed as usize % 300);
            let mut damaged = request.clone().into_bytes();
            let at = seed as usize * 7 % damaged.len();
            damaged[at] ^= 1 << (seed % 8);
            let in_a_session = [request.as_bytes(), &garbage].concat();
            for bytes in [&garbage, &damaged, &in_a_session] {
                let mut stream = connected(&served.address);
                let _ = stream.write_all(bytes);
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
        is_well(&served.address);
    }
}

#[test]
fn who_takes_his_time_is_not_waited_for_and_delays_nobody() {
    for carrier in [Carrier::Plain, Carrier::Tls] {
        let served = served_over(
            carrier,
            Limits {
                greeting_max: Duration::from_secs(2),
                ..limits()
            },
        );
        let beginnings: [&[u8]; 3] = [b"", b"GET /v1/dri", b"\x16\x03\x01\x02\x00\x01\x00"];
        let slow: Vec<_> = (0..200)
            .map(|number| {
                let mut stream = connected(&served.address);
                stream.write_all(beginnings[number % 3]).expect("somebody reads");
                stream
            })
            .collect();
        is_well(&served.address);
        for mut stream in slow {
            // Without an end this would not come back.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
}

#[test]
fn a_thousand_connections_that_say_nothing_are_kept_and_the_next_is_served() {
    // Each has two ends, and both are here.
    let most = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, all).expect("the soft limit may be raised");
    let served = well_served(Carrier::Tls);
    let connections: Vec<_> = (0..1000).map(|_| served.connect()).collect();
    is_well(&served.address);
    let [first, last] = [&connections[0], &connections[999]];
    assert!(owner(first).room().is_ok() && owner(last).room().is_ok());
}

#[test]
fn what_answers_and_is_no_server_of_drives_is_told_from_one() {
    for (answer, is_believed) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 503 Busy\r\nContent-Length: 7\r\n\r\nlater\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\n<html>", false),
        ("HTTP/1.1 403 No\r\ntenure-refused: 1\r\n\r\nnot you\n", true),
        ("HTTP/1.1 101 Yes\r\nSec-WebSocket-Accept: wrong\r\n\r\n", true),
        ("SSH-2.0-OpenSSH_9.9\r\n", true),
        ("", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let at = HostPort {
            host: "127.0.0.1".into(),
            port: listener.local_addr().expect("it is bound").port(),
        };
        let says = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it comes");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("it asks");
                head.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).expect("it listens");
        });
        let dialled = servers(vec![ServerAddress::Plain(at)]).dial().map(drop);
        says.join().expect("it was asked");
        match dialled {
            Err(Error::Refused(Refusal::Because(_))) => assert!(is_believed, "{answer:?}"),
            Err(Error::Failed(Failure::DidNotHappen(_))) => assert!(!is_believed, "{answer:?}"),
            other => panic!("{answer:?}: {other:?}"),
        }
    }
}

#[test]
fn a_server_without_tls_is_told_from_one_that_has_it() {
    let (listener, free) = port(&Security::Loopback, 0);
    let _service = serve_behind(Door::Web(listener), &Arc::new(Fake::default()), limits());
    let at = HostPort {
        host: "127.0.0.1".into(),
        port: free,
    };
    let why = because(servers(vec![ServerAddress::Tls(at)]).dial());
    assert!(why.contains("does not speak TLS"), "{why}");
    let served = well_served(Carrier::Tls);
    let at = HostPort {
        host: "127.0.0.1".into(),
        port: port_of(&served.address),
    };
    let why = because(servers(vec![ServerAddress::Plain(at)]).dial());
    assert!(why.contains("speaks TLS: use https://127.0.0.1:"), "{why}");
}
