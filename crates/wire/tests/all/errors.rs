//! Why a call is not done: one of each sort.

use crate::samples::address;
use tenure_model::{Failure, Refusal};
use tenure_wire::Error;

/// Every refusal and failure.
pub(crate) fn errors() -> Vec<(&'static str, Error)> {
    let text = || "in words".to_owned();
    vec![
        ("not found", Refusal::NotFound.into()),
        ("exists", Refusal::Exists.into()),
        ("not a directory", Refusal::NotDirectory.into()),
        ("is a directory", Refusal::IsDirectory.into()),
        ("not empty", Refusal::NotEmpty.into()),
        ("name too long", Refusal::NameTooLong.into()),
        ("invalid name", Refusal::InvalidName.into()),
        ("invalid argument", Refusal::InvalidArgument.into()),
        ("too many links", Refusal::TooManyLinks.into()),
        ("too large", Refusal::TooLarge.into()),
        ("no space", Refusal::NoSpace.into()),
        ("not permitted", Refusal::NotPermitted.into()),
        ("access denied", Refusal::AccessDenied.into()),
        ("read-only", Refusal::ReadOnly.into()),
        ("no attribute", Refusal::NoAttribute.into()),
        ("range", Refusal::Range.into()),
        ("not supported", Refusal::NotSupported.into()),
        ("no such offset", Refusal::NoSuchOffset.into()),
        ("stale", Refusal::Stale.into()),
        ("held", Refusal::Held { by: text() }.into()),
        ("because", Refusal::Because(text()).into()),
        ("did not happen", Failure::DidNotHappen(text()).into()),
        ("unknown", Failure::Unknown(text()).into()),
        ("no space left", Failure::NoSpace(text()).into()),
        ("corrupt", Failure::Corrupt(text()).into()),
        ("fenced", Failure::Fenced(text()).into()),
        ("waits", Failure::Waits(text()).into()),
        ("newer", Failure::Newer(text()).into()),
        ("no chunk", Refusal::NoChunk { at: address(9) }.into()),
        ("unjoined", Refusal::Unjoined.into()),
        ("elsewhere", Refusal::Elsewhere { asked: 300 }.into()),
    ]
}
