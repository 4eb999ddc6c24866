//! What a mount leaves behind for the next one to say, should its process be killed: how much was not durable.
//!
//! A small file beside the logs, written without waiting for the disk: it outlives the process, not the machine.

use crate::home;
use crate::output;
use anyhow::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use tenure_client::{Unsynced, Witness};

/// The file, open. A mount that ends as it should leaves zeros in it.
pub(super) struct Note(File);

/// Length of the note: three numbers of 20 digits, with spaces.
const LEN: usize = 63;

impl Note {
    /// Returns what the last mount of `folder`'s drive and branch left unsaid, and begins a new note.
    pub(super) fn begin(folder: &Path, drive: &str, branch: &str) -> Result<(Self, Option<String>)> {
        let name = home::short_name(&folder.join(drive).join(branch));
        let path = home::state()?.join(format!("unsynced-{name}"));
        let last = std::fs::read_to_string(&path)
            .ok()
            .and_then(|text| sentence(&text));
        let file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .open(&path)?;
        Ok((Note(file), last))
    }
}

impl Witness for Note {
    fn see(&self, unsynced: Unsynced) {
        let text = format!(
            "{:20} {:20} {:20}\n",
            unsynced.ops,
            unsynced.bytes,
            unsynced.age.as_millis()
        );
        debug_assert_eq!(text.len(), LEN);
        // Nothing depends on it but a sentence in a notice.
        let _ = self.0.write_all_at(text.as_bytes(), 0);
    }
}

fn sentence(text: &str) -> Option<String> {
    let mut numbers = text
        .split_whitespace()
        .map_while(|number| number.parse::<u64>().ok());
    let (ops, bytes, age) = (numbers.next()?, numbers.next()?, numbers.next()?);
    if ops + bytes == 0 {
        return None;
    }
    let age = Duration::from_millis(age);
    Some(format!(
        "the last process of this mount ended without unmounting: when it was last looked at, {ops} changes of names and \
         attributes and {} of contents, the oldest {age:?} old, were not durable and may be lost",
        output::bytes(bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_killed_mount_becomes_a_sentence() {
        let said = sentence("                   3                 4096                  120\n")
            .expect("something is lost");
        assert!(
            said.contains("3 changes") && said.contains("4.00 KiB") && said.contains("120ms"),
            "{said}"
        );
        assert_eq!(sentence("0 0 0\n"), None);
        assert_eq!(sentence(""), None);
    }
}
