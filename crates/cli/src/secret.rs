//! Files that hold secrets, or what secrets are checked by: who may read them is looked at before they are believed.

use crate::error::Told;
use anyhow::Result;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of such a file: thousands of tokens, or every authority there is.
const FILE_LEN_MAX: u64 = 4 << 20;
/// What nobody but the owner may: others nothing, the group no more than read.
const FORBIDDEN: u32 = 0o037;

/// Reads a file that is no secret.
pub(crate) fn read_open(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        let shown = path.display();
        return Err(Told::refused(
            format!("{shown} is longer than any file of its kind: {FILE_LEN_MAX} bytes at most are read"),
            format!("ls -l {shown}"),
        ));
    }
    Ok(bytes)
}

/// Reads a secret; refuses one that others can read, or that a group can change.
pub(crate) fn read(path: &Path) -> Result<String> {
    let found = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    let mode = found.mode() & 0o777;
    if found.is_file() && mode & FORBIDDEN != 0 {
        let shown = path.display();
        return Err(Told::refused(
            format!(
                "{shown} holds secrets, and its mode is {mode:03o}: others can read it, or a group change it"
            ),
            format!("chmod 600 {shown}; who has read it meanwhile may have what is in it"),
        ));
    }
    String::from_utf8(read_open(path)?).map_err(|_| {
        let shown = path.display();
        Told::refused(format!("{shown} is no text"), format!("file {shown}"))
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    let is_missing = error.kind() == ErrorKind::NotFound;
    let seen = if is_missing {
        path.parent().unwrap_or(path)
    } else {
        path
    };
    let hint = format!("ls -ld {}", seen.display());
    Told::refused(format!("cannot read {shown}: {error}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("secret");
        std::fs::write(&path, "word").expect("there is room");
        for (mode, is_good) in [
            (0o600, true),
            (0o400, true),
            (0o440, true),
            (0o644, false),
            (0o660, false),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(read(&path).is_ok(), is_good, "{mode:o}");
        }
        assert!(read(&folder.path().join("none")).is_err());
    }
}
