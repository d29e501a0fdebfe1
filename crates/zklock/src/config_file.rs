//! The configuration file: where it is, who may read and write it, and what is wrong with it.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::print::{step, warn};

/// A configuration file that was read.
pub(crate) struct ConfigFile {
    path: PathBuf,
    text: String,
    /// Read from the opened file, because the path may name another file by now.
    metadata: Metadata,
}

/// Reads the file `named`, or the first default file that exists if `named` is `None`. Reads no
/// file if `named` is empty.
pub(crate) fn read(named: Option<&Path>) -> Result<Option<ConfigFile>, Failure> {
    match named {
        Some(path) if path.as_os_str().is_empty() => Ok(None),
        // The path may name a FIFO, as with `--config <(..)`, so the open may block.
        Some(path) => File::open(path)
            .and_then(contents)
            .map(|contents| Some(ConfigFile::new(path, contents)))
            .map_err(|error| unreadable(path, &error)),
        None => {
            for path in default_files(|name| std::env::var_os(name)) {
                match open_regular(&path).and_then(contents) {
                    Ok(contents) => return Ok(Some(ConfigFile::new(&path, contents))),
                    Err(error) if is_missing(&error) => {}
                    // This happens with `sudo -u`, which may leave HOME at a directory of another
                    // user.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        warn(format_args!("{} is skipped: {error}", path.display()));
                    }
                    Err(error) => return Err(unreadable(&path, &error)),
                }
            }
            Ok(None)
        }
    }
}

impl ConfigFile {
    fn new(path: &Path, (text, metadata): (String, Metadata)) -> Self {
        step(format_args!("reading {}", path.display()));
        Self {
            path: path.to_owned(),
            text,
            metadata,
        }
    }

    /// Parses the file. The error contains no text of the file.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        parse(&self.text)
            .map_err(|error| Failure::here(format!("{}: {error}", self.path.display())))
    }

    /// Prints a warning if other users can change the file, or read a password in it.
    pub(crate) fn warn_of_permissions(&self, has_password: bool) {
        if !self.metadata.is_file() {
            return;
        }
        let file = Permissions::of(&self.metadata);
        let directory = self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."))
            .metadata()
            .map_or(file, |metadata| Permissions::of(&metadata));
        if let Some(warning) = warning(file, directory, geteuid().as_raw(), has_password) {
            warn(format_args!("warning: {} {warning}", self.path.display()));
        }
    }
}

/// The text of a regular file, for example of a certificate.
#[cfg(feature = "tls")]
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let (text, _) = open_regular(path)
        .and_then(contents)
        .map_err(|error| unreadable(path, &error))?;
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::here(format!("cannot read {}: {error}", path.display()))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The default paths. Relative paths in the variables are ignored, as the XDG Base Directory
/// Specification requires.
fn default_files(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let directory = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let user =
        directory("XDG_CONFIG_HOME").or_else(|| directory("HOME").map(|home| home.join(".config")));
    let directories = user.into_iter().chain([PathBuf::from("/etc")]);
    directories
        .map(|directory| directory.join("zklock/config.toml"))
        .collect()
}

/// Opens a regular file, and refuses any other. Does not wait for the writer of a FIFO.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn contents(mut file: File) -> io::Result<(String, Metadata)> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, file.metadata()?))
}

/// Prints a warning if other users can read a private key.
#[cfg(feature = "tls")]
pub(crate) fn warn_of_readable_key(path: &Path) {
    if path
        .metadata()
        .is_ok_and(|metadata| Permissions::of(&metadata).is_readable_by_others())
    {
        warn(format_args!(
            "warning: {} is a key, and can be read by other users: run `chmod go-r` on it",
            path.display()
        ));
    }
}

const ROOT: u32 = 0;

/// The permissions and the owner of a file or a directory.
#[derive(Clone, Copy)]
struct Permissions {
    mode: u32,
    owner: u32,
}

impl Permissions {
    fn of(metadata: &Metadata) -> Self {
        Self {
            mode: metadata.mode(),
            owner: metadata.uid(),
        }
    }

    /// Read permission of the group counts only if root does not own the file: an administrator can
    /// share a file of root with a group of services.
    fn is_readable_by_others(self) -> bool {
        self.mode & 0o004 != 0 || self.mode & 0o040 != 0 && self.owner != ROOT
    }

    fn is_writable_by_others(self) -> bool {
        self.mode & 0o022 != 0
    }

    fn is_of_another_user(self, caller: u32) -> bool {
        ![ROOT, caller].contains(&self.owner)
    }
}

