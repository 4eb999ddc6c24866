//! How a client comes in: it connects, looks at the certificate, asks for a session over HTTP, and is let in or told why
//! not.
//!
//! Invariant: the token is sent to nobody whose certificate was not looked at, and each wait is bounded.

use super::channel::{Channel, Received};
use super::token::Token;
use super::trust::{Looked, Trust};
use super::tunnel::Tunnel;
use super::websocket::{End, WebStream};
use super::{HEAD_LEN_MAX, KEEPING, REFUSED, path_of};
use crate::owner::Error;
use crate::transport::address::{HostPort, ServerAddress};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;
use tenure_model::{DriveName, Failure, Refusal};
use tungstenite::handshake::client::generate_key;
use tungstenite::handshake::derive_accept_key;

/// How long one address may take to accept a connection: one across the world takes a third of a second.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// IP addresses of one name that are tried.
const IPS_MAX: usize = 4;
/// How long each step of the handshake may take: a server that does not take it is stopped, or is none.
const STEP_MAX: Duration = Duration::from_secs(3);
/// Times that is read until a handshake is over.
const READS_MAX: usize = 32;
/// Bytes of an answer's reason that are told.
const REASON_LEN_MAX: usize = 4 << 10;
/// The first byte of what somebody who speaks TLS answers to anything else (RFC 8446, 5.1).
const TLS_ALERT: u8 = 21;
/// Headers of an answer: a proxy adds some.
const HEADERS_MAX: usize = 64;

/// Who asks to be let in, and where.
pub(in crate::transport) struct Knock<'a> {
    pub(in crate::transport) at: &'a HostPort,
    /// Whose certificates are trusted; none where nothing is encrypted.
    pub(in crate::transport) trust: Option<&'a Trust>,
    pub(in crate::transport) drive: Option<&'a DriveName>,
    pub(in crate::transport) token: Option<&'a Token>,
}

impl Knock<'_> {
    fn address(&self) -> ServerAddress {
        match self.trust {
            Some(_) => ServerAddress::Tls(self.at.clone()),
            None => ServerAddress::Plain(self.at.clone()),
        }
    }
}

/// Comes in.
pub(in crate::transport) fn knock(knock: &Knock<'_>) -> Result<WebStream, Error> {
    let address = knock.address();
    let failed = |error: io::Error| did_not_happen(&address, &error);
    let socket = connect(knock.at).map_err(failed)?;
    socket.set_read_timeout(Some(STEP_MAX)).map_err(failed)?;
    let looked = match knock.trust {
        Some(trust) => Some(Looked::at(address.to_string(), trust)?),
        None => None,
    };
    let tunnel = match &looked {
        Some(looked) => Tunnel::tls(begin_tls(knock.at, looked)?.into()),
        None => Tunnel::plain(),
    };
    let channel = Channel::new(socket, tunnel, KEEPING).map_err(failed)?;
    let mut received = Received::default();
    if let Some(looked) = &looked {
        channel
            .shake(&mut received, READS_MAX, STEP_MAX)
            .map_err(|error| not_shaken(&address, looked, &error))?;
        looked.proved()?;
    }
    let key = generate_key();
    let request = request(knock, &key);
    let mut tunnel = channel.empty_tunnel(STEP_MAX).map_err(failed)?;
    tunnel.put(&[IoSlice::new(request.as_bytes())]).map_err(failed)?;
    drop(tunnel);
    drop(channel.empty_tunnel(STEP_MAX).map_err(failed)?);
    let behind = let_in((knock.at, &address), &channel, &mut received, &key)?;
    Ok(WebStream::new(channel, End::Client, received, behind))
}

