//! Where things are on this machine: the embedded bucket, the sockets and the logs (XDG base directories).

use crate::error::Told;
use crate::output;
use anyhow::Result;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use tenure_model::Digest;

/// The variable that says where state is kept.
pub(crate) const STATE: &str = "XDG_STATE_HOME";
/// The variable that says where sockets are.
pub(crate) const SOCKETS: &str = "XDG_RUNTIME_DIR";

/// The variable that says where the embedded bucket is.
const DATA: &str = "XDG_DATA_HOME";

/// Returns the folder of the embedded bucket.
pub(crate) fn bucket() -> Result<PathBuf> {
    Ok(data()?.join("bucket"))
}

/// Makes what the embedded bucket is in, where it is not there.
pub(crate) fn make_data() -> Result<()> {
    made(data()?, DATA).map(drop)
}

fn data() -> Result<PathBuf> {
    Ok(base(DATA, ".local/share")?.join("tenure"))
}

/// Returns the folder for what this user's processes keep and could make again: logs of mounts, what was seen of servers, a
/// server's own certificate. It is made where it is not there.
pub(crate) fn state() -> Result<PathBuf> {
    made(base(STATE, ".local/state")?.join("tenure"), STATE)
}

/// Returns the folder for what could be read again.
pub(crate) fn cache() -> Result<PathBuf> {
    Ok(base("XDG_CACHE_HOME", ".cache")?.join("tenure"))
}

/// Returns the folder for sockets, and makes it: nobody else may enter it.
pub(crate) fn sockets() -> Result<PathBuf> {
    let base = match directory(SOCKETS) {
        Some(base) => base,
        None => {
            let user = rustix::process::geteuid().as_raw();
            let own = made(std::env::temp_dir().join(format!("tenure-{user}")), SOCKETS)?;
            // Anybody may have made it before.
            vet_own(&own, user)?;
            own
        }
    };
    made(base.join("tenure"), SOCKETS)
}

/// Returns a name for `path` that is short and that no other path has.
pub(crate) fn short_name(path: &Path) -> String {
    Digest::of(path.as_os_str().as_encoded_bytes()).to_string()[..16].to_owned()
}

/// Returns this machine's name.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns who works here: the agent that the environment names, or else the user.
pub(crate) fn agent() -> String {
    let named = ["TENURE_AGENT", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    named.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}

fn base(variable: &'static str, below_home: &str) -> Result<PathBuf> {
    if let Some(directory) = directory(variable) {
        return Ok(directory);
    }
    let home = directory("HOME").ok_or_else(|| {
        Told::refused(
            format!("neither {variable} nor HOME says where this user's files are"),
            format!("{variable}=/some/folder tenure ..."),
        )
    })?;
    Ok(home.join(below_home))
}

fn directory(variable: &'static str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    // The specification says that a path that is not absolute is to be ignored, and an empty one is none.
    if !path.is_absolute() && !path.as_os_str().is_empty() {
        tell_ignored(variable, &path);
    }
    Some(path).filter(|path| path.is_absolute())
}

/// Says once that a variable counts for nothing.
fn tell_ignored(variable: &'static str, path: &Path) {
    static TOLD: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if TOLD.lock().insert(variable) {
        output::note(format_args!(
            "note: {variable} does not count, because it is not an absolute path: {}",
            output::path(path)
        ));
    }
}

/// Refuses a folder that belongs to somebody else, or that others may change.
fn vet_own(path: &Path, user: u32) -> Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Told::refused(
        format!(
            "the folder for sockets, {}, is not this user's alone",
            path.display()
        ),
        "XDG_RUNTIME_DIR=/a/folder/of/your/own tenure ...",
    ))
}

fn made(path: PathBuf, variable: &str) -> Result<PathBuf> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .map_err(|error| {
            let there = path.ancestors().skip(1).find(|above| above.exists());
            let there = there.unwrap_or(Path::new("/"));
            Told::failed(
                format!("cannot make the folder {}: {error}", path.display()),
                elsewhere(there, variable),
            )
        })?;
    Ok(path)
}

/// Says what helps where nothing can be made in a folder of this user.
pub(crate) fn elsewhere(folder: &Path, variable: &str) -> String {
    let folder = output::quoted(folder);
    format!("ls -ld {folder}; df {folder}; or put it elsewhere: {variable}=/some/folder tenure ...")
}
