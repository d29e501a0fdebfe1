//! Issues certificates for tests.

use std::{
    fmt,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, date_time_ymd,
};

use crate::error::Error;

/// A certificate authority for tests: issues certificates for servers
/// ([`ServerTls`](crate::ServerTls)) and clients. Needs the feature `tls`.
///
/// ```
/// # fn example() -> Result<(), curator_test::Error> {
/// use curator_test::{ClientAuth, ServerKind, ServerTls, TestingCa, TestingServer};
///
/// let ca = TestingCa::new("tests")?;
/// let server = ca.issue(&["127.0.0.1", "localhost"])?;
/// let client = ca.issue(&["orders"])?;
/// let tls = ServerTls::new(&server.certificate_pem, &server.key_pem).client_auth(ClientAuth::Need, ca.pem());
/// // The server's clients need `ca.pem()`, `client.certificate_pem` and `client.key_pem`.
/// let server = TestingServer::builder().kind(ServerKind::Real).tls(tls);
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub struct TestingCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// The serial number of the latest certificate.
    last: AtomicU64,
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
#[non_exhaustive]
pub struct TestingCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key, in PKCS #8, not encrypted.
    pub key_pem: String,
    serial_number: u64,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl TestingCa {
    /// A new authority with a new key. Two authorities need different names, because a certificate
    /// names its issuer.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] when the cryptography library fails.
    pub fn new(name: &str) -> Result<Self, Error> {
        let make = || -> Result<Self, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut parameters = with_common_name(name, CertificateParams::default());
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let pem = parameters.self_signed(&key)?.pem();
            Ok(Self {
                issuer: Issuer::new(parameters, key),
                pem,
                last: AtomicU64::new(0),
            })
        };
        make().map_err(failed(format!("a certificate authority named {name:?}")))
    }

    /// The authority's certificate in PEM, for a peer's trust store.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for these host names and addresses, for a server or a client. The first
    /// name is also the subject (`CN=..`), which identifies a client. The certificate is valid from
    /// yesterday to tomorrow.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] when a name is not allowed in a certificate, or the cryptography
    /// library fails.
    pub fn issue(&self, names: &[&str]) -> Result<TestingCertificate, Error> {
        let now = SystemTime::now();
        self.issue_for(names, now - DAY..now + DAY)
    }

    /// Like [`issue`](Self::issue), but the certificate is valid in the period `valid`.
    ///
    /// # Errors
    ///
    /// See [`issue`](Self::issue).
    pub fn issue_for(
        &self,
        names: &[&str],
        valid: Range<SystemTime>,
    ) -> Result<TestingCertificate, Error> {
        let make = || -> Result<TestingCertificate, rcgen::Error> {
            let key = KeyPair::generate()?;
            let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut parameters = with_common_name(
                names.first().unwrap_or(&"unnamed"),
                CertificateParams::new(all)?,
            );
            let serial_number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
            parameters.serial_number = Some(serial_number.into());
            parameters.not_before = date_time_ymd(1970, 1, 1) + since_1970(valid.start);
            parameters.not_after = date_time_ymd(1970, 1, 1) + since_1970(valid.end);
            let certificate_pem = parameters.signed_by(&key, &self.issuer)?.pem();
            Ok(TestingCertificate {
                certificate_pem,
                key_pem: key.serialize_pem(),
                serial_number,
            })
        };
        make().map_err(failed(format!("a certificate for {names:?}")))
    }

    /// The authority's revocation list with these certificates, in PEM.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] when the cryptography library fails.
    pub fn revocation_list(&self, revoked: &[&TestingCertificate]) -> Result<String, Error> {
        let now = date_time_ymd(1970, 1, 1) + since_1970(SystemTime::now());
        let revoked_certs = revoked.iter().map(|certificate| RevokedCertParams {
            serial_number: certificate.serial_number.into(),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: now,
            next_update: now + DAY,
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).and_then(|list| list.pem());
        list.map_err(failed("a revocation list".to_owned()))
    }
}

/// Omits the key.
impl fmt::Debug for TestingCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestingCa").finish_non_exhaustive()
    }
}

/// Omits the key.
impl fmt::Debug for TestingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestingCertificate")
            .field("serial_number", &self.serial_number)
            .finish_non_exhaustive()
    }
}

fn with_common_name(name: &str, mut parameters: CertificateParams) -> CertificateParams {
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

fn failed(what: String) -> impl FnOnce(rcgen::Error) -> Error {
    move |error| Error::Certificate {
        what,
        problem: error.to_string(),
    }
}
