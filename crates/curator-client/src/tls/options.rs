//! The TLS options of a client: certificates and keys, in the form that `rustls` needs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, Error as RustlsError, InconsistentKeys, RootCertStore, SignatureScheme,
};

use super::{InvalidTlsOptions, TlsText};

/// What a client trusts and presents in TLS handshakes: for
/// [`CuratorClientBuilder::tls`](crate::CuratorClientBuilder::tls).
///
/// A server must present a certificate whose name matches the host in the connect string, issued by
/// one of the certificate authorities that are trusted here. System roots are not used, and no
/// check can be disabled. [`rustls`](https://docs.rs/rustls) makes the handshake, with TLS 1.3 or
/// 1.2.
///
/// Clones share their certificates, and [`update`](Self::update) replaces them while clients are
/// running.
///
/// These options correspond to the properties `zookeeper.ssl.trustStore` and
/// `zookeeper.ssl.keyStore` of ZooKeeper's Java client, but take PEM text instead of file
/// locations.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use curator_client::{CuratorClient, TlsOptions};
/// use std::fs::read_to_string;
///
/// let tls = TlsOptions::from_pem(read_to_string("ca.pem")?)?
///     .with_identity(read_to_string("client.pem")?, read_to_string("client.key")?)?;
/// let client = CuratorClient::builder("zk1:2281,zk2:2281,zk3:2281").tls(tls).connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Caveats
///
/// Java's servers refuse a host name with an underscore (`zk_1`), which is not valid in TLS. Use
/// another name in the connect string.
///
/// `rustls` has one cryptography provider per process. If none is installed
/// (`rustls::crypto::CryptoProvider::install_default`) when the first `TlsOptions` is made, that
/// call installs the provider of `aws-lc-rs`. To use another provider, install it first.
#[derive(Clone)]
pub struct TlsOptions {
    certificates: Arc<RwLock<Arc<Certificates>>>,
}

impl TlsOptions {
    /// Trusts the certificate authorities whose certificates are in this text, in PEM. Presents no
    /// certificate.
    ///
    /// If the text also has revocation lists (`X509 CRL`), a server's certificate must not be in
    /// them. Once a revocation list is given, each certificate in the chain, except the authority's
    /// own, must be covered by a list of its issuer.
    ///
    /// # Errors
    ///
    /// [`InvalidTlsOptions`]: the text has no certificate, or a certificate that cannot be read.
    pub fn from_pem(ca_pem: impl AsRef<str>) -> Result<Self, InvalidTlsOptions> {
        Ok(Self::from_certificates(Certificates::read(
            ca_pem.as_ref(),
        )?))
    }

    /// Returns these options with a certificate to present to servers that request one, and its
    /// private key, both in PEM. Earlier clones do not change.
    ///
    /// `certificate_pem` has this certificate first, followed by intermediate certificates, up to
    /// the authority. The key is in the format PKCS #8, PKCS #1 (RSA) or SEC 1 (EC), without a
    /// password. If one text has both the certificate and the key, pass it twice.
    ///
    /// # Errors
    ///
    /// [`InvalidTlsOptions`]: a text has no certificate or no key, the key is encrypted, or does not belong to the
    /// certificate.
    pub fn with_identity(
        self,
        certificate_pem: impl AsRef<str>,
        key_pem: impl AsRef<str>,
    ) -> Result<Self, InvalidTlsOptions> {
        let certificates = Certificates::clone(&self.current());
        Ok(Self::from_certificates(certificates.with_identity(
            certificate_pem.as_ref(),
            key_pem.as_ref(),
        )?))
    }