fn connect(at: &HostPort) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for ip in (&*at.host, at.port).to_socket_addrs()?.take(IPS_MAX) {
        let ip: SocketAddr = ip;
        match TcpStream::connect_timeout(&ip, CONNECT_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn begin_tls(at: &HostPort, looked: &Looked) -> Result<ClientConnection, Error> {
    let refused =
        |why: &dyn std::fmt::Display| Refusal::Because(format!("TLS cannot be spoken with {at}: {why}"));
    let name = ServerName::try_from(at.host.clone()).map_err(|error| refused(&error))?;
    Ok(ClientConnection::new(looked.config.clone(), name).map_err(|error| refused(&error))?)
}

/// Says why there is no agreement on keys: a certificate that is not trusted is refused for good.
fn not_shaken(address: &ServerAddress, looked: &Looked, error: &io::Error) -> Error {
    if let Some(refusal) = looked.mistrusted() {
        return refusal.into();
    }
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => Refusal::Because(format!(
            "the certificate of {address} is not trusted: {why}; trust the authority that signed it, or pin it"
        ))
        .into(),
        Some(rustls::Error::InvalidMessage(_)) => {
            Refusal::Because(format!(
                "what answers at {address} does not speak TLS: it is no server of drives, or one that is spoken to as \
                 http:// where that is allowed"
            ))
            .into()
        }
        _ => did_not_happen(address, error),
    }
}

fn request(knock: &Knock<'_>, key: &str) -> String {
    let authorization = knock.token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {}\r\n", token.reveal())
    });
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{authorization}\r\n",
        path_of(knock.drive),
        knock.at
    )
}

/// Reads the answer, and returns what has come behind it.
fn let_in(
    (at, address): (&HostPort, &ServerAddress),
    channel: &Channel,
    received: &mut Received,
    key: &str,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    for _ in 0..READS_MAX {
        if !read_more(channel, received, &mut bytes).map_err(|error| did_not_happen(address, &error))? {
            break;
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        if bytes[0] == TLS_ALERT {
            let https = ServerAddress::Tls(at.clone());
            return Err(
                Refusal::Because(format!("what answers at {address} speaks TLS: use {https}")).into(),
            );
        }
        let head_len = match response.parse(&bytes) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_LEN_MAX => continue,
            Ok(httparse::Status::Partial) => return Err(no_server(address, &"its answer is too long")),
            Err(error) => return Err(no_server(address, &error)),
        };
        let code = response.code.expect("a head that was read has a code");
        if code != 101 {
            let is_server = header(response.headers, REFUSED).is_some();
            let reason = reason(channel, received, bytes.split_off(head_len));
            return Err(turned_away(address, code, is_server, &reason));
        }
        let accepted = header(response.headers, "sec-websocket-accept");
        if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(no_server(
                address,
                &"it accepts another WebSocket than was asked for",
            ));
        }
        return Ok(bytes.split_off(head_len));
    }
    let ended = io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the connection ended before it was answered",
    );
    Err(did_not_happen(address, &ended))
}

/// Reads what comes next; false at the end.
fn read_more(channel: &Channel, received: &mut Received, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let from = bytes.len();
    bytes.resize(from + 1024, 0);
    let read = channel.read(received, &mut bytes[from..]);
    bytes.truncate(from + read.as_ref().map_or(0, |len| *len));
    Ok(read? > 0)
}

fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(found.value)
}

/// Returns the text of an answer that lets nobody in.
fn reason(channel: &Channel, received: &mut Received, mut body: Vec<u8>) -> String {
    // What cannot be read is not told: the number says it too.
    for _ in 0..READS_MAX {
        if body.len() >= REASON_LEN_MAX || !matches!(read_more(channel, received, &mut body), Ok(true)) {
            break;
        }
    }
    body.truncate(REASON_LEN_MAX);
    let text = String::from_utf8_lossy(&body);
    text.trim()
        .chars()
        .filter(|character| !character.is_control())
        .collect()
}

/// Says why nobody is let in. Only a server of drives is believed: what stands before it may say anything while it is
/// replaced.
fn turned_away(address: &ServerAddress, code: u16, is_server: bool, reason: &str) -> Error {
    if is_server {
        Refusal::Because(format!("{address} refuses: {reason}")).into()
    } else {
        let is_ill = code >= 500 || code == 429;
        let what = if is_ill {
            "does not serve drives now"
        } else {
            "is no server of drives"
        };
        Failure::DidNotHappen(format!("what answers at {address} {what}: HTTP {code} {reason}")).into()
    }
}

fn no_server(address: &ServerAddress, why: &dyn std::fmt::Display) -> Error {
    Refusal::Because(format!("what answers at {address} is no server of drives: {why}")).into()
}

fn did_not_happen(address: &ServerAddress, error: &io::Error) -> Error {
    let kind = error.kind();
    let why = if matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        "it does not answer in time".to_owned()
    } else if kind == io::ErrorKind::ConnectionRefused {
        "nobody listens there".to_owned()
    } else {
        error.to_string()
    };
    Failure::DidNotHappen(format!("cannot reach the server at {address}: {why}")).into()
}
