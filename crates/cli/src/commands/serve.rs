//! `tenure serve`: owns the drives of a bucket for other processes of this machine.

use crate::drives::{self, Asked};
use crate::error::Told;
use crate::output;
use crate::reach::{self, Place};
use anyhow::{Context, Result};
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tenure_core::Branch;
use tenure_model::{DriveName, Refusal};
use tenure_server::Drive;
use tenure_store::Bucket;
use tenure_wire::{Door, Error, Host, Limits, Owner, Whereabouts, serve, unix};

/// Own drives for mounts and commands of this machine, until it is ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tenure serve --bucket /data/bucket --listen unix:/run/tenure.sock &\n  tenure mount work ~/work --server unix:/run/tenure.sock\n\nMounts and commands reach it with --server or TENURE_SERVER. A drive is opened when it is first asked for."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Where to listen: `unix:PATH`, an absolute path of at most 107 bytes
    #[arg(long, value_name = "ADDR", value_parser = reach::unix_path)]
    listen: PathBuf,
}

/// Serves until a signal asks it to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let bucket = args.place.open()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot listen for signals")?;
    let drives = Arc::new(Served {
        bucket,
        socket: args.listen.clone(),
        open: Mutex::default(),
    });
    let listener = unix::listen(&args.listen).map_err(|error| {
        let at = args.listen.display();
        match &error {
            Error::Refused(_) => Told::refused(
                error.to_string(),
                format!("tenure serve --listen unix:{at}.2 ..."),
            ),
            Error::Failed(_) => Told::failed(error.to_string(), format!("namei -l {at}")),
        }
    })?;
    let service = serve::<Branch>(
        [Door::Unix(listener)],
        Arc::clone(&drives) as Arc<dyn Host<Branch>>,
        Limits::default(),
    )?;
    output::line(format_args!(
        "serving the drives of {} at unix:{}",
        drives.bucket.describe(),
        args.listen.display()
    ))?;
    signals.forever().next();
    service.stop();
    for (name, drive) in std::mem::take(&mut *drives.open.lock()) {
        drive
            .close()
            .with_context(|| format!("the drive {name} could not be closed; what was synced is safe"))?;
    }
    let _ = std::fs::remove_file(&args.listen);
    output::line("every drive is closed")
}

/// The drives of a bucket, opened when they are first asked for.
struct Served {
    bucket: Arc<dyn Bucket>,
    socket: PathBuf,
    open: Mutex<BTreeMap<DriveName, Arc<Drive>>>,
}

impl Host<Branch> for Served {
    fn drive(&self, name: &DriveName) -> Result<Whereabouts<Branch>, Error> {
        let mut open = self.open.lock();
        if let Some(drive) = open.get(name) {
            return Ok(Whereabouts::Here(Arc::clone(drive) as Arc<dyn Owner<Branch>>));
        }
        let drive = Drive::open(
            Arc::clone(&self.bucket),
            name,
            reach::options(Some(self.socket.clone())),
        )?;
        open.insert(name.clone(), Arc::clone(&drive));
        Ok(Whereabouts::Here(drive))
    }

    fn control(&self, verb: &str, arguments: &[u8]) -> Result<Vec<u8>, Error> {
        let asked = (verb == drives::VERB)
            .then(|| serde_json::from_slice(arguments).ok())
            .flatten()
            .ok_or_else(|| because(format!("this server does not know what `{verb}` asks for")))?;
        let name = |drive: &str| DriveName::parse(drive).map_err(because);
        match asked {
            Asked::List => {
                let drives = tenure_server::list(self.bucket.as_ref())?;
                let names: Vec<_> = drives.iter().map(DriveName::as_str).collect();
                Ok(serde_json::to_vec(&names).expect("names are text"))
            }
            Asked::Create { drive, uid, gid } => self.create(&name(&drive)?, (uid, gid)),
            Asked::Delete { drive } => self.delete(&name(&drive)?),
        }
    }
}

impl Served {
    fn create(&self, name: &DriveName, user: (u32, u32)) -> Result<Vec<u8>, Error> {
        let mut open = self.open.lock();
        let options = reach::options(Some(self.socket.clone()));
        let drive = reach::create(Arc::clone(&self.bucket), name, user, options)?;
        open.insert(name.clone(), drive);
        Ok(Vec::new())
    }

    /// Deletes a drive unless a session holds a branch of it; who only reads one is sent away.
    fn delete(&self, name: &DriveName) -> Result<Vec<u8>, Error> {
        let mut open = self.open.lock();
        if let Some(drive) = open.get(name) {
            if let Some(by) = drive.branches()?.into_iter().find_map(|line| line.holder) {
                return Err(Refusal::Held { by }.into());
            }
            drive.close()?;
            open.remove(name);
        }
        tenure_server::delete(self.bucket.as_ref(), name, &drives::deleter())?;
        Ok(Vec::new())
    }
}

fn because(why: impl ToString) -> Error {
    Refusal::Because(why.to_string()).into()
}
