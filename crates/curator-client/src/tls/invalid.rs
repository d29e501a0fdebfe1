//! Certificates and keys that cannot be used.

use crate::debug::debug_as_text;

/// One of the texts of [`TlsOptions`](crate::TlsOptions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsText {
    /// The certificates of the certificate authorities to trust, and their revocation lists.
    Ca,
    /// This client's certificate, and the intermediate ones up to the certificate authority.
    Certificate,
    /// The private key of this client's certificate.
    Key,
}

impl std::fmt::Display for TlsText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ca => "CA text",
            Self::Certificate => "client certificate",
            Self::Key => "client key",
        })
    }
}

/// Why these texts are not valid [`TlsOptions`](crate::TlsOptions). `Display` names the text and
/// what was expected; it never shows a key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTlsOptions {
    /// A text is broken PEM.
    #[error("the {text} is not valid PEM: {reason}")]
    Pem {
        /// The text.
        text: TlsText,
        /// What is wrong with it.
        reason: String,
    },
    /// A text has no certificate.
    #[error("the {text} has no certificate: expected PEM with a section \"BEGIN CERTIFICATE\"")]
    NoCertificate {
        /// The text.
        text: TlsText,
    },
    /// A certificate cannot be read, or cannot be trusted.
    #[error("certificate {number} of the {text} cannot be used: {reason}")]
    Certificate {
        /// The text.
        text: TlsText,
        /// Which of its certificates, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A revocation list cannot be read.
    #[error("a revocation list (\"X509 CRL\") of the CA text cannot be used: {reason}")]
    RevocationList {
        /// What is wrong with it.
        reason: String,
    },
    /// The text of the key has no private key.
    #[error(
        "the client key has no private key: expected PEM with a section \"BEGIN PRIVATE KEY\", \"BEGIN RSA PRIVATE KEY\" \
         or \"BEGIN EC PRIVATE KEY\""
    )]
    NoKey,
    /// The private key is encrypted with a password.
    #[error(
        "the client key is encrypted: expected one without a password (`openssl pkey -in encrypted.pem -out key.pem` \
         removes it)"
    )]
    EncryptedKey,
    /// The private key cannot be read, or is of a kind that is not supported.
    #[error("the client key cannot be used: {reason}")]
    Key {
        /// What is wrong with it.
        reason: String,
    },
    /// The private key is not that of the certificate.
    #[error(
        "the client key does not belong to the client certificate (to the first one, if it has several)"
    )]
    KeyMismatch,
    /// The process's `rustls` cryptography provider does not support TLS.
    #[error(
        "the cryptography provider that this process has installed for rustls cannot be used: {reason}"
    )]
    Provider {
        /// What is wrong with it.
        reason: String,
    },
}

debug_as_text!(InvalidTlsOptions);
