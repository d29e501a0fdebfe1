//! Prepares Java Curator, and our programs that use it.

use std::{
    env,
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio, id},
};

use crate::{
    command, debian,
    distribution::find_on_path,
    maven::{Artifact, Jars, project},
    print_line, target_dir, workspace,
};

/// The environment variable with the class path of Curator and of our programs, for the interop tests, the runs under faults and the bench.
pub(crate) const CLASSPATH_VARIABLE: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

pub(crate) const VERSION: &str = "5.9.0";

/// The artifact that depends on all other artifacts of Curator that we use.
const DISCOVERY: &str = "curator-x-discovery";

/// A logging back end that logs nothing. Without it, each program warns that it has none.
const NO_LOGGING: Artifact = ("org.slf4j", "slf4j-nop", "1.7.36");

/// The sources of our programs, in the workspace: the workers of runs under faults, the agent of the interop tests, and the worker
/// of the bench.
const SOURCES: [&str; 17] = [
    "crates/curator-jepsen/peers/CuratorCaches.java",
    "crates/curator-jepsen/peers/CuratorCounters.java",
    "crates/curator-jepsen/peers/CuratorLeaders.java",
    "crates/curator-jepsen/peers/CuratorRun.java",
    "crates/curator-jepsen/peers/CuratorServices.java",
    "crates/curator-jepsen/peers/CuratorWorker.java",
    "crates/curator-recipes/tests/interop/CuratorAgent.java",
    "crates/curator-recipes/tests/interop/CuratorAgentDiscovery.java",
    "crates/curator-recipes/tests/interop/CuratorAgentRecipes.java",
    "crates/curator-recipes/tests/interop/CuratorAgentSemaphores.java",
    "crates/curator-bench/peers/CuratorBench.java",
    "crates/curator-bench/peers/CuratorBenchCache.java",
    "crates/curator-bench/peers/CuratorBenchCrowd.java",
    "crates/curator-bench/peers/CuratorBenchDiscovery.java",
    "crates/curator-bench/peers/CuratorBenchLock.java",
    "crates/curator-bench/peers/CuratorBenchRequest.java",
    "crates/curator-bench/peers/CuratorBenchTasks.java",
];

/// Finds the class path of our programs, or fetches Curator's jars and compiles the programs, into the target
/// directory. Quick if it is prepared already.
pub(crate) fn prepare() -> Result<OsString, String> {
    if let Some(classpath) = env::var_os(CLASSPATH_VARIABLE) {
        return Ok(classpath);
    }
    let home = target_dir()?.join("curator");
    // The suffix distinguishes this directory from one that an earlier version of xtask filled with fewer jars.
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
    let sources = SOURCES.map(|source| workspace().join(source));
    let read =
        |source: &PathBuf| fs::read_to_string(source).map_err(|e| format!("cannot read {}: {e}", source.display()));
    let texts = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let classes = home.join(directory_of(VERSION, &texts));
    if classes.is_dir() {
        return Ok(classes);
    }
    print_line("compiling the programs that use Curator");
    let (compiler, work) = (compiler()?, home.join(format!(".compiling-{}", id())));
    // Old versions of `javac` do not create the directory that `-d` names.
    fs::create_dir_all(&work).map_err(|e| format!("cannot make the directory {}: {e}", work.display()))?;
    let result = command::run(&mut javac(&compiler, jars, &work, &sources)).and_then(|()| {
        // Renamed when it is complete, so that other processes never see a part of it.
        match fs::rename(&work, &classes) {
            // Another process was faster.
            Err(_) if classes.is_dir() => Ok(()),
            result => result.map_err(|e| format!("cannot write to the directory {}: {e}", home.display())),
        }
    });
    // Leftovers after a failure are harmless.
    drop(fs::remove_dir_all(&work));
    result.map(|()| classes)
}

/// The name of the directory for the classes of these sources, compiled against this release of Curator.
fn directory_of(release: &str, sources: &[impl AsRef<str>]) -> String {
    let mut version = DefaultHasher::new();
    release.hash(&mut version);
    sources.iter().for_each(|source| source.as_ref().hash(&mut version));
    format!("classes-{:016x}", version.finish())
}

fn javac(compiler: &Path, jars: &Path, classes: &Path, sources: &[PathBuf]) -> Command {
    let mut javac = Command::new(compiler);
    // The compilation is too short for a concurrent collector and Java's second compiler to repay their time.
    javac.args(["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]);
    javac.arg("-cp").arg(jars.join("*")).arg("-d").arg(classes).args(sources).stdin(Stdio::null());
    javac
}

/// The compiler in `JAVA_HOME`, or else in `PATH`: ZooKeeper's scripts look for `java` in the same order.
fn compiler() -> Result<PathBuf, String> {
    let find = || {
        let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/javac"));
        home.filter(|javac| javac.is_file()).or_else(|| find_on_path("javac"))
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
    fn compiled_classes_are_reused_only_for_the_same_sources_and_release() {
        let directory = directory_of("5.9.0", &["class A {}", "class B {}"]);
        assert_eq!(directory, directory_of("5.9.0", &["class A {}", "class B {}"]));
        assert_ne!(directory, directory_of("5.8.0", &["class A {}", "class B {}"]));
        assert_ne!(directory, directory_of("5.9.0", &["class A {}", "class C {}"]));
        assert_ne!(directory, directory_of("5.9.0", &["class A {}"]));
    }

    #[test]
    fn the_release_is_pinned() {
        let pom = project(("org.apache.curator", DISCOVERY, VERSION), &[NO_LOGGING]);
        assert!(pom.contains("<artifactId>curator-x-discovery</artifactId><version>5.9.0</version>"), "{pom}");
        assert!(pom.contains("<artifactId>slf4j-nop</artifactId>"), "{pom}");
    }
}
