//! The answer to an HTTP request: an invitation to a session, or a refusal in words.

use super::{Doorkeeper, Invited};
use crate::transport::guest::Guest;
use crate::transport::web::{REFUSED, drive_at};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use std::sync::Arc;
use tungstenite::handshake::derive_accept_key;

/// Why somebody is not invited.
struct Declined {
    status: StatusCode,
    why: String,
}

/// Answers a request, and returns who is invited by the answer.
pub(super) fn answer(
    mut request: Request<Incoming>,
    doorkeeper: &Arc<dyn Doorkeeper>,
) -> (Response<Full<Bytes>>, Option<Invited>) {
    match invite(&request, doorkeeper) {
        Ok((guest, key)) => {
            let upgrade = hyper::upgrade::on(&mut request);
            (invitation(&key), Some(Invited { upgrade, guest }))
        }
        Err(declined) => (refusal(declined), None),
    }
}

fn invite(
    request: &Request<Incoming>,
    doorkeeper: &Arc<dyn Doorkeeper>,
) -> Result<(Guest, HeaderValue), Declined> {
    let declined = |status, why: &str| Declined {
        status,
        why: why.to_owned(),
    };
    let drive = drive_at(request.uri().path()).map_err(|why| declined(StatusCode::NOT_FOUND, &why))?;
    if request.method() != Method::GET {
        return Err(declined(
            StatusCode::METHOD_NOT_ALLOWED,
            "a session begins with GET",
        ));
    }
    // Before anything else is told: who has no token learns nothing.
    let shown = token(request.headers());
    let guest = Guest::admitted(doorkeeper, shown, drive)
        .map_err(|refusal| declined(StatusCode::UNAUTHORIZED, &refusal.to_string()))?;
    let headers = request.headers();
    let speaks =
        |name: HeaderName, word: &str| words(headers, &name).any(|found| found.eq_ignore_ascii_case(word));
    let is_websocket = request.version() == hyper::Version::HTTP_11
        && speaks(UPGRADE, "websocket")
        && speaks(CONNECTION, "upgrade")
        && speaks(SEC_WEBSOCKET_VERSION, "13");
    match headers.get(SEC_WEBSOCKET_KEY) {
        Some(key) if is_websocket => Ok((guest, key.clone())),
        _ => Err(declined(
            StatusCode::UPGRADE_REQUIRED,
            "a session is a WebSocket of version 13 over HTTP/1.1",
        )),
    }
}

/// Returns the token that is shown (RFC 6750, 2.1).
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the words of a header that is a list.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn invitation(key: &HeaderValue) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("it is Base64");
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

fn refusal(Declined { status, why }: Declined) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{why}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(REFUSED, HeaderValue::from_static("1"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    response
}
