//! A Kerberos realm: its key distribution centre, its principals and their keys.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The environment variable for the path of the server's login configuration. It is set in the
/// processes that run the tests.
pub(crate) const LOGIN: &str = "CURATOR_KERBEROS_LOGIN";

pub(crate) const REALM: &str = "EXAMPLE.TEST";
/// The principal of the ZooKeeper server.
pub(crate) const SERVER: &str = "zookeeper/localhost";

/// How long the key distribution centre may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A realm where `alice` and the [server](SERVER) have keys. Its key distribution centre stops
/// when this value is dropped, or the process ends.
pub(crate) struct Realm {
    directory: TempDir,
    centre: Child,
}

impl Realm {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let dir = directory.path();
        configure(dir);
        succeed(command(dir, "kdb5_util").args(["-r", REALM, "create", "-s", "-P", "master"]));
        for (principal, keytab) in [("alice", "alice.keytab"), (SERVER, "server.keytab")] {
            let keytab = dir.join(keytab);
            for query in [
                format!("addprinc -randkey {principal}"),
                format!("ktadd -k {} {principal}", keytab.display()),
            ] {
                succeed(command(dir, "kadmin.local").args(["-r", REALM, "-q", &query]));
            }
        }
        let mut realm = Self {
            centre: start_centre(dir),
            directory,
        };
        let end = Instant::now() + START_TIMEOUT;
        while !realm.log().contains("commencing operation") {
            assert!(
                Instant::now() < end,
                "the key distribution centre has not started within {START_TIMEOUT:?}: {}",
                realm.log()
            );
            // The key distribution centre stops if another process has taken its port in the
            // meantime.
            if realm.centre.try_wait().unwrap().is_some() {
                configure(realm.directory.path());
                realm.centre = start_centre(realm.directory.path());
            }
            thread::sleep(Duration::from_millis(10));
        }
        realm
    }

    /// The log of the key distribution centre. Another process on its port does not write here.
    fn log(&self) -> String {
        log_in(self.directory.path())
    }

    /// Writes the login configuration of a ZooKeeper server of this realm.
    fn login_configuration(&self) -> PathBuf {
        let path = self.directory.path().join("server.jaas");
        let keytab = self.directory.path().join("server.keytab");
        let text = format!(
            "Server {{\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true\n  keyTab=\"{}\"\n  \
             storeKey=true\n  useTicketCache=false\n  principal=\"{SERVER}@{REALM}\";\n}};\n",
            keytab.display()
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs one test of this program in a separate process, which has a ticket of `user` if `user`
    /// is a principal.
    pub(crate) fn run(&self, test: &str, user: &str) {
        self.run_with_ticket(test, user, "-F");
    }

    /// Like [`run`](Self::run), with a ticket that may be forwarded.
    pub(crate) fn run_with_forwardable_ticket(&self, test: &str, user: &str) {
        self.run_with_ticket(test, user, "-f");
    }

    fn run_with_ticket(&self, test: &str, user: &str, kinit_option: &str) {
        let dir = self.directory.path();
        let keytab = dir.join(format!("{user}.keytab"));
        if keytab.exists() {
            succeed(
                command(dir, "kinit")
                    .arg(kinit_option)
                    .arg("-k")
                    .arg("-t")
                    .arg(keytab)
                    .arg(user),
            );
        }
        let mut child = command(dir, env::current_exe().unwrap());
        succeed(
            child
                .args(["--exact", test, "--nocapture"])
                .env(LOGIN, self.login_configuration()),
        );
    }
}

/// The log of the key distribution centre of this process's realm.
pub(crate) fn log() -> String {
    log_in(
        Path::new(&env::var_os("KRB5_CONFIG").unwrap())
            .parent()
            .unwrap(),
    )
}

fn log_in(directory: &Path) -> String {
    fs::read_to_string(directory.join("kdc.log")).unwrap_or_default()
}

impl Drop for Realm {
    fn drop(&mut self) {
        // Closing its input stops the key distribution centre.
        drop(self.centre.stdin.take());
        drop(self.centre.wait());
    }
}

/// Starts a key distribution centre, which stops at the end of its input: at the latest when this
/// process ends, however it ends. It also stops immediately if its port is taken.
fn start_centre(dir: &Path) -> Child {
    let script = "exec 3<&0; (cat <&3; kill $$) & exec krb5kdc -n 3<&-";
    command(dir, "sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The command for a program that uses this realm.
fn command(dir: &Path, program: impl Into<OsString>) -> Command {
    // The directory where some systems install the programs of a key distribution centre.
    let path = env::join_paths(
        env::split_paths(&env::var_os("PATH").unwrap()).chain([PathBuf::from("/usr/sbin")]),
    )
    .unwrap();
    // `env`, because `Command` searches the parent's `PATH`.
    let mut command = Command::new("env");
    command
        .env("PATH", path)
        .env("KRB5_CONFIG", dir.join("krb5.conf"))
        .env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
    command.env(
        "KRB5CCNAME",
        format!("FILE:{}", dir.join("tickets").display()),
    );
    command.arg(program.into()).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}\n{stderr}",
        output.status
    );
}

/// Writes the configuration files of a realm that uses a currently free port.
fn configure(dir: &Path) {
    let port = free_port();
    fs::write(dir.join("krb5.conf"), krb5_conf(dir, port)).unwrap();
    fs::write(dir.join("kdc.conf"), kdc_conf(dir, port)).unwrap();
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// The configuration of Kerberos clients, including those in Java: only TCP, and no DNS queries.
fn krb5_conf(dir: &Path, port: u16) -> String {
    format!(
        "[libdefaults]\n  default_realm = {REALM}\n  dns_lookup_kdc = false\n  dns_lookup_realm = false\n  \
         dns_canonicalize_hostname = false\n  rdns = false\n  udp_preference_limit = 1\n\
         [realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:{port}\n  }}\n\
         [domain_realm]\n  localhost = {REALM}\n\
         [logging]\n  kdc = FILE:{}\n",
        dir.join("kdc.log").display()
    )
}

fn kdc_conf(dir: &Path, port: u16) -> String {
    let database = dir.join("principals");
    let stash = dir.join("stash");
    let acl = dir.join("kadm5.acl");
    format!(
        "[kdcdefaults]\n  kdc_listen = 127.0.0.1:{port}\n  kdc_tcp_listen = 127.0.0.1:{port}\n\
         [realms]\n  {REALM} = {{\n    database_name = {}\n    key_stash_file = {}\n    acl_file = {}\n  }}\n",
        database.display(),
        stash.display(),
        acl.display()
    )
}
