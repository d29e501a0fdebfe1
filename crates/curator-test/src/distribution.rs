//! Finds ZooKeeper and Java, and configures what a server logs.
//!
//! `cargo xtask` compiles this file too, so the file uses only `std`. Set-up and tests thus follow
//! the same rules, and the class archive, which `cargo xtask` makes from a running server, has the
//! classes of the logging back end that the tests use.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs, io,
    path::{self, Path, PathBuf},
};

/// The ZooKeeper release that `cargo xtask prepare` downloads, and that the tests are written for.
pub const PINNED_VERSION: &str = "3.9.5";

/// The environment variable with ZooKeeper's directory.
pub(crate) const HOME_VARIABLE: &str = "ZOOKEEPER_HOME";

/// The directory of Debian's package `zookeeper`, which contains the jars of all packages. If
/// `ZOOKEEPER_HOME` is this directory, Debian's package is used.
pub(crate) const DEBIAN_HOME: &str = "/usr/share/java";

/// ZooKeeper's jar in Debian's package. Its manifest lists all other jars that it needs.
const DEBIAN_JAR: &str = "zookeeper.jar";

/// The class data sharing (CDS) archive with the classes of a started server. `cargo xtask` makes
/// it in cargo's target directory, beside the jars of a release. With it, a server needs two thirds
/// of the processor time to start. The names `classes.jsa` and `server-classes.jsa` are taken:
/// earlier versions of `cargo xtask` made these files, with other classes.
pub(crate) const CLASS_ARCHIVE: &str = "started-server.jsa";

/// The name of the directory for the archive of Debian's package, beside the releases' directories.
pub(crate) const DEBIAN_NAME: &str = "debian";

/// The logging back end for Debian's package, which does not depend on one.
const DEBIAN_LOGGING: &str = "slf4j-simple.jar";

/// An installed ZooKeeper: its jars, and a Java to run them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    java: PathBuf,
    classpath: Vec<PathBuf>,
    version: Option<String>,
    origin: Origin,
}

/// Where a [`Distribution`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The environment variable `ZOOKEEPER_HOME`.
    Home,
    /// `cargo xtask prepare`.
    Prepared,
    /// Debian's package `zookeeper`.
    Debian,
}

/// Why no [`Distribution`] was found. The text says what to do. `Debug`, which `unwrap` prints, has
/// the same text.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// ZooKeeper was not found at any known place.
    ZooKeeper,
    /// `ZOOKEEPER_HOME` is set, but ZooKeeper is not there.
    Home(PathBuf),
    /// Java was not found.
    Java,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZooKeeper => write!(
                f,
                "no ZooKeeper found: run `cargo xtask prepare`, or set ZOOKEEPER_HOME to an unpacked ZooKeeper \
                 release, or install Debian's package `zookeeper`"
            ),
            Self::Home(home) => write!(
                f,
                "ZOOKEEPER_HOME is {}, but there is no zookeeper-<version>.jar in it or in its `lib`: set it to an \
                 unpacked ZooKeeper release, or unset it",
                home.display()
            ),
            Self::Java => write!(
                f,
                "no Java found, and ZooKeeper needs one: run `cargo xtask prepare`, or install a Java runtime and put \
                 `java` on PATH or set JAVA_HOME"
            ),
        }
    }
}

impl fmt::Debug for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotFound {}

impl Distribution {
    /// Finds ZooKeeper and Java.
    ///
    /// Searches `ZOOKEEPER_HOME`, then the directory of `cargo xtask prepare`, then Debian's
    /// package.
    ///
    /// # Errors
    ///
    /// A [`NotFound`] whose text says what to do.
    pub fn find() -> Result<Self, NotFound> {
        let java = find_java().ok_or(NotFound::Java)?;
        let (origin, classpath) = find_jars()?;
        let version = version_of(&classpath);
        Ok(Self {
            java,
            classpath,
            version,
            origin,
        })
    }

    /// Finds Debian's package, regardless of other installations.
    ///
    /// # Errors
    ///
    /// A [`NotFound`] when the package or Java is not installed.
    pub fn debian() -> Result<Self, NotFound> {
        let java = find_java().ok_or(NotFound::Java)?;
        let classpath = debian_jars().ok_or(NotFound::ZooKeeper)?;
        let version = version_of(&classpath);
        Ok(Self {
            java,
            classpath,
            version,
            origin: Origin::Debian,
        })
    }

