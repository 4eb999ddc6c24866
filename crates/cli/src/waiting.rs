//! What a person is told who waits: after a while, for whom.

use crate::commands::status::Mounted;
use crate::mounts;
use crate::output;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long nothing is said, and how long a mount may take to say how it is when all are asked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A wait; it is over when this goes.
pub(crate) struct Waiting {
    _over: Sender<()>,
}

impl Waiting {
    /// Begins to wait; `whom` is asked what to say once it has taken a while, and must not wait itself.
    pub(crate) fn begin(whom: impl FnOnce() -> String + Send + 'static) -> Self {
        let (over, is_over) = channel::<()>();
        let tell = move || {
            if is_over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                output::note(format_args!("note: still waiting for {}", whom()));
            }
        };
        // Without a thread for it nobody is told, and what is waited for comes all the same.
        let _ = std::thread::Builder::new().name("waiting".into()).spawn(tell);
        Waiting { _over: over }
    }

    /// Begins to wait for the mount at `dir`.
    pub(crate) fn for_mount(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Waiting::begin(move || {
            let why = match mounts::process(&mounts::resolved(&dir)) {
                None => "its process is not known".to_owned(),
                Some(process) if process.is_stopped => mounts::how_it_is(process.pid),
                Some(process) => trouble(&dir).unwrap_or_else(|| mounts::how_it_is(process.pid)),
            };
            format!("the mount at {}; {why}", dir.display())
        })
    }
}

/// Returns what a mount says that it waits for.
fn trouble(dir: &Path) -> Option<String> {
    Mounted::at(dir).ok()?.status.trouble
}
