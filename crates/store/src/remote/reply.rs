//! What a reply of the service means: that the bucket says no, that it is worth another try, or nothing of use.
//!
//! Invariant: a put did not happen only if it was never sent, or if the service itself refused it in its own words.

use super::client::Exchange;
use http::StatusCode;
use std::error::Error;

/// Characters of a server's words that are passed on.
const WORDS_LEN_MAX: usize = 200;

/// What a try that brought nothing means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// An object of that key is there.
    Taken,
    /// There is no such object.
    Absent,
    /// There is one, and it ends before the range that was asked for.
    Beyond,
    /// The service refuses, and will refuse again: why, and what to do.
    Refused(String),
    /// It can be tried again.
    Again(String),
}

/// A try that brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) reply: Reply,
    /// Whether what was asked for may have happened all the same.
    pub(super) may_have_happened: bool,
}

impl Miss {
    /// Returns what a try means that ended with this error after this exchange.
    pub(super) fn of(error: &object_store::Error, exchange: &Exchange) -> Self {
        match exchange.status {
            Some(status) if !status.is_success() => Self::of_status(status, &exchange.reason),
            Some(status) => Self::unclear(format!("an odd reply, {}: {}", status.as_u16(), root_of(error))),
            None => Self {
                reply: Reply::Again(root_of(error)),
                may_have_happened: exchange.put_was_sent,
            },
        }
    }

    /// Returns what a try means that was ended by its time.
    pub(super) fn timed_out(exchange: &Exchange) -> Self {
        Self {
            reply: Reply::Again("no answer in time".to_owned()),
            may_have_happened: exchange.put_was_sent,
        }
    }

    fn of_status(status: StatusCode, reason: &[u8]) -> Self {
        let reason = Reason::parsed(reason);
        let said = reason.said(status);
        let code = reason.code.as_str();
        let reply = match (status.as_u16(), code) {
            (412 | 304, _) | (409, "BlobAlreadyExists") => Reply::Taken,
            // A conflict says that another request is on its way, not that there is an object.
            (409 | 408 | 425 | 429, _) | (400, "RequestTimeout" | "IncompleteBody" | "BadDigest") => {
                return Self::unclear(said);
            }
            (404, "NoSuchKey" | "BlobNotFound") => Reply::Absent,
            // Something in between says so; nothing follows for the bucket.
            (404, "") => return Self::unclear(said),
            (416, _) => Reply::Beyond,
            (501 | 505, _) => Reply::Refused(format!(
                "{said}; it lacks what a bucket needs: use another service"
            )),
            (500.., _) => return Self::unclear(said),
            _ => Reply::Refused(format!("{said}; {}", advice(status, code))),
        };
        Self {
            reply,
            // A refusal without the service's own code may come from something in between.
            may_have_happened: code.is_empty(),
        }
    }

    fn unclear(why: String) -> Self {
        Self {
            reply: Reply::Again(why),
            may_have_happened: true,
        }
    }
}

/// Says what a person can do about a refusal.
fn advice(status: StatusCode, code: &str) -> &'static str {
    match (code, status.as_u16()) {
        ("NoSuchBucket" | "ContainerNotFound", _) => {
            "there is no such bucket: make it first, or check its name"
        }
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "AuthenticationFailed", _) => "check the keys",
        ("ExpiredToken" | "InvalidToken", _) => "the keys have ended: give new ones",
        ("RequestTimeTooSkewed", _) => "set this machine's clock",
        ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException", _)
        | (_, 300..=399) => "the bucket is elsewhere: check its region and endpoint",
        (_, 401 | 403) => "let these keys put, get, list and delete there, or give others",
        (_, 413) => "it takes no objects of this length: use another service",
        _ => "check the bucket's name, region and endpoint",
    }
}

/// What an error document says.
struct Reason {
    code: String,
    message: String,
}

impl Reason {
    fn parsed(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        Self {
            code: element(&text, "Code"),
            message: element(&text, "Message"),
        }
    }

