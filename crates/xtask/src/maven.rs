//! Fetches the jars of ZooKeeper and of Curator with Maven, and compiles our programs that use
//! Curator.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    command, debian,
    distribution::{Distribution, Origin, find_on_path, prepared_dir},
    files::{files, make_at, name_of, read},
    print_line, target_dir, workspace,
};

/// Group, name and version.
pub(crate) type Artifact = (&'static str, &'static str, &'static str);

/// The logging back ends for the two interfaces of slf4j that ZooKeeper uses. Releases ship with
/// other back ends, which make the start of a server take more processor time.
const SIMPLE_1: Artifact = ("org.slf4j", "slf4j-simple", "1.7.36");
const SIMPLE_2: Artifact = ("org.slf4j", "slf4j-simple", "2.0.13");

/// The jars that a server needs besides its declared dependencies: a logging back end, and others
/// in the versions that the server's release ships with.
fn extra(version: &str) -> &'static [Artifact] {
    match release(version) {
        (..=2, _) | (3, ..=5) => &[SIMPLE_1],
        (3, 6) => &[
            SIMPLE_1,
            ("io.dropwizard.metrics", "metrics-core", "3.2.5"),
            ("org.xerial.snappy", "snappy-java", "1.1.8.4"),
        ],
        (3, 7) => &[
            SIMPLE_1,
            ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
            ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        ],
        _ => &[
            SIMPLE_2,
            ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
            ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        ],
    }
}

/// `(3, 9)` for `3.9.5`.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version
        .split('.')
        .map(|number| number.parse().unwrap_or(u32::MAX));
    (
        numbers.next().unwrap_or(u32::MAX),
        numbers.next().unwrap_or(u32::MAX),
    )
}

/// Dependencies that no test needs: native TLS for five platforms, and annotations.
const EXCLUDED: [(&str, &str); 2] = [
    ("io.netty", "netty-tcnative-boringssl-static"),
    ("org.apache.yetus", "audience-annotations"),
];

/// Whether to fetch the pinned release although `found` could be used. Debian's package is older,
/// so it is used only if Maven is missing.
pub(crate) fn is_better_fetched(found: &Distribution) -> bool {
    found.origin() == Origin::Debian && find_on_path("mvn").is_some()
}

/// Finds this release of ZooKeeper in the target directory, or fetches it into the target
/// directory. Returns its directory.
pub(crate) fn fetch(version: &str) -> Result<PathBuf, String> {
    let home = prepared_dir(&target_dir()?, version);
    // Earlier versions of xtask fetched another logging back end.
    let (_, back_end, its_version) = extra(version)[0];
    let required = vec![
        format!("zookeeper-{version}.jar"),
        format!("{back_end}-{its_version}.jar"),
    ];
    let jars = Jars {
        name: format!("ZooKeeper {version}"),
        required,
        pom: pom(version),
    };
    jars.fetch(&home).map(|()| home)
}

/// A set of jars to fetch.
pub(crate) struct Jars {
    /// The name of the set, for messages.
    pub(crate) name: String,
    /// Jars that must be in the set. If one is missing, the set is fetched again.
    pub(crate) required: Vec<String>,
    /// The Maven project that depends on the jars.
    pub(crate) pom: String,
}

impl Jars {
    /// Finds the jars in the directory `home`, or fetches them into it.
    pub(crate) fn fetch(&self, home: &Path) -> Result<(), String> {
        let name = &self.name;
        if self.are_complete(home) {
            return Ok(());
        }
        if find_on_path("mvn").is_none() {
            return Err(format!(
                "{name} is not installed, and cannot be fetched without `mvn` (Maven)"
            ));
        }
        print_line(&format!("fetching {name} with Maven"));
        make_at(home, |work| {
            fetch_into(work, &self.pom)?;
            if !self.are_complete(work) {
                return Err(format!(
                    "Maven did not fetch {}",
                    self.required.join(" and ")
                ));
            }
            // An incomplete set is replaced, but not a complete one, which another process may use
            // already.
            if !self.are_complete(home) {
                // If this fails, the rename fails too.
                drop(fs::remove_dir_all(home));
            }
            Ok(())
        })
    }

    fn are_complete(&self, folder: &Path) -> bool {
        self.required.iter().all(|jar| folder.join(jar).is_file())
    }
}

fn fetch_into(work: &Path, pom: &str) -> Result<(), String> {
    let describe =
        |e: std::io::Error| format!("cannot write to the directory {}: {e}", work.display());
    fs::create_dir_all(work).map_err(describe)?;
    fs::write(work.join("pom.xml"), pom).map_err(describe)?;
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(work);
    let mut maven = Command::new("mvn");
    maven
        .current_dir(work)
        .env("MAVEN_OPTS", options())
        .args([
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
        ])
        .arg(output)
        .stdin(Stdio::null());
    command::run(&mut maven)
}

/// Options for a short run of Java, and then the user's options.
fn options() -> OsString {
    let mut options = OsString::from("-XX:+UseSerialGC -XX:TieredStopAtLevel=1 ");
    options.push(env::var_os("MAVEN_OPTS").unwrap_or_default());
    options
}

fn pom(version: &str) -> String {
    project(
        ("org.apache.zookeeper", "zookeeper", version),
        extra(version),
    )
}