    /// Replaces the trusted authorities and the identity in these options and all their clones with
    /// the ones in `newer`. Call this when certificates are renewed while the process runs.
    ///
    /// The next connection uses the new certificates. Open connections stay as they are, even when
    /// their certificate expires.
    ///
    /// ```no_run
    /// # fn example(tls: &curator_client::TlsOptions) -> Result<(), Box<dyn std::error::Error>> {
    /// use curator_client::TlsOptions;
    /// use std::fs::read_to_string;
    ///
    /// let newer = TlsOptions::from_pem(read_to_string("ca.pem")?)?
    ///     .with_identity(read_to_string("client.pem")?, read_to_string("client.key")?)?;
    /// tls.update(&newer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, newer: &Self) {
        let newer = newer.current();
        *self
            .certificates
            .write()
            .unwrap_or_else(PoisonError::into_inner) = newer;
    }

    /// The certificates for the next connection.
    pub(crate) fn current(&self) -> Arc<Certificates> {
        Arc::clone(
            &self
                .certificates
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Whether a certificate can name this host.
    pub(crate) fn is_nameable(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    fn from_certificates(certificates: Certificates) -> Self {
        Self {
            certificates: Arc::new(RwLock::new(Arc::new(certificates))),
        }
    }
}

/// Prints whether there is an identity, but no certificates or keys.
impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_identity = self.current().identity.is_some();
        f.debug_struct("TlsOptions")
            .field("has_identity", &has_identity)
            .finish_non_exhaustive()
    }
}

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
        let revoked = CertificateRevocationListDer::pem_slice_iter(ca_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| broken(TlsText::Ca, &error))?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
                .with_crls(revoked)
                .build()
                .map_err(|error| InvalidTlsOptions::RevocationList {
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
        let key = CertifiedKey::from_der(certificates, private_key(key_pem)?, &self.provider)
            .map_err(|error| match error {
                RustlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    InvalidTlsOptions::KeyMismatch
                }
                RustlsError::InvalidCertificate(_) => unusable(TlsText::Certificate, 0, &error),
                error => InvalidTlsOptions::Key {
                    reason: error.to_string(),
                },
            })?;
        let identity = Identity {
            #[cfg(feature = "zookeeper-client")]
            certificate_pem: certificate_pem.to_owned(),
            #[cfg(feature = "zookeeper-client")]
            key_pem: key_pem.to_owned(),
            key: Arc::new(key),
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
        let resolver: Arc<dyn ResolvesClientCert> = Arc::<RequestRecorder>::clone(&recorder);
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidTlsOptions::Provider {
                reason: error.to_string(),
            })?
            .with_webpki_verifier(Arc::clone(&self.verifier))
            .with_client_cert_resolver(resolver);
        Ok(HandshakeConfig {
            config: Arc::new(config),
            recorder,
        })
    }
}

/// The configuration of one handshake, which records whether the server requested a certificate. It
/// does not resume an earlier TLS session, because the server would then request no certificate.
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

/// Presents the client certificate, if there is one, and records whether the server has requested a
/// certificate, which `rustls` does not report.
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
impl fmt::Debug for RequestRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    // Fails if another thread has installed a provider meanwhile, which is then used.
    let _: Result<(), _> = aws_lc_rs::default_provider().install_default();
    CryptoProvider::get_default()
        .map_or_else(|| Arc::new(aws_lc_rs::default_provider()), Arc::clone)
}

