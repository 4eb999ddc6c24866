//! How a command gets at a drive: it opens it itself, or asks the process that owns it.

use crate::clock::{MachineClock, random};
use crate::error::Told;
use crate::home;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{BranchName, DriveName};
use tenure_server::{Beginning, Drive, Options};
use tenure_store::{Bucket, FolderBucket};
use tenure_wire::{BranchInfo, Owner};

/// The branch that is meant where none is named.
pub(crate) const MAIN: &str = "main";

/// Where drives are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// The bucket, a folder [default: tenure/bucket in the user's data directory]
    #[arg(long, value_name = "FOLDER", env = "TENURE_BUCKET")]
    pub(crate) bucket: Option<PathBuf>,
}

impl Place {
    /// Returns the bucket's folder.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        match &self.bucket {
            Some(folder) => {
                let text = folder.to_string_lossy();
                match text.split_once("://") {
                    Some(("file", path)) => Ok(PathBuf::from(path)),
                    Some((scheme, _)) => Err(Told::refused(
                        format!("this version keeps drives in folders, not in {scheme}:// buckets"),
                        "--bucket /some/folder",
                    )),
                    None => Ok(folder.clone()),
                }
            }
            None => home::bucket(),
        }
    }

    /// Opens the bucket.
    pub(crate) fn open(&self) -> Result<Arc<dyn Bucket>> {
        let folder = self.folder()?;
        if !folder.exists() {
            return Err(Told::refused(
                format!("there is no bucket at {}", folder.display()),
                "tenure drive create NAME, or tenure mount NAME DIR --create, makes it",
            ));
        }
        Ok(Arc::new(FolderBucket::open(&folder)?))
    }

    /// Opens the bucket, and makes it where there is none.
    pub(crate) fn create(&self) -> Result<Arc<dyn Bucket>> {
        Ok(Arc::new(FolderBucket::create(&self.folder()?)?))
    }
}

/// A drive that answers.
pub(crate) enum Reached {
    /// This process owns it until it is closed.
    Here(Arc<Drive>),
}

impl Reached {
    /// Returns what answers the calls.
    pub(crate) fn owner(&self) -> &dyn Owner<Branch> {
        match self {
            Reached::Here(drive) => drive.as_ref(),
        }
    }

    /// Lets the drive go.
    pub(crate) fn close(self) -> Result<()> {
        match self {
            Reached::Here(drive) => drive
                .close()
                .context("the drive could not be closed; nothing is lost"),
        }
    }
}

/// Returns how this process opens a drive.
pub(crate) fn options(socket: Option<PathBuf>) -> Options {
    let mut options = Options::new(Arc::new(MachineClock), random(), home::host(), std::process::id());
    options.socket = socket;
    options
}

/// Gets at a drive of the bucket.
pub(crate) fn drive(place: &Place, name: &DriveName) -> Result<Reached> {
    Ok(Reached::Here(Drive::open(place.open()?, name, options(None))?))
}

/// Makes a drive; its first branch is `main`, its root belongs to whoever makes it.
pub(crate) fn create(bucket: Arc<dyn Bucket>, name: &DriveName, options: Options) -> Result<Arc<Drive>> {
    let beginning = Beginning {
        hash_key: random(),
        branch: BranchName::parse(MAIN).expect("a literal name"),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    Ok(Drive::create(bucket, name, &beginning, options)?)
}

/// Returns the branch or checkpoint of a name, or refuses with those that there are.
pub(crate) fn line(owner: &dyn Owner<Branch>, drive: &DriveName, name: &str) -> Result<BranchInfo> {
    let lines = owner.branches()?;
    let known: Vec<_> = lines.iter().map(|line| line.name.clone()).take(8).collect();
    lines.into_iter().find(|line| line.name == name).ok_or_else(|| {
        Told::refused(
            format!(
                "{drive} has no branch or checkpoint {name}; it has {}",
                known.join(", ")
            ),
            format!("tenure fork {drive} {name}"),
        )
    })
}