    /// The Java program.
    #[must_use]
    pub fn java(&self) -> &Path {
        &self.java
    }

    /// The class path, in Java's syntax.
    #[must_use]
    pub fn classpath(&self) -> OsString {
        let parts: Vec<&OsStr> = self.classpath.iter().map(|jar| jar.as_os_str()).collect();
        parts.join(OsStr::new(":"))
    }

    /// The class archive, if `cargo xtask` has made one. Java ignores an archive that was made with
    /// another Java or with other jars.
    pub(crate) fn class_archive(&self) -> Option<PathBuf> {
        class_archive(self.classpath.first()?.parent()?, &target_dirs())
    }

    /// ZooKeeper's version, if the names of the jars contain it.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The origin of the installation.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version().unwrap_or("of unknown version");
        match self.origin {
            Origin::Home => write!(f, "ZooKeeper {version} (from ZOOKEEPER_HOME)"),
            Origin::Prepared => write!(f, "ZooKeeper {version} (from `cargo xtask prepare`)"),
            Origin::Debian => write!(f, "ZooKeeper {version} (Debian's package)"),
        }
    }
}

/// The `java` in `JAVA_HOME`, otherwise the one on `PATH`.
pub(crate) fn find_java() -> Option<PathBuf> {
    env::var_os("JAVA_HOME")
        .map(|home| Path::new(&home).join("bin/java"))
        .filter(|java| java.is_file())
        .or_else(|| find_on_path("java"))
}

/// A program on `PATH`.
pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// The directory where `cargo xtask` installs a release: `zookeeper/<version>` in cargo's target
/// directory.
pub(crate) fn prepared_dir(target: &Path, version: &str) -> PathBuf {
    target.join("zookeeper").join(version)
}

/// The class archive for the jars in the directory `home`: beside them, or for Debian's package in
/// a target directory.
fn class_archive(home: &Path, targets: &[PathBuf]) -> Option<PathBuf> {
    let directories = if home == Path::new(DEBIAN_HOME) {
        targets
            .iter()
            .map(|target| prepared_dir(target, DEBIAN_NAME))
            .collect()
    } else {
        vec![home.to_path_buf()]
    };
    directories
        .into_iter()
        .map(|directory| directory.join(CLASS_ARCHIVE))
        .find(|archive| archive.is_file())
}

fn find_jars() -> Result<(Origin, Vec<PathBuf>), NotFound> {
    if let Some(home) = env::var_os(HOME_VARIABLE).filter(|home| !home.is_empty()) {
        let home = path::absolute(&home).unwrap_or_else(|_| home.into());
        if home == Path::new(DEBIAN_HOME) {
            return debian_jars()
                .map(|jars| (Origin::Home, jars))
                .ok_or(NotFound::Home(home));
        }
        let jars = jars_of_release(&home).ok_or(NotFound::Home(home))?;
        return Ok((Origin::Home, jars));
    }
    if let Some(jars) = target_dirs()
        .iter()
        .find_map(|target| jars_of_release(&prepared_dir(target, PINNED_VERSION)))
    {
        return Ok((Origin::Prepared, jars));
    }
    let debian = debian_jars().ok_or(NotFound::ZooKeeper)?;
    Ok((Origin::Debian, debian))
}

/// All candidates for cargo's target directory: the configured one and `target`, each relative to
/// the current directory, to this package, and to the directories above them. A test runs in its
/// package's directory, so the search walks up.
fn target_dirs() -> Vec<PathBuf> {
    let current = env::current_dir().unwrap_or_default();
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = env::var_os("CARGO_TARGET_DIR")
        .into_iter()
        .chain(["target".into()]);
    // Joining an absolute path yields that path.
    names
        .flat_map(|name| {
            current
                .ancestors()
                .chain(package.ancestors())
                .map(move |dir| dir.join(&name))
        })
        .collect()
}

/// All jars of a release: at its top level, in `lib`, or in both. `None` if ZooKeeper's jar is not
/// among them.
pub(crate) fn jars_of_release(home: &Path) -> Option<Vec<PathBuf>> {
    let mut jars: Vec<PathBuf> = [home.to_path_buf(), home.join("lib")]
        .iter()
        .flat_map(|dir| jars_in(dir))
        .collect();
    jars.sort();
    version_of(&jars).is_some().then_some(jars)
}

