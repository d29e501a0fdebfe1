//! Reads the TLS files, and reads them again when they change, because authorities and certificates
//! are rotated while zklock runs: a leader may run for years.

use std::time::Duration;

use curator_recipes::client::{CuratorClientBuilder, Error as ClientError, TlsOptions};

use super::TlsFiles;
use crate::config_file::{read_text, warn_of_readable_key};
use crate::failure::Failure;
use crate::print::{step, warn};

/// How often the files are compared with what was read.
const INTERVAL: Duration = Duration::from_secs(1);

/// The files as they were read, and the options made from them.
pub(crate) struct ReadTls {
    files: TlsFiles,
    texts: Texts,
    options: TlsOptions,
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Texts {
    ca: String,
    identity: Option<(String, String)>,
}

impl TlsFiles {
    pub(crate) fn read(&self) -> Result<ReadTls, Failure> {
        let texts = self.texts()?;
        self.key.iter().for_each(|key| warn_of_readable_key(key));
        Ok(ReadTls {
            files: self.clone(),
            options: texts.options()?,
            texts,
        })
    }

    fn texts(&self) -> Result<Texts, Failure> {
        let identity = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((read_text(certificate)?, read_text(key)?)),
            _ => {
                return Err(Failure::here(
                    "[tls] has only one of `certificate` and `key`: a client certificate needs both",
                ));
            }
        };
        Ok(Texts {
            ca: read_text(&self.ca)?,
            identity,
        })
    }
}

impl ReadTls {
    /// Makes the connections of the client use TLS.
    pub(crate) fn secure(&self, client: CuratorClientBuilder) -> CuratorClientBuilder {
        client.tls(self.options.clone())
    }

    /// From now on, reads the files again when they change, for the next connection of the clients
    /// with these options. Files that cannot be used are reported once, and the previous ones stay
    /// in use.
    pub(crate) fn reload_on_change(&self) {
        let files = self.files.clone();
        let options = self.options.clone();
        let mut reload = Reload {
            used: self.texts.clone(),
            failure: None,
        };
        // On a separate thread, because a file system may hang. It ends with the process.
        let started = std::thread::Builder::new().name("tls-files".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(INTERVAL);
                match reload.check(files.texts()) {
                    Some(Ok(newer)) => {
                        options.update(&newer);
                        step("the TLS files have changed: the next connection uses the new ones");
                    }
                    Some(Err(failure)) => warn(format_args!(
                        "the TLS files have changed, and the previous ones stay in use, because: {failure}"
                    )),
                    None => {}
                }
            }
        });
        if let Err(error) = started {
            warn(format_args!(
                "the TLS files are not read again when they change: cannot start a thread: {error}"
            ));
        }
    }
}

impl Texts {
    fn options(&self) -> Result<TlsOptions, Failure> {
        let options = TlsOptions::from_pem(&self.ca).map_err(ClientError::from)?;
        match &self.identity {
            Some((certificate, key)) => Ok(options
                .with_identity(certificate, key)
                .map_err(ClientError::from)?),
            None => Ok(options),
        }
    }
}

/// Decides at each check whether to use the files that were read, or to report a failure.
struct Reload {
    used: Texts,
    /// The failure of the previous check, and the number of consecutive checks with this failure.
    failure: Option<(String, u64)>,
}

impl Reload {
    /// Returns the new options when the files have changed, or a failure to report.
    ///
    /// A certificate and its key are replaced one after the other, so a failure is reported only
    /// when the second consecutive check has the same failure.
    fn check(&mut self, read: Result<Texts, Failure>) -> Option<Result<TlsOptions, String>> {
        if read.as_ref().is_ok_and(|texts| *texts == self.used) {
            self.failure = None;
            return None;
        }
        match read.and_then(|texts| Ok((texts.options()?, texts))) {
            Ok((options, texts)) => {
                *self = Self {
                    used: texts,
                    failure: None,
                };
                Some(Ok(options))
            }
            Err(failure) => {
                let failure = failure.to_string();
                let checks = self
                    .failure
                    .take()
                    .filter(|(before, _)| *before == failure)
                    .map_or(1, |(_, checks)| checks + 1);
                self.failure = Some((failure.clone(), checks));
                (checks == 2).then_some(Err(failure))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use curator_test::{TestingCa, TestingCertificate};

    use super::*;

    fn texts(ca: &TestingCa, certificate: &TestingCertificate, key: &TestingCertificate) -> Texts {
        let identity = Some((certificate.certificate_pem.clone(), key.key_pem.clone()));
        Texts {
            ca: ca.pem().to_owned(),
            identity,
        }
    }

    #[test]
    fn changed_files_are_used_once_and_a_lasting_failure_is_reported_once() {
        let ca = TestingCa::new("tests").unwrap();
        let [old, new] = [(); 2].map(|()| ca.issue(&["client"]).unwrap());
        let mut reload = Reload {
            used: texts(&ca, &old, &old),
            failure: None,
        };
        let mut shown = |read| match reload.check(read) {
            None => "nothing".to_owned(),
            Some(Ok(_)) => "new options".to_owned(),
            Some(Err(failure)) => failure,
        };
        assert_eq!(shown(Ok(texts(&ca, &old, &old))), "nothing");
        // The certificate is replaced, and before the next check the key.
        assert_eq!(shown(Ok(texts(&ca, &new, &old))), "nothing");
        assert_eq!(shown(Ok(texts(&ca, &new, &new))), "new options");
        assert_eq!(shown(Ok(texts(&ca, &new, &new))), "nothing");
        let missing = || Err(Failure::here("cannot read ca.pem"));
        let checks = [(); 4].map(|()| shown(missing()));
        assert_eq!(
            checks,
            ["nothing", "cannot read ca.pem", "nothing", "nothing"]
        );
        assert!(
            [(); 3].map(|()| shown(Ok(texts(&ca, &old, &new))))[1].contains("key"),
            "of another certificate"
        );
        assert_eq!(shown(Ok(texts(&ca, &new, &new))), "nothing");
    }
}
