//! Prepares Java Curator, and our programs that use it.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    command, debian,
    distribution::find_on_path,
    files::{files, make_at, name_of, read},
    maven::{Artifact, Jars, project},
    print_line, target_dir, workspace,
};

/// The environment variable with the class path of Curator and of our programs, for the interop
/// tests, the runs under faults and the bench.
pub(crate) const CLASSPATH_VARIABLE: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

pub(crate) const VERSION: &str = "5.9.0";

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

/// Finds the class path of our programs, or fetches Curator's jars and compiles the programs, into
/// the target directory. Quick if it is prepared already.
pub(crate) fn prepare() -> Result<OsString, String> {
    if let Some(classpath) = env::var_os(CLASSPATH_VARIABLE) {
        return Ok(classpath);
    }
    let home = target_dir()?.join("curator");
    // The suffix distinguishes this directory from one that an earlier version of xtask filled with
    // fewer jars.
    let jars = home.join(format!("{VERSION}-discovery"));
    let curator = Jars {
        name: format!("Curator {VERSION}"),
        required: vec![format!("curator-x-discovery-{VERSION}.jar")],
        // Includes Curator's `curator-recipes`.
        pom: project(("org.apache.curator", DISCOVERY, VERSION), &[NO_LOGGING]),
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
    let classes = home.join(name_of("classes", &(VERSION, texts)));
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

/// The compiler in `JAVA_HOME`, or else in `PATH`: ZooKeeper's scripts look for `java` in the same
/// order.
fn compiler() -> Result<PathBuf, String> {
    let find = || {
        let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/javac"));
        home.filter(|javac| javac.is_file())
            .or_else(|| find_on_path("javac"))
    };
    if let Some(javac) = find() {
        return Ok(javac);
    }
    print_line("no Java compiler found");
    debian::install_jdk()?;
    find().ok_or_else(|| "Debian's package does not contain `javac`".to_owned())
}
