//! Who holds a branch and may have what is not durable yet: asked to make it so, before a state of the branch is named or forked.

use crate::commands::sync;
use crate::home;
use crate::mounts;
use crate::reach::AnyOwner;
use anyhow::Result;
use std::path::PathBuf;
use tenure_model::BranchName;

/// Has whoever holds or shares a branch make durable what is there, on this machine and others.
pub(crate) fn sync_all(owner: &AnyOwner, branch: &BranchName) -> Result<()> {
    let lent = owner.delegations()?;
    for holder in lent.iter().filter(|lent| lent.name == branch.as_str()) {
        match mounted_here(&holder.who) {
            Some(dir) => sync::sync(&dir)?,
            None => owner.have_shipped(branch)?,
        }
    }
    Ok(())
}

/// Returns the directory of a holder's mount, if that is on this machine.
fn mounted_here(who: &str) -> Option<PathBuf> {
    let (_, behind) = who.split_once(&format!(" on {} (process ", home::host()))?;
    let digits = behind.split(|c: char| !c.is_ascii_digit()).next()?;
    mounts::of(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_of_another_machine_is_mounted_nowhere_here() {
        let who = "ada on a-box-far-away (process 42, mount at /home/ada/my work)";
        assert_eq!(mounted_here(who), None);
    }
}