/// A Maven project that depends on `artifact`, except for the excluded dependencies, and on the
/// artifacts `more`.
pub(crate) fn project(artifact: (&str, &str, &str), more: &[Artifact]) -> String {
    let exclusion = |(group, artifact): &(&str, &str)| {
        format!(
            "<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        )
    };
    let exclusions: String = EXCLUDED.iter().map(exclusion).collect();
    let dependency = |(group, artifact, version): (&str, &str, &str), rest: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version>{rest}</dependency>\n"
        )
    };
    let first = dependency(artifact, &format!("<exclusions>{exclusions}</exclusions>"));
    let dependencies: String = [first]
        .into_iter()
        .chain(more.iter().map(|more| dependency(*more, "")))
        .collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>curator-recipes</groupId><artifactId>jars-for-tests</artifactId><version>1</version>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

/// The environment variable with the class path of Curator and of our programs, for the interop
/// tests, the runs under faults and the bench.
pub(crate) const CLASSPATH_VARIABLE: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

pub(crate) const CURATOR_VERSION: &str = "5.9.0";

/// The artifact that depends on all other artifacts of Curator that we use.
const DISCOVERY: &str = "curator-x-discovery";

/// A logging back end that logs nothing. Without it, each program warns that it has none.
const NO_LOGGING: Artifact = ("org.slf4j", "slf4j-nop", "1.7.36");

/// The directories of our programs, in the workspace: the workers of runs under faults, the agent
/// of the interop tests, and the worker of the bench.
const SOURCES: [&str; 3] = [
    "crates/curator-jepsen/peers",
    "crates/curator-recipes/tests/interop",
    "crates/curator-bench/peers",
];

/// Finds the class path of our programs, or fetches Curator's jars and compiles the programs into
/// the target directory. Takes little time if they are prepared already.
pub(crate) fn prepare_curator() -> Result<OsString, String> {
    if let Some(classpath) = env::var_os(CLASSPATH_VARIABLE) {
        return Ok(classpath);
    }
    let home = target_dir()?.join("curator");
    // The suffix distinguishes this directory from one that an earlier version of xtask filled with
    // fewer jars.
    let jars = home.join(format!("{CURATOR_VERSION}-discovery"));
    let curator = Jars {
        name: format!("Curator {CURATOR_VERSION}"),
        required: vec![format!("curator-x-discovery-{CURATOR_VERSION}.jar")],
        // Includes Curator's `curator-recipes`.
        pom: project(
            ("org.apache.curator", DISCOVERY, CURATOR_VERSION),
            &[NO_LOGGING],
        ),
    };
    curator.fetch(&jars)?;
    let classes = compiled(&home, &jars)?;
    env::join_paths([classes, jars.join("*")])
        .map_err(|e| format!("Java cannot use the directory {}: {e}", home.display()))
}

/// The directory with the classes of our programs.
fn compiled(home: &Path, jars: &Path) -> Result<PathBuf, String> {
    let mut sources = Vec::new();
    for directory in SOURCES {
        sources.extend(files(&workspace().join(directory))?);
    }
    sources.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "java")
    });
    let texts = sources
        .iter()
        .map(|source| read(source))
        .collect::<Result<Vec<_>, _>>()?;
    let classes = home.join(name_of("classes", &(CURATOR_VERSION, texts)));
    if !classes.is_dir() {
        print_line("compiling the programs that use Curator");
        let compiler = compiler()?;
        make_at(&classes, |work| {
            // Old versions of `javac` do not create the directory that `-d` names.
            fs::create_dir_all(work)
                .map_err(|e| format!("cannot make the directory {}: {e}", work.display()))?;
            command::run(&mut javac(&compiler, jars, work, &sources))
        })?;
    }
    Ok(classes)
}

fn javac(compiler: &Path, jars: &Path, classes: &Path, sources: &[PathBuf]) -> Command {
    let mut javac = Command::new(compiler);
    // The compilation is too short for a concurrent collector and Java's second compiler to repay
    // their time.
    javac.args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]);
    javac
        .arg("-cp")
        .arg(jars.join("*"))
        .arg("-d")
        .arg(classes)
        .args(sources)
        .stdin(Stdio::null());
    javac
}

/// The compiler in `JAVA_HOME`, or else in `PATH`. ZooKeeper's scripts search for `java` in the
/// same order.
fn compiler() -> Result<PathBuf, String> {
    let find = || {
        env::var_os("JAVA_HOME")
            .map(|home| Path::new(&home).join("bin/javac"))
            .filter(|javac| javac.is_file())
            .or_else(|| find_on_path("javac"))
    };
    if let Some(javac) = find() {
        return Ok(javac);
    }
    print_line("no Java compiler found");
    debian::install_jdk()?;
    find().ok_or_else(|| "Debian's package does not contain `javac`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_gets_the_back_end_for_its_slf4j() {
        let back_end = |version| extra(version)[0];
        assert_eq!(["3.5.10", "3.6.4", "3.7.2"].map(back_end), [SIMPLE_1; 3]);
        assert_eq!(
            ["3.8.6", "3.9.5", "3.10.0", "4.0.0"].map(back_end),
            [SIMPLE_2; 4]
        );
    }
}
