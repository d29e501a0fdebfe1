//! The TLS options of a client.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::ServerName;

use super::certificates::Certificates;
use super::invalid::InvalidTlsOptions;

/// What a client trusts and presents in TLS handshakes: for
/// [`CuratorClientBuilder::tls`](crate::CuratorClientBuilder::tls).
///
/// A server must present a certificate whose name matches the host in the connect string, issued by
/// one of the certificate authorities that are trusted here. System roots are not used, and no
/// check can be disabled. The handshake is that of [`rustls`](https://docs.rs/rustls), with TLS 1.3
/// or 1.2.
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
/// Java's servers refuse a host name with an underscore (`zk_1`), which is not valid in TLS:
/// connect by another name.
///
/// `rustls` has one cryptography provider per process. If none is installed
/// (`rustls::crypto::CryptoProvider::install_default`) when the first `TlsOptions` is made, that
/// call installs the one of `aws-lc-rs`. To use another one, install it first.
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
    /// [`InvalidTlsOptions`]: the text has no certificate, or one that cannot be read.
    pub fn from_pem(ca_pem: impl AsRef<str>) -> Result<Self, InvalidTlsOptions> {
        Ok(Self::of(Certificates::read(ca_pem.as_ref())?))
    }

    /// Returns the same options with a certificate to present to servers that request one, and its
    /// private key, both in PEM. Earlier clones do not change.
    ///
    /// `certificate_pem` has this certificate first, followed by intermediate ones, up to the
    /// authority. The key is in the format PKCS #8, PKCS #1 (RSA) or SEC 1 (EC), without a
    /// password. One text may have both the certificate and the key; pass it twice.
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
        Ok(Self::of(certificates.with_identity(
            certificate_pem.as_ref(),
            key_pem.as_ref(),
        )?))
    }

    /// Replaces the trusted authorities and the identity of these options and all their clones with
    /// those of `newer`. Call it when certificates are renewed while the process runs.
    ///
    /// The next connection uses the new ones. Open connections stay as they are, even when their
    /// certificate expires.
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

    fn of(certificates: Certificates) -> Self {
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

#[cfg(test)]
mod tests;
