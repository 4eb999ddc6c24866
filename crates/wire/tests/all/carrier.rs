//! What carries a conversation in a test: a socket, or a port with or without TLS. What must hold for a conversation is
//! tried over each.

use crate::fake::{Fake, Hosting, LONG, limits};
use crate::samples::drive;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tenure_model::{DriveName, Refusal};
use tenure_wire::unix::{self, dial};
use tenure_wire::web::{self, Fingerprint, Identity, Pem, Pins, Security, Token, Trust};
use tenure_wire::{Dial, Door, Error, HostPort, Limits, ServerAddress, Servers, Service, Stream, serve};

/// What carries a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Unix,
    Plain,
    Tls,
}

/// Tries some functions over every carrier.
macro_rules! over_every_carrier {
    ($($name:ident),* $(,)?) => {
        mod over_a_unix_socket { $(#[test] fn $name() { super::$name(crate::carrier::Carrier::Unix) })* }
        mod over_plain_tcp { $(#[test] fn $name() { super::$name(crate::carrier::Carrier::Plain) })* }
        mod over_tls { $(#[test] fn $name() { super::$name(crate::carrier::Carrier::Tls) })* }
    };
}
pub(crate) use over_every_carrier;

/// The token of whoever may speak in tests.
pub(crate) const TOKEN: &str = "a-word-that-ada-knows";
/// The agent that the token stands for.
pub(crate) const AGENT: &str = "ada";

/// Returns an identity that is made once: making one takes as long as a test.
pub(crate) fn identity() -> Identity {
    static PEM: LazyLock<Pem> = LazyLock::new(|| {
        Pem::made_for(&["localhost".into(), "127.0.0.1".into()]).expect("the names are good")
    });
    Identity::from_pem(PEM.certificate.as_bytes(), PEM.key.as_bytes()).expect("it was made so")
}

/// Lets in who knows the token.
pub(crate) fn doorkeeper() -> Arc<dyn web::Doorkeeper> {
    Arc::new(|shown: Option<&str>, drive: Option<&DriveName>| {
        let token = Token::parse(TOKEN).expect("it is a token");
        if shown.is_some_and(|shown| token.is(shown)) {
            Ok(Some(AGENT.to_owned()))
        } else {
            let what = drive.map_or("the server".to_owned(), |drive| format!("the drive {drive}"));
            Err(Refusal::Because(format!("this token does not open {what}")))
        }
    })
}

/// What a client of a test has seen of servers.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Mutex<BTreeMap<String, Fingerprint>>);

impl Pins for Seen {
    fn known(&self, server: &str) -> Result<Option<Fingerprint>, Error> {
        Ok(self.0.lock().get(server).copied())
    }

    fn remember(&self, server: &str, seen: &Fingerprint) -> Result<(), Error> {
        self.0.lock().insert(server.to_owned(), *seen);
        Ok(())
    }

    fn how_to_accept(&self, server: &str, seen: &Fingerprint) -> String {
        format!("accept {seen} of {server}")
    }
}

/// Listens at a port of this machine, and returns the port.
pub(crate) fn port(security: &Security, port: u16) -> (web::Listener, u16) {
    let at = HostPort {
        host: "127.0.0.1".into(),
        port,
    };
    let listener = web::listen(&at, security, doorkeeper()).expect("the port is free");
    let port = listener.address().expect("it is bound").port();
    (listener, port)
}

impl Carrier {
    /// Listens, at a path or at a port that is free; returns where.
    pub(crate) fn listen(self, path: &Path) -> (Door, ServerAddress) {
        let at = |port| HostPort {
            host: "127.0.0.1".into(),
            port,
        };
        match self {
            Carrier::Unix => {
                let listener = unix::listen(path).expect("nobody else listens there");
                (Door::Unix(listener), ServerAddress::Unix(path.to_owned()))
            }
            Carrier::Plain => {
                let (listener, port) = port(&Security::Loopback, 0);
                (Door::Web(listener), ServerAddress::Plain(at(port)))
            }
            Carrier::Tls => {
                let (listener, port) = port(&Security::Tls(identity()), 0);
                (Door::Web(listener), ServerAddress::Tls(at(port)))
            }
        }
    }
}

/// Listens again where somebody listened before.
pub(crate) fn again(address: &ServerAddress) -> Door {
    match address {
        ServerAddress::Unix(path) => Door::Unix(unix::listen(path).expect("nobody listens there any more")),
        ServerAddress::Plain(at) => Door::Web(port(&Security::Loopback, at.port).0),
        ServerAddress::Tls(at) => Door::Web(port(&Security::Tls(identity()), at.port).0),
    }
}

/// Serves a fake owner behind a door.
pub(crate) fn serve_behind(door: Door, fake: &Arc<Fake>, limits: Limits) -> Service {
    serve([door], Arc::new(Hosting(fake.clone())), limits).expect("there are threads")
}

/// Returns servers as a client with the token knows them, who has seen none before.
pub(crate) fn servers(addresses: Vec<ServerAddress>) -> Servers {
    Servers::new(
        addresses,
        Some(drive("work")),
        Trust::Pinned(Arc::new(Seen::default())),
    )
    .with_token(|| Ok(Token::parse(TOKEN)?))
}

/// Returns how a client dials a server.
pub(crate) fn dialling_to(address: &ServerAddress) -> Dial {
    match address {
        ServerAddress::Unix(path) => {
            let path = path.clone();
            Arc::new(move || -> Result<Stream, Error> { dial(&path, LONG) })
        }
        ServerAddress::Plain(_) | ServerAddress::Tls(_) => Arc::new(servers(vec![address.clone()])),
    }
}

/// A server with one fake owner.
pub(crate) struct Served {
    pub(crate) fake: Arc<Fake>,
    pub(crate) service: Service,
    pub(crate) address: ServerAddress,
    _directory: tempfile::TempDir,
}

/// Serves a fake owner over a carrier.
pub(crate) fn served_over(carrier: Carrier, limits: Limits) -> Served {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let (door, address) = carrier.listen(&directory.path().join("socket"));
    let fake = Arc::new(Fake::default());
    let service = serve_behind(door, &fake, limits);
    Served {
        fake,
        service,
        address,
        _directory: directory,
    }
}

/// Serves a fake owner at a unix socket.
pub(crate) fn served(limits: Limits) -> Served {
    served_over(Carrier::Unix, limits)
}

/// Serves a fake owner over a carrier, with bounds that end a test that would hang.
pub(crate) fn well_served(carrier: Carrier) -> Served {
    served_over(carrier, limits())
}
