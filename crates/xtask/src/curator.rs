//! Makes Java Curator, and the worker that uses it, ready to run beside our locks.

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
    say, target_dir, workspace,
};

/// Tells the peers' tests, and the runs, how Java finds the worker and Curator.
pub(crate) const CLASSPATH_VARIABLE: &str = "CURATOR_TEST_CURATOR_CLASSPATH";

const VERSION: &str = "5.9.0";

/// Without it, each worker complains that there is no logging back end.
const NO_LOGGING: Artifact = ("org.slf4j", "slf4j-nop", "1.7.36");

/// The worker's source, in the workspace.
const SOURCE: &str = "crates/curator-jepsen/peers/CuratorWorker.java";

/// Finds the class path of the worker, or fetches Curator's jars and compiles the worker, into the target directory. Quick if
/// that has been done.
pub(crate) fn prepare() -> Result<OsString, String> {
    if let Some(classpath) = env::var_os(CLASSPATH_VARIABLE) {
        return Ok(classpath);
    }
    let home = target_dir()?.join("curator");
    let jars = home.join(VERSION);
    let curator = Jars {
        name: format!("Curator {VERSION}"),
        main: format!("curator-recipes-{VERSION}.jar"),
        pom: project(("org.apache.curator", "curator-recipes", VERSION), &[NO_LOGGING]),
    };
    curator.fetch(&jars)?;
    let classes = compiled(&home, &jars)?;
    env::join_paths([classes, jars.join("*")])
        .map_err(|e| format!("Java cannot use the directory {}: {e}", home.display()))
}

/// The directory with the worker's classes.
fn compiled(home: &Path, jars: &Path) -> Result<PathBuf, String> {
    let source = workspace().join(SOURCE);
    let text = fs::read_to_string(&source).map_err(|e| format!("cannot read {}: {e}", source.display()))?;
    let classes = home.join(directory_of(VERSION, &text));
    if classes.is_dir() {
        return Ok(classes);
    }
    say("compiling the worker that uses Curator");
    let (compiler, work) = (compiler()?, home.join(format!(".compiling-{}", id())));
    // Old compilers do not make it.
    fs::create_dir_all(&work).map_err(|e| format!("cannot make the directory {}: {e}", work.display()))?;
    let result = command::run(&mut javac(&compiler, jars, &work, &source)).and_then(|()| {
        // The directory gets its name only when it is complete.
        match fs::rename(&work, &classes) {
            // Another process was faster.
            Err(_) if classes.is_dir() => Ok(()),
            result => result.map_err(|e| format!("cannot write to the directory {}: {e}", home.display())),
        }
    });
    // Leftovers of a failure do no harm, and neither does a failure to remove them.
    drop(fs::remove_dir_all(&work));
    result.map(|()| classes)
}

/// The name of the directory for the classes of this source, compiled against this release of Curator.
fn directory_of(release: &str, source: &str) -> String {
    let mut version = DefaultHasher::new();
    (release, source).hash(&mut version);
    format!("worker-{:016x}", version.finish())
}

fn javac(compiler: &Path, jars: &Path, classes: &Path, source: &Path) -> Command {
    let mut javac = Command::new(compiler);
    javac.arg("-cp").arg(jars.join("*")).arg("-d").arg(classes).arg(source).stdin(Stdio::null());
    javac
}

/// From `JAVA_HOME`, then from `PATH`, as Java itself.
fn compiler() -> Result<PathBuf, String> {
    let find = || {
        let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/javac"));
        home.filter(|javac| javac.is_file()).or_else(|| find_on_path("javac"))
    };
    if let Some(javac) = find() {
        return Ok(javac);
    }
    say("no Java compiler found");
    debian::install_jdk()?;
    find().ok_or_else(|| "Debian's package has brought no `javac`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_compiled_against_the_jars_that_were_fetched() {
        let javac = javac(Path::new("/bin/javac"), Path::new("/jars"), Path::new("/classes"), Path::new("/W.java"));
        assert_eq!(javac.get_program(), "/bin/javac");
        assert_eq!(javac.get_args().collect::<Vec<_>>(), ["-cp", "/jars/*", "-d", "/classes", "/W.java"]);
    }

    #[test]
    fn classes_are_used_again_for_the_same_source_and_release_only() {
        let directory = directory_of("5.9.0", "class A {}");
        assert_eq!(directory, directory_of("5.9.0", "class A {}"));
        assert_ne!(directory, directory_of("5.8.0", "class A {}"));
        assert_ne!(directory, directory_of("5.9.0", "class B {}"));
    }

    #[test]
    fn the_release_is_pinned() {
        let pom = project(("org.apache.curator", "curator-recipes", VERSION), &[NO_LOGGING]);
        assert!(pom.contains("<artifactId>curator-recipes</artifactId><version>5.9.0</version>"), "{pom}");
        assert!(pom.contains("<artifactId>slf4j-nop</artifactId>"), "{pom}");
    }

    #[test]
    fn the_workers_source_is_there() {
        assert!(workspace().join(SOURCE).is_file());
    }
}
