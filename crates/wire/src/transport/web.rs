//! The network: a conversation in a WebSocket over HTTP/1.1, over TLS or, where that is allowed, plain TCP.
//!
//! A client asks for `/v1/drives/NAME/session` with a bearer token, or for `/v1/session` to speak of no drive but with the
//! server itself, and is let in, or told in an HTTP answer why not; what has not become a WebSocket costs no thread. Afterwards both ends block, as on a unix socket. Invariant: nobody
//! speaks to an owner before its doorkeeper has seen the token, and no client shows a token before it has seen the
//! certificate that it expects.

mod channel;
mod identity;
mod knock;
mod listener;
mod token;
mod trust;
mod tunnel;
mod websocket;

pub use identity::{Identity, Pem};
pub use listener::{Doorkeeper, Listener, Security, listen};
pub(super) use listener::{Stop, accept_all};
pub use token::Token;
pub use trust::{Fingerprint, Pins, Trust};

pub(super) use knock::{Knock, knock};
pub(super) use websocket::WebStream;

use channel::Keeping;
use std::time::Duration;
use tenure_model::DriveName;

/// Bytes of the head of an HTTP request or answer.
const HEAD_LEN_MAX: usize = 16 << 10;
/// Where a session about a drive begins, with its name in between.
const PATH_BEFORE: &str = "/v1/drives/";
const PATH_BEHIND: &str = "/session";
/// Where a session with the server itself begins.
const PATH_OF_SERVER: &str = "/v1/session";
/// The header by which a client knows that a server of drives has refused it, and nobody on the way.
const REFUSED: &str = "tenure-refused";

/// Returns where a session about a drive begins, or about none.
fn path_of(drive: Option<&DriveName>) -> String {
    drive.map_or_else(
        || PATH_OF_SERVER.to_owned(),
        |drive| format!("{PATH_BEFORE}{drive}{PATH_BEHIND}"),
    )
}

/// Returns the drive that a session at a path is about, or why there is no session at that path.
fn drive_at(path: &str) -> Result<Option<DriveName>, String> {
    if path == PATH_OF_SERVER {
        return Ok(None);
    }
    let name = path
        .strip_prefix(PATH_BEFORE)
        .and_then(|rest| rest.strip_suffix(PATH_BEHIND));
    let name = name.ok_or_else(|| {
        format!("there is nothing at this path; sessions are at {PATH_BEFORE}NAME{PATH_BEHIND} and {PATH_OF_SERVER}")
    })?;
    let drive = DriveName::parse(name).map_err(|_| "the path holds no name of a drive".to_owned())?;
    Ok(Some(drive))
}

/// What both ends do to learn that the other has gone though nobody there reads or writes: a greeting may wait for a drive
/// to be opened, and a client may have nothing to say. Where it waits for something a client asks in words, and sooner.
const KEEPING: Keeping = Keeping {
    idle: Duration::from_secs(5),
    interval: Duration::from_secs(2),
    count: 3,
    unacknowledged_max: Duration::from_secs(30),
};