/// Returns a warning if other users can change the file or its directory, or read a secret in it.
fn warning(
    file: Permissions,
    directory: Permissions,
    caller: u32,
    has_password: bool,
) -> Option<&'static str> {
    if file.is_of_another_user(caller) {
        return Some(
            "belongs to another user, who can send zklock to other servers; run `chown` on it",
        );
    }
    if file.is_writable_by_others() {
        return Some(
            "can be written by other users: they can send zklock to other servers; run `chmod go-w` on it",
        );
    }
    // In a sticky directory, only the owners of files can replace them.
    let is_sticky = directory.mode & 0o1000 != 0;
    if directory.is_of_another_user(caller) || directory.is_writable_by_others() && !is_sticky {
        return Some(
            "can be replaced by other users, who can write its directory: run `chown` or `chmod go-w` on that",
        );
    }
    (has_password && file.is_readable_by_others())
        .then_some("contains a password, and can be read by other users: run `chmod go-r` on it")
}

/// Parses the file. Errors name the line and what was expected, and contain no text of the file:
/// any key or value may be a secret.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        format!("line {line}: {}", without_text(error.message()))
    })
}

/// A message of `toml` or `serde`, without the text of the file, which stands before the last
/// "expected".
fn without_text(message: &str) -> String {
    let expected = message
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected);
    match expected {
        Some(expected) if message.starts_with("unknown field ") => {
            format!("unknown key; expected {expected}")
        }
        Some(expected) if message.starts_with("invalid ") => format!("expected {expected}"),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::{Connection, Login};
    use crate::tls_files::TlsFiles;

    fn parse(text: &str) -> Result<Connection, String> {
        super::parse(text)
    }

    #[test]
    fn no_error_shows_a_key_or_a_value_of_the_file() {
        let secret = "hunter2";
        let line_2 = |wrong: &str| format!("# a comment\n{wrong}\n");
        for (wrong, expected) in [
            (
                "digest = \"u:hunter2\"",
                "line 2: expected a table with `user` and `password`",
            ),
            (
                "digest = \"u, expected hunter2, expected x\"",
                "line 2: expected a table with `user` and `password`",
            ),
            ("digest = 'hunter2'", "line 2: expected a table"),
            ("digest = \"\"\"hunter2\"\"\"", "line 2: expected a table"),
            ("sasl = [\"hunter2\"]", "line 2: "),
            ("sasl = [{ password = \"hunter2\", user = 1 }]", "line 2: "),
            ("[[digest]]\nhunter2 = 1", "line 2: "),
            (
                "[digest]\nuser = \"u\"\npasword = \"hunter2\"",
                "line 4: unknown key; expected `user` or `password`",
            ),
            (
                "[digest]\nhunter2 = \"u\"",
                "line 3: unknown key; expected `user` or `password`",
            ),
            (
                "[digest]\n\"a, expected hunter2\" = \"u\"",
                "line 3: unknown key; expected `user` or `password`",
            ),
            (
                "[digest]\nuser = \"u\"\npassword = { hunter2 = 1 }",
                "line 4: expected a string",
            ),
            (
                "[digest]\nuser = \"u\"\npassword = [\"hunter2\"]",
                "line 4: expected a string",
            ),
            (
                "[digest]\nuser = 1\npassword = \"hunter2\"",
                "line 3: expected a string",
            ),
            (
                "digest.hunter2 = 1",
                "line 2: unknown key; expected `user` or `password`",
            ),
            (
                "[digest.hunter2]\nx = 1",
                "line 2: unknown key; expected `user` or `password`",
            ),
            (
                "[hunter2]\nx = 1",
                "line 2: unknown key; expected one of `connect`",
            ),
            (
                "hunter2 = 1",
                "line 2: unknown key; expected one of `connect`",
            ),
            ("tls = \"hunter2\"", "line 2: expected a table with `ca`"),
            (
                "session-timeout = \"hunter2\"",
                "line 2: expected a time such as 30",
            ),
            (
                "session-timeout = true",
                "line 2: expected a time such as 30",
            ),
            ("session-timeout = -5", "line 2: a time is not negative"),
            ("connect = { hunter2 = 1 }", "line 2: expected a string"),
            // Invalid TOML.
            ("[digest]\nuser = \"u\npassword = \"hunter2\"", "line "),
            ("[digest]\npassword = hunter2", "line 3: "),
            ("password hunter2", "line 2: "),
            ("[hunter2", "line 2: "),
            ("[digest]\npassword = \"hunter2\\q\"", "line 3: "),
            (
                "[digest]\npassword = \"hunter2\"\npassword = \"hunter2\"",
                "line 4: duplicate key",
            ),
            (
                "[digest]\nhunter2 = 1\nhunter2 = 2",
                "line 4: duplicate key",
            ),
            ("password = 0xhunter2", "line 2: "),
        ] {
            let error = parse(&line_2(wrong)).unwrap_err();
            assert!(
                error.starts_with(expected) && !error.contains(secret),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn a_complete_file_is_parsed() {
        let file = "connect = \"a:1\"\nnamespace = \"n\"\nsession-timeout = \"30s\"\nconnect-timeout = 5\n\
                    [digest]\nuser = \"u\"\npassword = \"p\"\n[sasl]\nuser = \"v\"\npassword = \"q\"\n\
                    [tls]\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";
        // Also with CRLF line ends, and with a byte order mark.
        for file in [
            file.to_owned(),
            file.replace('\n', "\r\n"),
            format!("\u{feff}{file}"),
        ] {
            let Connection {
                connect,
                namespace,
                session_timeout,
                connect_timeout,
                digest,
                sasl,
                tls,
                ..
            } = parse(&file).unwrap();
            assert_eq!(
                [connect, namespace].each_ref().map(Option::as_deref),
                [Some("a:1"), Some("n")]
            );
            assert_eq!(
                [session_timeout, connect_timeout],
                [30, 5].map(|seconds| Some(Duration::from_secs(seconds)))
            );
            let logins = [digest, sasl]
                .map(|login| login.map(|Login { user, password }| [user, password].concat()));
            assert_eq!(
                logins.each_ref().map(Option::as_deref),
                [Some("up"), Some("vq")]
            );
            let TlsFiles {
                ca,
                certificate,
                key,
            } = tls.unwrap();
            let paths = ["ca.pem", "c.pem", "k.pem"].map(|path| Some(PathBuf::from(path)));
            assert_eq!([Some(ca), certificate, key], paths);
        }
        // Only the CA is required.
        assert!(
            parse("[tls]\nca = \"ca.pem\"\n").is_ok() && parse("[tls]\nkey = \"k.pem\"\n").is_err()
        );
        let fraction = parse("session-timeout = 1.5").unwrap();
        assert_eq!(fraction.session_timeout, Some(Duration::from_millis(1_500)));
    }

    #[test]
    fn the_default_file_is_the_users_or_else_the_machines() {
        let files = |variables: &[(&str, &str)]| {
            default_files(|name: &str| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.into())
            })
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
        };
        let machine = "/etc/zklock/config.toml";
        assert_eq!(files(&[]), [machine]);
        assert_eq!(
            files(&[("HOME", "/home/u")]),
            ["/home/u/.config/zklock/config.toml", machine]
        );
        let both = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c")];
        assert_eq!(files(&both), ["/c/zklock/config.toml", machine]);
        let relative = [("HOME", "/home/u"), ("XDG_CONFIG_HOME", "c")];
        assert_eq!(
            files(&relative),
            ["/home/u/.config/zklock/config.toml", machine]
        );
        assert_eq!(files(&[("HOME", "")]), [machine]);
    }

    #[test]
    fn a_file_that_others_can_change_or_a_password_that_others_can_read_draws_a_warning() {
        let root = 0;
        let user = 1000;
        let other = 1001;
        let own = (0o755, user);
        for (mode, owner, directory, has_password, expected) in [
            (0o600, user, own, true, ""),
            (0o400, user, own, true, ""),
            (0o644, user, own, false, ""),
            (0o640, root, own, true, ""),
            (0o640, user, own, true, "be read"),
            (0o644, root, own, true, "be read"),
            (0o604, user, own, true, "be read"),
            (0o620, user, own, true, "written"),
            (0o664, user, own, false, "written"),
            (0o602, root, own, false, "written"),
            (0o600, other, own, false, "another user"),
            (0o600, user, (0o1777, root), true, ""),
            (0o600, user, (0o777, user), false, "replaced"),
            (0o600, user, (0o775, root), false, "replaced"),
            (0o600, user, (0o1755, other), false, "replaced"),
        ] {
            let file = Permissions { mode, owner };
            let directory = Permissions {
                mode: directory.0,
                owner: directory.1,
            };
            let warning = warning(file, directory, user, has_password).unwrap_or_default();
            assert_eq!(
                warning.is_empty(),
                expected.is_empty(),
                "{mode:o}: {warning}"
            );
            assert!(warning.contains(expected), "{mode:o}: {warning}");
        }
    }
}
