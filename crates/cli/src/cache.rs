//! Where what is read of a bucket elsewhere is kept on this machine, and how much of it.

use crate::home;
use anyhow::Result;
use std::path::PathBuf;
use std::sync::Arc;
use tenure_store::Cache;

/// What is kept of a bucket elsewhere.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What is kept on this machine's disk")]
pub(crate) struct CacheArgs {
    /// Where what is read of a service's bucket, or through a server, is kept for all mounts and servers of this user; it may
    /// be deleted at any time [default: tenure in the user's cache directory]
    #[arg(long, value_name = "DIR", env = "TENURE_CACHE")]
    cache: Option<PathBuf>,
    /// How much that may be, such as 500M or 20G; 0 keeps nothing. It is never more than what is free on that disk besides
    #[arg(long, value_name = "SIZE", env = "TENURE_CACHE_SIZE", default_value = "10G", value_parser = size)]
    cache_size: u64,
}

/// A cache that was opened.
pub(crate) struct Kept {
    /// The cache.
    pub(crate) cache: Arc<Cache>,
    /// Where the lists are of what mounts read first; none where nothing is kept on disk.
    pub(crate) lists: Option<PathBuf>,
    /// Why nothing is kept on disk although it should be.
    pub(crate) notice: Option<String>,
}

impl CacheArgs {
    /// Opens the cache. One that cannot be used is none: everything works without.
    pub(crate) fn open(&self) -> Kept {
        let in_memory = |notice| Kept {
            cache: Arc::new(Cache::in_memory()),
            lists: None,
            notice,
        };
        if self.cache_size == 0 {
            return in_memory(None);
        }
        match self.on_disk() {
            Ok(kept) => kept,
            Err(why) => in_memory(Some(format!(
                "{why:#}; what is read is fetched again by the next mount (--cache DIR names another folder, --cache-size 0 wants none)"
            ))),
        }
    }

    fn on_disk(&self) -> Result<Kept> {
        let folder = self.cache.clone().map_or_else(home::cache, Ok)?;
        let folder = std::path::absolute(folder)?;
        Ok(Kept {
            cache: Arc::new(Cache::at(&folder.join("packs"), self.cache_size)?),
            lists: Some(folder.join("read-first")),
            notice: None,
        })
    }
}

/// Reads a size: bytes, or with K, M, G or T behind a number.
fn size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
    let upper = text.to_ascii_uppercase();
    let found = units
        .iter()
        .find_map(|(unit, shift)| Some((upper.strip_suffix(unit)?, *shift)));
    let (number, shift) = found.unwrap_or((&upper, 0));
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a size is a number of bytes, or one followed by K, M, G or T".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit_or_without() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("3k", Some(3 << 10)),
            ("2G", Some(2 << 30)),
        ] {
            assert_eq!(size(text).ok(), bytes);
        }
        for text in ["", "G", "-1", "1.5G", "1GB", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
