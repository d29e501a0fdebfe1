//! Writes the files of a real server, and its command line.

use std::{
    ffi::OsString,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use crate::{
    distribution::{Distribution, logging_options, write_logging},
    settings::{ServerTls, Settings},
};

/// This class starts both a standalone server and a member of an ensemble.
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The keys that the settings must not contain, because this crate chooses the server's address.
const CHOSEN_HERE: [&str; 2] = ["clientPort", "clientPortAddress"];

/// Options for a fast start and little memory.
const JVM: [&str; 7] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    // Most of the methods that Java compiles by default during a start are not called often enough
    // to repay the compilation.
    "-XX:CompileThresholdScaling=3",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Xms16m",
    "-Xmx160m",
];

/// The files of one server, in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
}

impl Files {
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The directory of the server's snapshots.
    pub(crate) fn snapshots(&self) -> PathBuf {
        self.data().join("version-2")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("zookeeper.log")
    }

    fn zoo_cfg(&self) -> PathBuf {
        self.folder.join("zoo.cfg")
    }

    /// The server's key and certificate.
    fn key_store(&self) -> PathBuf {
        self.folder.join("key-store.pem")
    }

    /// The certificate authorities of the clients.
    fn trust_store(&self) -> PathBuf {
        self.folder.join("trust-store.pem")
    }

    /// Writes the files of a server. `secure` is the address for TLS, if the settings include TLS.
    /// `id` is set for a member of an ensemble.
    pub(crate) fn write(
        &self,
        settings: &Settings,
        address: SocketAddr,
        secure: Option<SocketAddr>,
        id: Option<usize>,
    ) -> io::Result<()> {
        if let Some(key) = CHOSEN_HERE
            .into_iter()
            .find(|key| settings.config.contains_key(*key))
        {
            let problem = format!(
                "{key} cannot be set: each server gets a free port on the loopback interface"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        std::fs::create_dir_all(self.data())?;
        let mut text = zoo_cfg(settings, address, &self.data());
        if let (Some(tls), Some(secure)) = (&settings.tls, secure) {
            text += &self.write_tls(tls, secure)?;
        }
        std::fs::write(self.zoo_cfg(), text)?;
        write_logging(&self.folder)?;
        id.map_or(Ok(()), |id| {
            std::fs::write(self.data().join("myid"), id.to_string())
        })
    }

    /// Writes the stores. Returns the lines of `zoo.cfg` for them.
    fn write_tls(&self, tls: &ServerTls, address: SocketAddr) -> io::Result<String> {
        std::fs::write(
            self.key_store(),
            format!("{}\n{}", tls.key_pem, tls.certificate_pem),
        )?;
        // Only Netty supports TLS.
        let mut lines = format!(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
             secureClientPort={}\nsecureClientPortAddress={}\n\
             ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.clientAuth={}\n",
            address.port(),
            address.ip(),
            self.key_store().display(),
            tls.client_auth.name()
        );
        if let Some(ca) = &tls.ca_pem {
            std::fs::write(self.trust_store(), ca)?;
            lines += &format!(
                "ssl.trustStore.location={}\nssl.trustStore.type=PEM\n",
                self.trust_store().display()
            );
        }
        Ok(lines)
    }

    /// The arguments of Java.
    pub(crate) fn arguments(
        &self,
        settings: &Settings,
        distribution: &Distribution,
    ) -> Vec<OsString> {
        let system = settings
            .system
            .iter()
            .map(|(key, value)| format!("-D{key}={value}"));
        let mut arguments: Vec<OsString> = JVM.iter().map(OsString::from).collect();
        arguments.extend(distribution.class_archive().map(|archive| {
            let mut option = OsString::from("-XX:SharedArchiveFile=");
            option.push(archive);
            option
        }));
        // If two options contradict each other, the later one applies.
        arguments.extend(settings.java.iter().map(OsString::from));
        arguments.extend(
            logging_options(&self.folder)
                .into_iter()
                .chain(system)
                .map(OsString::from),
        );
        arguments.extend([
            "-cp".into(),
            distribution.classpath(),
            MAIN.into(),
            self.zoo_cfg().into(),
        ]);
        arguments
    }
}

/// The text of `zoo.cfg`.
fn zoo_cfg(settings: &Settings, address: SocketAddr, data: &Path) -> String {
    let place = [
        format!("dataDir={}\n", data.display()),
        format!("clientPort={}\n", address.port()),
        format!("clientPortAddress={}\n", address.ip()),
    ];
    let lines = settings
        .config
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"));
    place.into_iter().chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_server_cannot_be_set() {
        let files = Files {
            folder: PathBuf::from("/no such directory"),
        };
        for key in CHOSEN_HERE {
            let mut settings = Settings::default();
            settings.config.insert(key.to_owned(), "2181".to_owned());
            let error = files
                .write(&settings, SocketAddr::from(([127, 0, 0, 1], 1)), None, None)
                .unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{key} cannot be set")),
                "{error}"
            );
        }
    }
}
