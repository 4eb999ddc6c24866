//! How a mount says how it is, to whoever reads `.tenure/status`.

use crate::status::{CacheStatus, OWNER_ANSWER_MAX, Status, Unsynced, Warm, escaped};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use tenure_client::{Files, Salvage};
use tenure_model::{Failure, Refusal};
use tenure_mount::Status as WriteStatus;
use tenure_store::Cache;
use tenure_wire::{Marked, Opened, Owner};

/// An owner that is asked how it is: by one thread at a time, and nobody waits long for the answer.
pub(super) struct AskedOwner {
    owner: Arc<dyn Owner<tenure_core::Branch>>,
    is_asked: Arc<AtomicBool>,
}

impl AskedOwner {
    pub(super) fn of(owner: Arc<dyn Owner<tenure_core::Branch>>) -> Self {
        AskedOwner {
            owner,
            is_asked: Arc::default(),
        }
    }

    /// Returns how it is, and what is said of branches.
    fn status(&self) -> Result<(tenure_wire::Status, Vec<Marked>), tenure_wire::Error> {
        let silent = || Failure::DidNotHappen("the owner of the drive does not answer".into()).into();
        if self.is_asked.swap(true, Ordering::Relaxed) {
            return Err(silent());
        }
        let (owner, is_asked) = (Arc::clone(&self.owner), Arc::clone(&self.is_asked));
        let (send, receive) = sync_channel(1);
        let asking = std::thread::Builder::new().name("status".into()).spawn(move || {
            // An owner of an earlier version says nothing of any.
            let status = owner
                .status()
                .map(|status| (status, owner.marks().unwrap_or_default()));
            is_asked.store(false, Ordering::Relaxed);
            // Whoever asked may be gone by now.
            let _ = send.send(status);
        });
        if asking.is_err() {
            self.is_asked.store(false, Ordering::Relaxed);
        }
        receive
            .recv_timeout(OWNER_ANSWER_MAX)
            .unwrap_or_else(|_| Err(silent()))
    }
}

/// What a mount says of itself that does not change.
pub(super) struct About {
    pub(super) drive: String,
    pub(super) branch: String,
    pub(super) dir: PathBuf,
    pub(super) read_only: bool,
    pub(super) shared: bool,
    pub(super) lag_max_ms: u64,
    pub(super) server: Option<String>,
    /// The options by which other commands find the drive.
    pub(super) place: String,
    pub(super) opened: Opened,
    pub(super) cache: Option<Arc<Cache>>,
    pub(super) warm: Box<dyn Fn() -> Option<Warm> + Send + Sync>,
}

impl About {
    /// Returns what writes the status.
    pub(super) fn writer(self, owner: AskedOwner, branch: Arc<dyn Files>) -> WriteStatus {
        Box::new(move |requests| {
            let status = self.status(&owner, &*branch, requests);
            let mut text = serde_json::to_vec_pretty(&status).expect("a status has only text for keys");
            text.push(b'\n');
            text
        })
    }

    /// Says why nothing that is changed here counts any more, and where what was not durable is.
    fn lost(&self, branch: &dyn Files, error: &tenure_wire::Error) -> String {
        let saved = match branch.salvage() {
            _ if *error != tenure_wire::Error::Refused(Refusal::Stale) => return error.to_string(),
            None => String::new(),
            Some(Salvage::Underway) => "; what was not durable goes into a stray branch".to_owned(),
            Some(Salvage::Done(None)) => "; everything was durable by then".to_owned(),
            Some(Salvage::Done(Some(stray))) => format!(
                "; what was not durable is in the stray branch {stray}: tenure mount {}@{stray} DIR{}",
                self.drive, self.place
            ),
            Some(Salvage::Failed(error)) => format!("; what was not durable cannot be saved: {error}"),
        };
        format!(
            "this mount was not heard of for so long that another session could have its branch, or its branch was taken from \
             it{saved}"
        )
    }

    fn status(&self, owner: &AskedOwner, branch: &dyn Files, requests: BTreeMap<String, u64>) -> Status {
        let (unsynced, totals) = (branch.unsynced(), branch.totals().unwrap_or_default());
        let (of_owner, marks) = match owner.status() {
            Ok((status, marks)) => (Ok(status), marks),
            Err(error) => (Err(error), Vec::new()),
        };
        let mark = marks.into_iter().find(|mark| mark.branch == self.branch);
        let lost = branch
            .broken()
            .filter(|_| !self.read_only)
            .map(|error| self.lost(branch, &error));
        let trouble = match (&of_owner, &lost) {
            (_, Some(why)) => Some(why.clone()),
            (Ok(status), None) => status.trouble.clone().or_else(|| waits(branch)),
            (Err(error), None) => Some(error.to_string()),
        };
        let of_owner = of_owner.ok();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            drive: self.drive.clone(),
            branch: self.branch.clone(),
            dir: self.dir.clone(),
            dir_escaped: escaped(&self.dir),
            read_only: self.read_only,
            shared: self.shared,
            protected: mark.as_ref().is_some_and(|mark| mark.into.is_none()),
            staged_for: mark.and_then(|mark| mark.into),
            pid: std::process::id(),
            owner_pid: of_owner.as_ref().map(|status| status.pid),
            server: self.server.clone(),
            tier: self.opened.tier.clone(),
            epoch: self.opened.epoch.0,
            session: self.opened.session.0,
            delegation: match (self.read_only, &lost) {
                (true, _) => "nothing: it is only read",
                (false, Some(_)) => "nothing any more",
                (false, None) if self.shared => {
                    "of the shared branch, directories in which nobody else works"
                }
                (false, None) => "the branch whole",
            }
            .to_owned(),
            lost,
            unsynced: Unsynced {
                ops: unsynced.ops,
                bytes: unsynced.bytes,
                age_ms: unsynced.age.as_millis() as u64,
            },
            lag_max_ms: self.lag_max_ms,
            inodes: totals.inodes,
            bytes: totals.bytes,
            page_bytes: of_owner.as_ref().map_or(0, |status| status.page_bytes),
            journal_bytes: of_owner.as_ref().map_or(0, |status| status.journal_bytes),
            requests,
            bucket_requests: of_owner.map(|status| status.requests).unwrap_or_default(),
            cache: self.cache.as_ref().map(|cache| CacheStatus::of(&cache.usage())),
            warm: (self.warm)(),
            notices: [&self.opened.notices[..], &branch.damage()].concat(),
            trouble,
        }
    }
}

/// Says why what is not durable waits, where this mount knows it before the owner does.
fn waits(branch: &dyn Files) -> Option<String> {
    let trouble = branch.trouble()?;
    Some(format!("what is not durable waits: {trouble}"))
}
