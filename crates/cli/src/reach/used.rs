//! A drive for a command that is done soon: who is waited for is told, and a drive that is not there is refused with where it could be.

use super::{AnyOwner, Purpose, Reached, drive, who};
use crate::error::Told;
use crate::home;
use crate::mounts;
use crate::output;
use crate::pins;
use crate::place::Place;
use crate::waiting::Waiting;
use anyhow::Result;
use std::sync::Arc;
use tenure_model::DriveName;
use tenure_store::Cache;

/// A drive that a command uses which is done soon; who is waited for is told meanwhile.
pub(crate) struct Used {
    reached: Reached,
    waiting: Option<Waiting>,
}

impl Used {
    /// Returns what answers the calls.
    pub(crate) fn owner(&self) -> AnyOwner {
        self.reached.owner()
    }

    /// Tells nobody any more that the drive is waited for.
    pub(crate) fn stop_waiting(&mut self) {
        self.waiting = None;
    }

    /// Lets the drive go.
    pub(crate) fn close(self) -> Result<()> {
        self.reached.close()
    }
}

/// Gets at a drive for a command that is done soon, and only looks.
pub(crate) fn drive_to_read(place: &Place, name: &DriveName, command: &str) -> Result<Used> {
    used(place, name, (command, Purpose::Read))
}

/// Gets at a drive for a command that is done soon.
pub(crate) fn drive_for(place: &Place, name: &DriveName, command: &str) -> Result<Used> {
    used(place, name, (command, Purpose::Change))
}

fn used(place: &Place, name: &DriveName, (command, purpose): (&str, Purpose)) -> Result<Used> {
    let (told_place, told_name) = (place.clone(), name.clone());
    let waiting = Waiting::begin(move || Some(whom(&told_place, &told_name)));
    let who = who(format!("tenure {command}"), false);
    let reached = drive(place, name, (who, purpose), &Arc::new(Cache::in_memory()))
        .map_err(|error| no_such_drive(error, place, name))?;
    pins::tell_news();
    if let Some(notice) = reached.notice() {
        output::note(format_args!("note: {notice}"));
    }
    Ok(Used {
        reached,
        waiting: Some(waiting),
    })
}

/// Says where a drive that is not there could be, and how it is made there and nowhere else.
fn no_such_drive(error: anyhow::Error, place: &Place, name: &DriveName) -> anyhow::Error {
    if place.server.is_named() || !error.to_string().starts_with("there is no drive") {
        return error;
    }
    let options = place.options();
    Told::refused(
        error.to_string(),
        format!(
            "tenure drive list{options} shows those that there are; tenure drive create {name}{options} makes this one"
        ),
    )
}

/// Says who has a drive and how that process is; asks nobody but the bucket.
pub(crate) fn whom(place: &Place, name: &DriveName) -> String {
    if let Some(servers) = place.server.named() {
        return format!(
            "the server at {servers} (there, ps -o pid,stat,args -C tenure shows who is stopped: T)"
        );
    }
    let holder = place
        .kept()
        .and_then(|kept| kept.open())
        .ok()
        .and_then(|bucket| tenure_server::holder(bucket.as_ref(), name).ok().flatten());
    match holder {
        Some(holder) if holder.host != home::host() => {
            format!("{name}, which process {} on {} has", holder.pid, holder.host)
        }
        Some(holder) if holder.pid != std::process::id() => {
            format!("{name}; {}", mounts::how_it_is(holder.pid))
        }
        Some(_) | None => format!("{name}: its bucket is being read"),
    }
}
