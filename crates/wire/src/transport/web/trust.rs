//! Which certificate a client takes for its server's: one that it has seen before, or one that an authority has signed.
//!
//! Invariant: a certificate is remembered only when its owner has proved that it has the key, and none is replaced.

use crate::owner::Error;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tenure_model::Refusal;

/// The SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` says it, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Returns the fingerprint of a certificate's DER bytes.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Refusal;

    /// Parses 64 hexadecimal digits behind `sha256:`, in pairs with or without colons between them.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let parsed = || {
            let digits = text.strip_prefix("sha256:")?.replace(':', "");
            let mut bytes = [0; 32];
            if digits.len() != 64 || !digits.is_ascii() {
                return None;
            }
            for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            }
            Some(Self(bytes))
        };
        parsed()
            .ok_or_else(|| Refusal::Because("a fingerprint is sha256: and 64 hexadecimal digits".to_owned()))
    }
}

/// What a client has seen of servers before. A server is named by its address.
pub trait Pins: Send + Sync {
    /// Returns the fingerprint of the certificate that a server had, if it was seen before.
    fn known(&self, server: &str) -> Result<Option<Fingerprint>, Error>;

    /// Keeps what a server has, which was seen for the first time.
    fn remember(&self, server: &str, seen: &Fingerprint) -> Result<(), Error>;

    /// Says in words how a person accepts a certificate in the place of the one that is known.
    fn how_to_accept(&self, server: &str, seen: &Fingerprint) -> String;
}

/// Which certificate a client takes for its server's.
#[derive(Clone)]
pub enum Trust {
    /// The one that the server had the first time.
    Pinned(Arc<dyn Pins>),
    /// One that was signed by an authority, for the host of the address.
    Signed(Arc<RootCertStore>),
}

impl Trust {
    /// Trusts certificates that were signed by any of some authorities, whose own stand in a PEM file.
    pub fn signed_by(pem: &[u8]) -> Result<Self, Refusal> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate
                .map_err(|error| Refusal::Because(format!("the authorities cannot be read: {error}")))?;
            roots
                .add(certificate)
                .map_err(|error| Refusal::Because(format!("an authority cannot be trusted: {error}")))?;
        }
        if roots.is_empty() {
            return Err(Refusal::Because(
                "there is no certificate of an authority: PEM begins with -----BEGIN CERTIFICATE-----".into(),
            ));
        }
        Ok(Self::Signed(Arc::new(roots)))
    }
}

/// How one server is looked at.
pub(super) struct Looked {
    pub(super) config: Arc<ClientConfig>,
    pinned: Option<(Arc<dyn Pins>, Arc<Pinned>)>,
    server: String,
}

impl Looked {
    /// Prepares to look at the certificate of a server.
    pub(super) fn at(server: String, trust: &Trust) -> Result<Self, Error> {
        let failed = |error: rustls::Error| Refusal::Because(format!("TLS cannot be spoken: {error}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(VERSIONS)
            .map_err(failed)?;
        let (config, pinned) = match trust {
            Trust::Signed(roots) => (config.with_root_certificates(roots.clone()), None),
            Trust::Pinned(pins) => {
                let pinned = Arc::new(Pinned {
                    known: pins.known(&server)?,
                    seen: Mutex::new(None),
                    provider,
                });
                let config = config
                    .dangerous()
                    .with_custom_certificate_verifier(pinned.clone());
                (config, Some((pins.clone(), pinned)))
            }
        };
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            pinned,
            server,
        })
    }

    /// Notes that the server has proved who it is.
    pub(super) fn proved(&self) -> Result<(), Error> {
        let Some((pins, pinned)) = &self.pinned else {
            return Ok(());
        };
        match (pinned.known, *pinned.seen.lock()) {
            (None, Some(seen)) => pins.remember(&self.server, &seen),
            (_, None | Some(_)) => Ok(()),
        }
    }

    /// Returns why the server is not taken for itself, if that is why it was left.
    pub(super) fn mistrusted(&self) -> Option<Refusal> {
        let (pins, pinned) = self.pinned.as_ref()?;
        let (known, seen) = (pinned.known?, (*pinned.seen.lock())?);
        (known != seen).then(|| {
            let (server, how) = (&self.server, pins.how_to_accept(&self.server, &seen));
            Refusal::Because(format!(
                "{server} has another certificate than before: {seen} and not {known}; somebody else may be answering \
                 there. Where the server was given a new one: {how}"
            ))
        })
    }
}

/// The versions of TLS that are spoken: 1.3, and 1.2 for what stands between.
pub(super) const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

/// Looks whether a certificate is the one that is known.
#[derive(Debug)]
struct Pinned {
    known: Option<Fingerprint>,
    seen: Mutex<Option<Fingerprint>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = Fingerprint::of(end_entity);
        *self.seen.lock() = Some(seen);
        if self.known.is_none_or(|known| known == seen) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_shown_and_as_openssl_shows_it() {
        let fingerprint = Fingerprint::of(&CertificateDer::from(&b"bytes"[..]));
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        let digits = fingerprint.to_string()["sha256:".len()..].to_uppercase();
        let pairs: Vec<_> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair))
            .collect();
        assert_eq!(format!("sha256:{}", pairs.join(":")).parse(), Ok(fingerprint));
        for text in [
            "",
            "sha256:",
            "sha256:00",
            &"0".repeat(64),
            &format!("sha256:{}", "g".repeat(64)),
        ] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
