//! `tenure serve`: owns the drives of a bucket for other processes of this machine.

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
    /// Where to listen: `unix:PATH`, at most 107 bytes
    #[arg(long, value_name = "ADDR", value_parser = reach::unix_path)]
    listen: PathBuf,
}

/// Serves until a signal asks it to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let bucket = args.place.open()?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot listen for signals")?;
    let drives = Arc::new(Drives {
        bucket,
        socket: args.listen.clone(),
        open: Mutex::default(),
    });
    let listener = unix::listen(&args.listen).map_err(|error| {
        Told::refused(
            error.to_string(),
            format!("tenure serve --listen unix:{}.2 ...", args.listen.display()),
        )
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
struct Drives {
    bucket: Arc<dyn Bucket>,
    socket: PathBuf,
    open: Mutex<BTreeMap<DriveName, Arc<Drive>>>,
}

impl Host<Branch> for Drives {
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

    fn control(&self, verb: &str, _: &[u8]) -> Result<Vec<u8>, Error> {
        Err(Refusal::Because(format!("this process knows no `{verb}`")).into())
    }
}
