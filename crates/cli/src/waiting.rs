//! What a person is told who waits: after a while, for whom.

use crate::mounts;
use crate::output;
use crate::status::Mounted;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long nothing is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A wait; it is over when this goes.
pub(crate) struct Waiting {
    _over: Sender<()>,
}

impl Waiting {
    /// Begins to wait; `whom` is asked what to say once it has taken a while, and must not wait itself. It says nothing where
    /// nobody is left who could be waited for.
    pub(crate) fn begin(whom: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        let (over, is_over) = channel::<()>();
        let tell = move || {
            if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
                && let Some(whom) = whom()
            {
                output::note(format_args!("note: still waiting for {whom}"));
            }
        };
        // Without a thread for it nobody is told, and what is waited for comes all the same.
        let _ = std::thread::Builder::new().name("waiting".into()).spawn(tell);
        Waiting { _over: over }
    }

    /// Begins to wait for the mount at `dir`.
    pub(crate) fn for_mount(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Waiting::begin(move || mount(&dir))
    }

    /// Begins to wait for the end of a process whose mount is gone.
    pub(crate) fn for_end(pid: u32) -> Self {
        Waiting::begin(move || end(pid))
    }
}

/// Says how the mount at `dir` is that somebody waits for, if it is there still.
fn mount(dir: &Path) -> Option<String> {
    let at = mounts::resolved(dir);
    let why = match mounts::process(&at) {
        // It has been taken away meanwhile.
        None if mounts::all().is_ok_and(|all| !all.contains(&at)) => return None,
        None => "its process is not known".to_owned(),
        Some(process) if process.is_stopped => mounts::how_it_is(process.pid),
        Some(process) => trouble(dir).unwrap_or_else(|| mounts::how_it_is(process.pid)),
    };
    Some(format!("the mount at {}; {why}", dir.display()))
}

/// Says how a process is whose end somebody waits for, if it has not ended.
fn end(pid: u32) -> Option<String> {
    mounts::is_there(pid).then(|| format!("the end of the mount's process; {}", mounts::how_it_is(pid)))
}

/// Returns what a mount says that it waits for.
fn trouble(dir: &Path) -> Option<String> {
    Mounted::at(dir).ok()?.status.trouble
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_what_has_ended_meanwhile() {
        let folder = tempfile::tempdir().expect("there is room");
        assert_eq!(mount(folder.path()), None);
        const BEYOND_EVERY_PROCESS: u32 = 4_194_305;
        assert_eq!(end(BEYOND_EVERY_PROCESS), None);
        assert!(end(std::process::id()).is_some_and(|said| said.contains("the end of")));
    }
}
