use curator_test::{TestingCa, TestingCertificate};
use rustls::SignatureScheme;

use super::super::certificates::CertificateRequest;
use super::super::invalid::TlsText;
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
    let damaged = |text| move |error: &InvalidTlsOptions| matches!(error, InvalidTlsOptions::Pem { text: it, .. } if *it == text);
    assert!(
        TlsOptions::from_pem(garbled(ca.pem())).is_err_and(|error| damaged(TlsText::Ca)(&error))
    );
    let certificate = identity(&garbled(&certificate_pem), &key_pem);
    assert!(certificate.is_err_and(|error| damaged(TlsText::Certificate)(&error)));
    assert!(
        identity(&certificate_pem, &garbled(&key_pem))
            .is_err_and(|error| damaged(TlsText::Key)(&error))
    );
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
    let (one, other) = (
        ca.issue(&["orders"]).unwrap(),
        ca.issue(&["orders"]).unwrap(),
    );
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

/// As in an environment variable that has lost its line breaks.
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