    fn said(&self, status: StatusCode) -> String {
        let mut said = status.as_u16().to_string();
        for part in [&self.code, &self.message] {
            if !part.is_empty() {
                said.push(' ');
                said.push_str(part);
            }
        }
        said
    }
}

/// Returns what the first element of that name holds, in plain characters.
fn element(text: &str, name: &str) -> String {
    let inside = text.split_once(&format!("<{name}>"));
    let inside = inside.and_then(|(_, behind)| behind.split_once(&format!("</{name}>")));
    inside.map(|(inside, _)| plain(inside)).unwrap_or_default()
}

fn plain(text: &str) -> String {
    let plain = text.chars().filter(|character| !character.is_control());
    plain.take(WORDS_LEN_MAX).collect()
}

/// Returns the words of the error at the bottom: those above repeat it, around the whole request.
pub(super) fn root_of(error: &object_store::Error) -> String {
    let mut root: &dyn Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    plain(&root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, code: &str) -> Miss {
        let body = match code {
            "" => String::new(),
            _ => format!("<Error><Code>{code}</Code><Message>in words</Message></Error>"),
        };
        Miss::of_status(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn only_a_failed_condition_says_that_the_object_is_there() {
        for (status, code) in [
            (412, "PreconditionFailed"),
            (412, ""),
            (304, ""),
            (409, "BlobAlreadyExists"),
        ] {
            assert_eq!(reply(status, code).reply, Reply::Taken, "{status} {code}");
        }
        for code in ["ConditionalRequestConflict", "OperationAborted", ""] {
            let miss = reply(409, code);
            assert!(
                matches!(miss.reply, Reply::Again(_)) && miss.may_have_happened,
                "{code}"
            );
        }
    }

    #[test]
    fn what_may_have_happened_is_never_said_to_have_not() {
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            let miss = reply(status, "SlowDown");
            assert!(
                matches!(miss.reply, Reply::Again(_)) && miss.may_have_happened,
                "{status}"
            );
        }
        for status in [301, 400, 401, 403, 405, 413, 501] {
            let miss = reply(status, "SomeCode");
            assert!(
                matches!(miss.reply, Reply::Refused(_)) && !miss.may_have_happened,
                "{status}"
            );
            assert!(
                reply(status, "").may_have_happened,
                "{status} of something in between"
            );
        }
    }

    #[test]
    fn only_the_service_itself_says_that_an_object_is_absent() {
        assert_eq!(reply(404, "NoSuchKey").reply, Reply::Absent);
        assert!(matches!(reply(404, "").reply, Reply::Again(_)));
        assert!(matches!(reply(404, "NoSuchBucket").reply, Reply::Refused(_)));
        assert_eq!(reply(416, "InvalidRange").reply, Reply::Beyond);
    }

    #[test]
    fn a_refusal_says_what_the_service_said_and_what_to_do() {
        let says = |status, code| {
            let Reply::Refused(why) = reply(status, code).reply else {
                panic!("a refusal");
            };
            why
        };
        assert_eq!(
            says(404, "NoSuchBucket"),
            "404 NoSuchBucket in words; there is no such bucket: make it first, or check its name"
        );
        assert_eq!(
            says(403, "AccessDenied"),
            "403 AccessDenied in words; let these keys put, get, list and delete there, or give others"
        );
        assert_eq!(
            says(301, "PermanentRedirect"),
            "301 PermanentRedirect in words; the bucket is elsewhere: check its region and endpoint"
        );
    }

    #[test]
    fn no_document_breaks_the_reader() {
        for body in [
            &b"<Code>"[..],
            b"</Code><Code>",
            b"\xff<Code>\x00A\x1b</Code>",
            b"{}",
            b"<Code></Code>",
        ] {
            let _ = Miss::of_status(StatusCode::FORBIDDEN, body);
        }
        let long = format!("<Code>{}</Code>", "x".repeat(10_000));
        let Reply::Refused(why) = Miss::of_status(StatusCode::FORBIDDEN, long.as_bytes()).reply else {
            panic!("a refusal");
        };
        assert!(why.len() < 1000);
    }
}
