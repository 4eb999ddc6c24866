//! Where drives are: the options by which every command is told, and what they mean.

use crate::bucket::{BucketArgs, Kept};
use crate::output::quoted;
use crate::servers::ServerArgs;
use anyhow::Result;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where drives are: at servers, or in a bucket that this process opens.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Where drives are")]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) bucket: BucketArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) way: Way,
}

/// What protects the bytes on their way to servers and services.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Way {
    /// Trust certificates that these authorities have signed (PEM): of servers, whose certificate is else remembered when it
    /// is first seen, and of the bucket's service, besides those of this machine
    #[arg(long, value_name = "FILE", env = "TENURE_AUTHORITIES")]
    pub(crate) authorities: Option<PathBuf>,
    /// Speak with other machines without TLS where an address begins with http://: of a server, of the bucket's service, and,
    /// for a server, where it listens. Whoever is on the way can then read and change everything, tokens and keys included:
    /// for networks that something else encrypts
    #[arg(long)]
    pub(crate) unencrypted: bool,
}

impl Way {
    /// Returns the options by which another command goes the same way.
    fn arguments(&self) -> Vec<OsString> {
        let authorities = self.authorities.iter();
        let mut arguments: Vec<_> = authorities
            .flat_map(|path| ["--authorities".into(), path.clone().into_os_string()])
            .collect();
        if self.unencrypted {
            arguments.push("--unencrypted".into());
        }
        arguments
    }

    /// Returns them as a shell takes them, each behind a space.
    pub(crate) fn options(&self) -> String {
        as_options(&self.arguments())
    }

    /// Returns the certificates of the authorities that are named, as PEM.
    pub(crate) fn authorities(&self) -> Result<Option<Vec<u8>>> {
        let read = self.authorities.as_deref().map(crate::secret::read_open);
        read.transpose()
    }
}

impl Place {
    /// Returns what tells this place from every other, for names of files that belong to it.
    pub(crate) fn identity(&self) -> Result<PathBuf> {
        Ok(match self.server.named() {
            Some(names) => PathBuf::from(names),
            None => self.kept()?.identity(),
        })
    }

    /// Returns the options, each behind a space, by which another command finds the same drives.
    pub(crate) fn options(&self) -> String {
        as_options(&self.arguments())
    }

    /// Returns the options by which another process of this program finds the same drives.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = match self.server.named() {
            Some(_) => self.server.arguments(),
            None => self.bucket.arguments(),
        };
        arguments.extend(self.way.arguments());
        arguments
    }

    /// Returns the bucket that this process opens where no server is named.
    pub(crate) fn kept(&self) -> Result<Kept> {
        self.bucket.kept(&self.way)
    }
}

/// Returns arguments as a shell takes them, each behind a space.
pub(crate) fn as_options(arguments: &[OsString]) -> String {
    arguments
        .iter()
        .map(|argument| format!(" {}", quoted(argument)))
        .collect()
}
