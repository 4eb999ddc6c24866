//! How a server proves who it is: a certificate and its key, from files or made once.
//!
//! It reads and writes no files. Invariant: a key is shown in no message.

use super::trust::{Fingerprint, VERSIONS};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use tenure_model::Refusal;

/// A certificate and its key, ready to be served. Clones are one: what one becomes, all are.
#[derive(Clone)]
pub struct Identity {
    pub(super) config: Arc<ServerConfig>,
    shown: Arc<Shown>,
}

/// What is shown to who comes next.
struct Shown(RwLock<(Arc<CertifiedKey>, Fingerprint)>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().0.clone())
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shown({})", self.0.read().1)
    }
}

/// A certificate and its key as text (RFC 7468), to be kept by who asked for them.
#[derive(Clone)]
pub struct Pem {
    /// The certificate.
    pub certificate: String,
    /// Its key: whoever reads it can pass for the server.
    pub key: String,
}

impl Pem {
    /// Makes a certificate that nobody has signed but itself, for some names or IP addresses of the server. It never
    /// expires: who trusts it has seen it.
    pub fn made_for(names: &[String]) -> Result<Self, Refusal> {
        let made = rcgen::generate_simple_self_signed(names).map_err(|error| {
            Refusal::Because(format!("no certificate can be made for {names:?}: {error}"))
        })?;
        Ok(Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        })
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Takes a certificate, followed by those that vouch for it, and its key, each from a PEM file's bytes.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, Refusal> {
        let because = |what: &str, why: &dyn fmt::Display| Refusal::Because(format!("{what}: {why}"));
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| because("the certificate cannot be read", &error))?;
        let Some(first) = chain.first() else {
            return Err(because(
                "there is no certificate",
                &"PEM begins with -----BEGIN CERTIFICATE-----",
            ));
        };
        let fingerprint = Fingerprint::of(first);
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| because("the certificate's key cannot be read", &error))?;
        let unusable = |error: rustls::Error| because("the certificate and its key cannot be used", &error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = CertifiedKey::from_der(chain, key, &provider).map_err(unusable)?;
        let shown = Arc::new(Shown(RwLock::new((Arc::new(pair), fingerprint))));
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(VERSIONS);
        let config = config.map_err(unusable)?.with_no_client_auth();
        let mut config = config.with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            shown,
        })
    }

    /// Returns the fingerprint by which clients know it, for a person to compare.
    pub fn fingerprint(&self) -> Fingerprint {
        self.shown.0.read().1
    }

    /// Shows what `renewed` shows to everybody who comes from now on.
    pub fn become_as(&self, renewed: &Self) {
        let renewed = renewed.shown.0.read().clone();
        *self.shown.0.write() = renewed;
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}
