//! The keys of an S3 user, from where AWS's own tools take them: the environment, or a file of sections.

use super::variable;
use crate::error::Told;
use crate::secret;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tenure_store::remote::AccessKeys;

/// Returns the keys of a file that is named, of the environment, or of the user's own file; none where there are none, and
/// the machine may have been given some.
pub(super) fn found(named: Option<&Path>) -> Result<Option<AccessKeys>> {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    if let Some(path) = named {
        let keys = of_section(&secret::read(path)?, &profile);
        return keys.map(Some).ok_or_else(|| {
            Told::refused(
                format!("{} has no keys in its section [{profile}]", path.display()),
                format!("its lines are: [{profile}], aws_access_key_id = ..., aws_secret_access_key = ..."),
            )
        });
    }
    if let (Some(id), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        let session_token = variable("AWS_SESSION_TOKEN");
        return Ok(Some(AccessKeys {
            id,
            secret,
            session_token,
        }));
    }
    let shared = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let own = shared.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".aws/credentials")));
    match own.filter(|path| path.exists()) {
        Some(path) => Ok(of_section(&secret::read(&path)?, &profile)),
        None => Ok(None),
    }
}

/// Returns the keys of a section; what stands before any section belongs to `default`.
fn of_section(text: &str, wanted: &str) -> Option<AccessKeys> {
    let (mut id, mut secret, mut session_token) = (None, None, None);
    let mut section = "default";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
        } else if let Some((name, value)) = line.split_once('=').filter(|_| section == wanted) {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => session_token = value,
                _ => {}
            }
        }
    }
    Some(AccessKeys {
        id: id?,
        secret: secret?,
        session_token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_their_section() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s=1\n\n[other]\n\
                    aws_access_key_id = B\naws_secret_access_key = t\naws_session_token = u\nregion = x\n[half]\n\
                    aws_access_key_id = C\n";
        let of = |section| of_section(text, section).map(|keys| (keys.id, keys.secret, keys.session_token));
        assert_eq!(of("default"), Some(("A".into(), "s=1".into(), None)));
        assert_eq!(of("other"), Some(("B".into(), "t".into(), Some("u".into()))));
        assert_eq!(of("half"), None);
        assert_eq!(of("none"), None);
        let bare = of_section("aws_access_key_id=A\naws_secret_access_key=B", "default");
        assert!(bare.is_some());
    }
}
