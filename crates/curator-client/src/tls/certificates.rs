//! Certificates and keys in the form that `rustls` needs.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, Error as RustlsError, InconsistentKeys, RootCertStore, SignatureScheme,
};

use super::invalid::{InvalidTlsOptions, TlsText};

/// What a client trusts and presents: as text, for `zookeeper-client`, and parsed, for this crate's
/// own handshake.
///
/// Both are made from the same texts with the same provider, so both handshakes give the same
/// result.
#[derive(Clone)]
pub(crate) struct Certificates {
    #[cfg(feature = "zookeeper-client")]
    pub(crate) ca_pem: String,
    pub(crate) identity: Option<Identity>,
    provider: Arc<CryptoProvider>,
    verifier: Arc<WebPkiServerVerifier>,
}

/// A client's certificate and key.
#[derive(Clone)]
pub(crate) struct Identity {
    #[cfg(feature = "zookeeper-client")]
    pub(crate) certificate_pem: String,
    #[cfg(feature = "zookeeper-client")]
    pub(crate) key_pem: String,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    pub(crate) fn read(ca_pem: &str) -> Result<Self, InvalidTlsOptions> {
        let provider = provider();
        let mut roots = RootCertStore::empty();
        for (index, certificate) in certificates(ca_pem, TlsText::Ca)?.into_iter().enumerate() {
            roots
                .add(certificate)
                .map_err(|error| unusable(TlsText::Ca, index, &error))?;
        }
        let revoked = CertificateRevocationListDer::pem_slice_iter(ca_pem.as_bytes());
        let revoked = revoked
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| broken(TlsText::Ca, &error))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let verifier = verifier.with_crls(revoked).build();
        let verifier = verifier.map_err(|error| InvalidTlsOptions::RevocationList {
            reason: error.to_string(),
        })?;
        let certificates = Self {
            #[cfg(feature = "zookeeper-client")]
            ca_pem: ca_pem.to_owned(),
            identity: None,
            provider,
            verifier,
        };
        // Checked here, because `zookeeper-client` would panic when it opens a connection.
        certificates.handshake_config()?;
        Ok(certificates)
    }

    pub(crate) fn with_identity(
        self,
        certificate_pem: &str,
        key_pem: &str,
    ) -> Result<Self, InvalidTlsOptions> {
        let certificates = certificates(certificate_pem, TlsText::Certificate)?;
        let key = CertifiedKey::from_der(certificates, private_key(key_pem)?, &self.provider);
        let key = Arc::new(key.map_err(|error| match error {
            RustlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                InvalidTlsOptions::KeyMismatch
            }
            RustlsError::InvalidCertificate(_) => unusable(TlsText::Certificate, 0, &error),
            error => InvalidTlsOptions::Key {
                reason: error.to_string(),
            },
        })?);
        let identity = Identity {
            #[cfg(feature = "zookeeper-client")]
            certificate_pem: certificate_pem.to_owned(),
            #[cfg(feature = "zookeeper-client")]
            key_pem: key_pem.to_owned(),
            key,
        };
        Ok(Self {
            identity: Some(identity),
            ..self
        })
    }

    /// Makes the configuration of one handshake.
    pub(crate) fn handshake_config(&self) -> Result<HandshakeConfig, InvalidTlsOptions> {
        let key = self
            .identity
            .as_ref()
            .map(|identity| Arc::clone(&identity.key));
        let recorder = Arc::new(RequestRecorder {
            key,
            request: Mutex::new(CertificateRequest::NotRequested),
        });
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| InvalidTlsOptions::Provider {
            reason: error.to_string(),
        })?;
        let config = config.with_webpki_verifier(Arc::clone(&self.verifier));
        let resolver: Arc<dyn ResolvesClientCert> = Arc::<RequestRecorder>::clone(&recorder);
        Ok(HandshakeConfig {
            config: Arc::new(config.with_client_cert_resolver(resolver)),
            recorder,
        })
    }
}

/// The configuration of one handshake, which records whether the server requested a certificate. It
/// does not resume an earlier TLS session, because the server would then request none.
pub(crate) struct HandshakeConfig {
    pub(crate) config: Arc<ClientConfig>,
    recorder: Arc<RequestRecorder>,
}

/// Whether the server has requested a client certificate, and what the client has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CertificateRequest {
    NotRequested,
    /// The client has no certificate.
    WithoutIdentity,
    /// The client has a certificate, but its key supports no signature scheme of the server.
    WithoutSignature,
    /// The client has sent the certificate.
    Presented,
}

impl HandshakeConfig {
    pub(crate) fn certificate_request(&self) -> CertificateRequest {
        *self
            .recorder
            .request
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Presents the client certificate, if there is one, and records whether the server has requested
/// it, which `rustls` does not report.
struct RequestRecorder {
    key: Option<Arc<CertifiedKey>>,
    request: Mutex<CertificateRequest>,
}

impl ResolvesClientCert for RequestRecorder {
    fn resolve(
        &self,
        _issuers: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let request = match &self.key {
            None => CertificateRequest::WithoutIdentity,
            Some(key) if key.key.choose_scheme(schemes).is_none() => {
                CertificateRequest::WithoutSignature
            }
            Some(_) => CertificateRequest::Presented,
        };
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = request;
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

/// Prints no key.
impl std::fmt::Debug for RequestRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestRecorder")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// The process's provider. If there is none, installs the default one of `rustls`.
///
/// `zookeeper-client` uses the process's provider too. If two are compiled in and none is
/// installed, `rustls` cannot choose, and panics.
fn provider() -> Arc<CryptoProvider> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Arc::clone(installed);
    }
    // If another thread has installed a provider meanwhile, that one is used.
    let _: Result<(), _> = aws_lc_rs::default_provider().install_default();
    CryptoProvider::get_default()
        .map_or_else(|| Arc::new(aws_lc_rs::default_provider()), Arc::clone)
}

fn certificates(
    pem: &str,
    text: TlsText,
) -> Result<Vec<CertificateDer<'static>>, InvalidTlsOptions> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| broken(text, &error))?;
    if certificates.is_empty() {
        Err(InvalidTlsOptions::NoCertificate { text })
    } else {
        Ok(certificates)
    }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, InvalidTlsOptions> {
    // The forms of PKCS #8 and of OpenSSL's older format.
    if pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(InvalidTlsOptions::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match error {
        PemError::NoItemsFound => InvalidTlsOptions::NoKey,
        error => broken(TlsText::Key, &error),
    })
}

/// Describes a broken text without the parser's messages, which quote the text: any text may
/// contain a key, in the wrong place or all on one line.
fn broken(text: TlsText, error: &PemError) -> InvalidTlsOptions {
    let reason = match error {
        PemError::MissingSectionEnd { .. } => {
            "a section has no end (the beginning and the end must each be on a separate line)"
        }
        PemError::IllegalSectionStart { .. } => "a line that begins a section is damaged",
        PemError::Base64Decode(_) => "the content of a section is not base64",
        _ => "it cannot be read",
    };
    InvalidTlsOptions::Pem {
        text,
        reason: reason.to_owned(),
    }
}

fn unusable(text: TlsText, index: usize, error: &RustlsError) -> InvalidTlsOptions {
    InvalidTlsOptions::Certificate {
        text,
        number: index + 1,
        reason: error.to_string(),
    }
}