fn jars_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "jar"))
        .collect()
}

/// Debian's jar, through the link whose name contains the version.
fn debian_jars() -> Option<Vec<PathBuf>> {
    let dir = Path::new(DEBIAN_HOME);
    let plain = dir.join(DEBIAN_JAR);
    if !plain.is_file() {
        return None;
    }
    let versioned = jars_in(dir)
        .into_iter()
        .find(|jar| version_of_jar(jar).is_some());
    let logging = Some(dir.join(DEBIAN_LOGGING)).filter(|jar| jar.is_file());
    Some(
        [versioned.unwrap_or(plain)]
            .into_iter()
            .chain(logging)
            .collect(),
    )
}

fn version_of(jars: &[PathBuf]) -> Option<String> {
    jars.iter().find_map(|jar| version_of_jar(jar))
}

/// `3.9.5` for `zookeeper-3.9.5.jar`; `None` for `zookeeper-jute-3.9.5.jar`.
fn version_of_jar(jar: &Path) -> Option<String> {
    let version = jar.file_stem()?.to_str()?.strip_prefix("zookeeper-")?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| version.to_owned())
}

/// Options of slf4j-simple, the logging back end of Debian's package and of the releases that
/// `cargo xtask` fetches. With logback, a server needs a fifth more processor time to start. The
/// times in the log are milliseconds since the start.
const SIMPLE: [&str; 5] = [
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
];

/// The configuration of logback, the logging back end of releases since 3.8 that a user has
/// unpacked.
const LOGBACK: &str = r#"<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %c{0}: %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"#;

/// The configuration of log4j, the logging back end of releases up to 3.7 that a user has unpacked.
const LOG4J: &str = "log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
";

/// Writes the configuration of logback and of log4j into the directory of a server.
pub(crate) fn write_logging(folder: &Path) -> io::Result<()> {
    fs::write(logback(folder), LOGBACK)?;
    fs::write(log4j(folder), LOG4J)
}

/// Java's options for each of the three back ends, with the configuration in this directory.
pub(crate) fn logging_options(folder: &Path) -> Vec<String> {
    let url = |path: PathBuf| format!("file:{}", path.display());
    let files = [
        format!("-Dlogback.configurationFile={}", url(logback(folder))),
        format!("-Dlog4j.configuration={}", url(log4j(folder))),
    ];
    SIMPLE.map(str::to_owned).into_iter().chain(files).collect()
}

fn logback(folder: &Path) -> PathBuf {
    folder.join("logback.xml")
}

fn log4j(folder: &Path) -> PathBuf {
    folder.join("log4j.properties")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_only_from_the_zookeeper_jar() {
        let version = |name: &str| version_of_jar(Path::new(name));
        assert_eq!(version("/x/zookeeper-3.9.5.jar"), Some("3.9.5".to_owned()));
        assert_eq!(
            version("/x/zookeeper-3.9.0-SNAPSHOT.jar"),
            Some("3.9.0-SNAPSHOT".to_owned())
        );
        assert_eq!(version("/x/zookeeper-jute-3.9.5.jar"), None);
        assert_eq!(version("/x/netty-common-4.1.jar"), None);
    }

    #[test]
    fn the_archive_is_beside_the_jars_or_for_debian_in_the_target_directory() {
        let target = tempfile::tempdir().unwrap();
        let targets = [
            PathBuf::from("/no such directory"),
            target.path().to_path_buf(),
        ];
        for (home, name) in [
            (prepared_dir(target.path(), "3.9.5"), "3.9.5"),
            (DEBIAN_HOME.into(), DEBIAN_NAME),
        ] {
            assert_eq!(class_archive(&home, &targets), None, "{name}");
            let archive = prepared_dir(target.path(), name).join(CLASS_ARCHIVE);
            fs::create_dir_all(archive.parent().unwrap()).unwrap();
            fs::write(&archive, "").unwrap();
            assert_eq!(class_archive(&home, &targets), Some(archive), "{name}");
        }
    }

    #[test]
    fn a_folder_without_zookeeper_is_not_accepted_as_a_release() {
        assert_eq!(jars_of_release(Path::new(env!("CARGO_MANIFEST_DIR"))), None);
    }
}
