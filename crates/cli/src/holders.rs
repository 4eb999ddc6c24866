//! Who holds a branch and may have what is not durable yet: asked to make it so, before a state of the branch is named or forked.

use crate::commands::sync;
use crate::error::Told;
use crate::home;
use crate::mounts;
use crate::output::quoted;
use crate::reach::AnyOwner;
use anyhow::Result;
use std::path::PathBuf;
use tenure_model::DriveName;

/// Has every mount of a branch on this machine make durable what it has, and returns where one of them is; refuses where the branch is
/// mounted elsewhere, because nobody there can be asked.
pub(crate) fn sync_all(owner: &AnyOwner, drive: &DriveName, branch: &str) -> Result<Option<PathBuf>> {
    let mut mounted = None;
    let lent = owner.delegations()?;
    for holder in lent.iter().filter(|lent| lent.name == branch) {
        match mounted_here(&holder.who) {
            Some(dir) => {
                sync::sync(&dir)?;
                mounted = Some(dir);
            }
            None => {
                return Err(Told::refused(
                    format!(
                        "{drive}@{branch} is held by {}, who cannot be asked from here to make durable what is there",
                        holder.who
                    ),
                    format!(
                        "there, tenure sync {} does; without --sync it is as far as it was synced",
                        place_of(&holder.who).map_or_else(|| "DIR".to_owned(), quoted)
                    ),
                ));
            }
        }
    }
    Ok(mounted)
}

/// Returns the directory of a holder's mount, if that is on this machine.
fn mounted_here(who: &str) -> Option<PathBuf> {
    let (_, behind) = who.split_once(&format!(" on {} (process ", home::host()))?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    mounts::of(digits.parse().ok()?)
}

/// Returns the directory of a holder's mount as it says itself.
fn place_of(who: &str) -> Option<&str> {
    let (_, place) = who.split_once("mount at ")?;
    Some(place.trim_end_matches(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_holder_is_mounted_is_in_its_words() {
        let who = "ada on a-box-far-away (process 42, mount at /home/ada/my work)";
        assert_eq!(place_of(who), Some("/home/ada/my work"));
        assert_eq!(mounted_here(who), None, "it is another machine");
        assert_eq!(place_of("ada on box (process 42, tenure bench)"), None);
    }
}
