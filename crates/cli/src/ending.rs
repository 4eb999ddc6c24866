//! How the process of a mount has ended, as who unmounts hears it: it is no child of theirs, so the system does not tell them.
//!
//! The process has a file in memory for that, which who waits for its end has open as well. It takes no folder that both would have
//! to know and no room on a disk that may be full, and nothing of it stays. Invariant: who has ended without a word is never taken
//! for one who has closed the drive.

use crate::error;
use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;

/// The name of the file, by which it is found among those that the process has open.
const NAME: &str = "tenure-ending";
/// How the system shows the name of such a file.
const SHOWN: &[u8] = b"/memfd:tenure-ending";

/// That a mount has nothing that is not durable, though it could not give its branch back: because that or the drive is another's by
/// then, or because the server is away. The context of the error with which it ends.
#[derive(Debug)]
pub(crate) struct NotGivenBack;

impl fmt::Display for NotGivenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the branch could not be given back; everything that was accepted here is durable")
    }
}

/// An error with which a process has ended, as it is printed, and its exit code.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Error {
    pub(crate) text: String,
    pub(crate) code: u8,
}

/// Where a process says how it has ended.
pub(crate) struct Teller(File);

impl Teller {
    /// Lets whoever waits for the end of this process hear of it.
    pub(crate) fn begin() -> anyhow::Result<Self> {
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC).context("cannot have a file in memory")?;
        Ok(Self(file.into()))
    }

    /// Says how this process ends; where something went wrong, with what helps.
    pub(crate) fn tell(mut self, ended: &anyhow::Result<()>, hint: &str) {
        let word = serde_json::to_vec(&word(ended, hint)).expect("text and a number are JSON");
        // Without memory for a few words nothing is said, and that is heard.
        let _ = self.0.write_all(&word);
    }
}

fn word(ended: &anyhow::Result<()>, hint: &str) -> Result<(), Error> {
    let Some(why) = ended.as_ref().err().filter(|why| !why.is::<NotGivenBack>()) else {
        return Ok(());
    };
    let text = error::text_or(why, Some(hint));
    let code = error::code(why);
    Err(Error { text, code })
}

/// Hears how a process has ended.
pub(crate) struct Listener(File);

impl Listener {
    /// Listens to a process that serves a mount; none where it is not one of this machine that may be looked at.
    pub(crate) fn to(pid: u32) -> Option<Self> {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let mut paths = files.map(|file| file.path());
        let is_it = |name: &std::path::Path| name.as_os_str().as_bytes().starts_with(SHOWN);
        let path = paths.find(|path| std::fs::read_link(path).is_ok_and(|name| is_it(&name)))?;
        File::open(path).ok().map(Self)
    }

    /// Returns what the process has said, which has ended; none where it has said nothing.
    pub(crate) fn hear(mut self) -> Option<Result<(), Error>> {
        let mut word = Vec::new();
        self.0.read_to_end(&mut word).ok()?;
        serde_json::from_slice(&word).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_model::{Failure, Refusal};

    #[test]
    fn how_a_process_has_ended_is_heard_and_also_that_it_has_said_nothing() {
        let pid = std::process::id();
        let teller = Teller::begin().expect("there is memory");
        let silent = Listener::to(pid).expect("it is open");
        assert_eq!(silent.hear(), None);
        let listener = Listener::to(pid).expect("it is open");
        let failed = anyhow::Error::from(tenure_wire::Error::from(Failure::Corrupt("gone".into())));
        teller.tell(&Err(failed.context("the drive could not be closed")), "look");
        let heard = listener.hear();
        let text = "error: the drive could not be closed\ncaused by: corrupt: gone\nhint: look\n".to_owned();
        let code = error::FAILED;
        assert_eq!(heard, Some(Err(Error { text, code })));
        assert_eq!(word(&Ok(()), "look"), Ok(()));
        let taken = anyhow::Error::from(tenure_wire::Error::from(Refusal::Stale));
        assert_eq!(word(&Err(taken.context(NotGivenBack)), "look"), Ok(()));
    }
}
