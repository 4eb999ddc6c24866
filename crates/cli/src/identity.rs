//! How this server proves who it is: a certificate and its key from files, or a pair that is made once and kept beside the
//! logs.
//!
//! Invariant: a pair that is there is never replaced, since clients know it.

use crate::error::Told;
use crate::home;
use crate::secret;
use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};
use std::path::Path;
use tenure_model::Refusal;
use tenure_wire::web::{Identity, Pem};

/// Names by which every machine is reached from itself.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the identity of a certificate's file and its key's.
pub(crate) fn of_files(certificate: &Path, key: &Path) -> Result<Identity> {
    let chain = secret::read_open(certificate)?;
    Identity::from_pem(&chain, secret::read(key)?.as_bytes()).map_err(|refusal| {
        let (certificate, key) = (certificate.display(), key.display());
        Told::refused(
            format!("{certificate} and {key} prove nothing: {refusal}"),
            format!("openssl x509 -in {certificate} -noout -text; openssl pkey -in {key} -noout -text"),
        )
    })
}

/// Returns the identity that this user's servers have; makes it where there is none.
pub(crate) fn own(names: &[String]) -> Result<Identity> {
    let path = home::state()?.join("server-identity.pem");
    match path.try_exists() {
        Ok(true) => {}
        Ok(false) | Err(_) => make(&path, names)?,
    }
    let pair = secret::read(&path)?;
    Identity::from_pem(pair.as_bytes(), pair.as_bytes()).map_err(|refusal| {
        let at = path.display();
        Told::refused(
            format!("{at} proves nothing: {refusal}"),
            format!("rm {at} has a new one made, which clients do not know yet"),
        )
    })
}

fn make(path: &Path, names: &[String]) -> Result<(), anyhow::Error> {
    let mut all: Vec<String> = OWN_NAMES.map(str::to_owned).to_vec();
    all.push(home::host());
    all.extend_from_slice(names);
    all.dedup();
    let Pem { certificate, key } = Pem::made_for(&all).or_else(|_: Refusal| {
        // A machine may have a name that no certificate can hold.
        Pem::made_for(&OWN_NAMES.map(str::to_owned))
    })?;
    let folder = path.parent().unwrap_or(path);
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        write!(file, "{certificate}{key}")?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            // Another server of this user was quicker, and its pair counts.
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error.error),
            Ok(_) => Ok(()),
        }
    });
    written.with_context(|| format!("cannot keep a certificate at {}", path.display()))
}