fn certificates(
    pem: &str,
    text: TlsText,
) -> Result<Vec<CertificateDer<'static>>, InvalidTlsOptions> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| broken(text, &error))?;
    if certificates.is_empty() {
        Err(InvalidTlsOptions::NoCertificate { text })
    } else {
        Ok(certificates)
    }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, InvalidTlsOptions> {
    // The markers of an encrypted key in PKCS #8 and in OpenSSL's older format.
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

#[cfg(test)]
mod tests {
    use curator_test::{TestingCa, TestingCertificate};
    use rustls::SignatureScheme;

    use super::*;

    fn ca() -> TestingCa {
        TestingCa::new("tests").unwrap()
    }

    fn identity(certificate: &str, key: &str) -> Result<TlsOptions, InvalidTlsOptions> {
        TlsOptions::from_pem(ca().pem())
            .unwrap()
            .with_identity(certificate, key)
    }

    /// The PEM, with the first line of its content replaced by text that is not base64.
    fn garbled(pem: &str) -> String {
        let body = pem.lines().nth(1).unwrap();
        pem.replace(body, "!!!!")
    }

    /// Whether the text `expected` was refused as damaged PEM.
    fn is_damaged(result: &Result<TlsOptions, InvalidTlsOptions>, expected: TlsText) -> bool {
        matches!(result, Err(InvalidTlsOptions::Pem { text, .. }) if *text == expected)
    }

    #[test]
    fn pem_without_a_certificate_is_refused() {
        let key = ca().issue(&["orders"]).unwrap().key_pem;
        for text in ["", "ca.pem", &key] {
            let refused = TlsOptions::from_pem(text).unwrap_err();
            assert_eq!(
                refused,
                InvalidTlsOptions::NoCertificate { text: TlsText::Ca }
            );
        }
        let expected = "the client certificate has no certificate: expected PEM with a section \"BEGIN CERTIFICATE\"";
        assert_eq!(identity("", &key).unwrap_err().to_string(), expected);
    }

    #[test]
    fn damaged_pem_is_refused() {
        let ca = ca();
        let TestingCertificate {
            certificate_pem,
            key_pem,
            ..
        } = ca.issue(&["orders"]).unwrap();
        let with_ca = TlsOptions::from_pem(garbled(ca.pem()));
        assert!(is_damaged(&with_ca, TlsText::Ca));
        let with_certificate = identity(&garbled(&certificate_pem), &key_pem);
        assert!(is_damaged(&with_certificate, TlsText::Certificate));
        let with_key = identity(&certificate_pem, &garbled(&key_pem));
        assert!(is_damaged(&with_key, TlsText::Key));
        // PEM with something other than a certificate.
        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let second = TlsOptions::from_pem(format!("{}{nonsense}", ca.pem())).unwrap_err();
        assert!(
            matches!(
                second,
                InvalidTlsOptions::Certificate {
                    text: TlsText::Ca,
                    number: 2,
                    ..
                }
            ),
            "{second}"
        );
        let list = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
        let list = TlsOptions::from_pem(format!("{}{list}", ca.pem())).unwrap_err();
        assert!(
            matches!(list, InvalidTlsOptions::RevocationList { .. }),
            "{list}"
        );
    }

    #[test]
    fn a_key_that_cannot_be_used_is_refused_and_not_shown() {
        let ca = ca();
        let one = ca.issue(&["orders"]).unwrap();
        let other = ca.issue(&["orders"]).unwrap();
        let with = |key: &str| identity(&one.certificate_pem, key).unwrap_err();
        assert_eq!(with(&other.key_pem), InvalidTlsOptions::KeyMismatch);
        assert_eq!(with(&one.certificate_pem), InvalidTlsOptions::NoKey);
        assert_eq!(
            with(&one.key_pem.replace("PRIVATE", "ENCRYPTED PRIVATE")),
            InvalidTlsOptions::EncryptedKey
        );
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        assert_eq!(with(old), InvalidTlsOptions::EncryptedKey);
        let nonsense = with("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n");
        assert!(
            matches!(nonsense, InvalidTlsOptions::Key { .. }),
            "{nonsense}"
        );
        let damaged = with(&format!("{}\n-----BEGIN secret", garbled(&one.key_pem)));
        for error in [nonsense, damaged] {
            assert!(
                !error.to_string().contains("c2Vj") && !error.to_string().contains("secret"),
                "{error}"
            );
        }
    }

    /// The texts have no line breaks, like in an environment variable that has lost them.
    #[test]
    fn a_key_in_the_wrong_argument_is_not_shown_in_the_error() {
        let ca = ca();
        let TestingCertificate {
            certificate_pem,
            key_pem,
            ..
        } = ca.issue(&["orders"]).unwrap();
        let one_line = |text: &str| text.replace('\n', "");
        let both = one_line(&format!("{certificate_pem}{key_pem}"));
        let key = one_line(&key_pem);
        let errors = [
            TlsOptions::from_pem(&both).unwrap_err(),
            TlsOptions::from_pem(&key).unwrap_err(),
            identity(&both, &both).unwrap_err(),
            identity(&key, &certificate_pem).unwrap_err(),
            identity(&certificate_pem, &key).unwrap_err(),
            identity(&certificate_pem, "-----BEGIN PRIVATE KEY\nMIG").unwrap_err(),
        ];
        for error in errors {
            let shown = format!("{error} {error:?}");
            // As text, and as a list of bytes.
            assert!(
                !shown.contains("MIG") && !shown.contains("77, 73, 71"),
                "{shown}"
            );
            assert!(shown.len() < 400, "{shown}");
        }
    }

    #[test]
    fn an_identity_that_can_sign_with_no_scheme_of_the_server_is_not_presented() {
        let ca = ca();
        let client = ca.issue(&["orders"]).unwrap();
        let plain = TlsOptions::from_pem(ca.pem()).unwrap();
        let with_identity = plain
            .clone()
            .with_identity(&client.certificate_pem, &client.key_pem)
            .unwrap();
        let request = |options: &TlsOptions, schemes: &[SignatureScheme]| {
            let config = options.current().handshake_config().unwrap();
            assert_eq!(
                config.certificate_request(),
                CertificateRequest::NotRequested
            );
            config
                .config
                .client_auth_cert_resolver
                .resolve(&[], schemes);
            config.certificate_request()
        };
        let known = [SignatureScheme::ECDSA_NISTP256_SHA256];
        assert_eq!(request(&plain, &known), CertificateRequest::WithoutIdentity);
        assert_eq!(
            request(&with_identity, &known),
            CertificateRequest::Presented
        );
        assert_eq!(
            request(&with_identity, &[SignatureScheme::RSA_PKCS1_SHA256]),
            CertificateRequest::WithoutSignature
        );
    }

    #[test]
    fn update_changes_all_clones_but_not_options_with_another_identity() {
        let ca = ca();
        let client = ca.issue(&["orders"]).unwrap();
        let plain = TlsOptions::from_pem(ca.pem()).unwrap();
        let clone = plain.clone();
        let with_identity = plain
            .clone()
            .with_identity(&client.certificate_pem, &client.key_pem)
            .unwrap();
        let has_identity = |options: &TlsOptions| options.current().identity.is_some();
        assert!(!has_identity(&plain) && has_identity(&with_identity));
        // Neither certificates nor keys are printed.
        assert_eq!(
            format!("{plain:?}"),
            "TlsOptions { has_identity: false, .. }"
        );
        assert_eq!(
            format!("{with_identity:?}"),
            "TlsOptions { has_identity: true, .. }"
        );
        plain.update(&with_identity);
        assert!(has_identity(&plain) && has_identity(&clone));
        // `update` copies: a later change of its argument does not reach `plain`.
        with_identity.update(&TlsOptions::from_pem(ca.pem()).unwrap());
        assert!(has_identity(&plain) && !has_identity(&with_identity));
        // Options can be updated from their own clone.
        plain.update(&clone);
        assert!(has_identity(&plain));
    }

    #[test]
    fn certificates_can_name_only_dns_names_and_ip_addresses() {
        for host in [
            "zk1",
            "zk-0.zk_headless.shop.svc.",
            "127.0.0.1",
            "::1",
            "ZK1.example.org",
        ] {
            assert!(TlsOptions::is_nameable(host), "{host}");
        }
        for host in [
            "127.0.1",
            "1",
            "a..b",
            "-a",
            "a-",
            ".a",
            "x".repeat(64).as_str(),
        ] {
            assert!(!TlsOptions::is_nameable(host), "{host}");
        }
    }
}
