//! Prepares the other ZooKeeper clients that tests, runs under faults and the bench use: kazoo, the
//! client for Python, and the programs that use go-zookeeper, the client for Go. Curator comes
//! through Maven.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    command, debian,
    distribution::find_on_path,
    files::{files, make_at, name_of, read},
    maven::{CLASSPATH_VARIABLE, prepare_curator},
    print_line,
    summary::NotRun,
    target_dir, workspace,
};

/// Another ZooKeeper client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Client {
    Curator,
    Go,
    Kazoo,
}

impl Client {
    pub(crate) const ALL: [Self; 3] = [Self::Curator, Self::Go, Self::Kazoo];

    /// The client's name on the command line, which is also the name of its module of interop
    /// tests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Curator => "curator",
            Self::Go => "go",
            Self::Kazoo => "kazoo",
        }
    }

    /// Finds the client, or fetches it. Takes little time if it is prepared already.
    pub(crate) fn prepare(self) -> Result<Prepared, String> {
        let variables = match self {
            Self::Curator => vec![(CLASSPATH_VARIABLE, prepare_curator()?)],
            Self::Go => prepare_go()?,
            Self::Kazoo => vec![(PYTHON_VARIABLE, prepare_kazoo()?.into_os_string())],
        };
        Ok(Prepared {
            client: self,
            variables,
        })
    }

    /// Like [`prepare`](Self::prepare), but also prints the client's location.
    pub(crate) fn prepare_and_report(self) -> Result<Prepared, String> {
        let prepared = self.prepare()?;
        for (variable, location) in &prepared.variables {
            print_line(&format!(
                "{self:?}: {variable}={}",
                location.to_string_lossy()
            ));
        }
        Ok(prepared)
    }
}

/// A prepared client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) client: Client,
    /// The environment variables with the locations of the client and of our programs that use it.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// Prepares all clients. Returns the prepared ones, and the tests that cannot run because a client
/// is missing.
pub(crate) fn available() -> (Vec<Prepared>, Vec<NotRun>) {
    partition(Client::ALL.map(|client| (client, client.prepare())))
}

fn partition(
    results: impl IntoIterator<Item = (Client, Result<Prepared, String>)>,
) -> (Vec<Prepared>, Vec<NotRun>) {
    let mut there = Vec::new();
    let mut not_run = Vec::new();
    for (client, result) in results {
        match result {
            Ok(prepared) => there.push(prepared),
            Err(why) => {
                let what = format!("the tests with {client:?}");
                not_run.push(NotRun { what, why });
            }
        }
    }
    (there, not_run)
}

/// The environment variable with a Python that can import kazoo.
pub(crate) const PYTHON_VARIABLE: &str = "CURATOR_TEST_KAZOO_PYTHON";

/// The version of kazoo, which needs no other package.
pub(crate) const KAZOO_VERSION: &str = "2.11.0";

/// Finds a Python that can import kazoo, or creates a virtual environment for it in the target
/// directory. Takes little time if the environment exists already.
pub(crate) fn prepare_kazoo() -> Result<PathBuf, String> {
    if let Some(python) = env::var_os(PYTHON_VARIABLE).map(PathBuf::from) {
        let error = || {
            format!(
                "{PYTHON_VARIABLE} is {}, which cannot import kazoo {KAZOO_VERSION}",
                python.display()
            )
        };
        return if imports_kazoo(&python) {
            Ok(python.clone())
        } else {
            Err(error())
        };
    }
    let environment = target_dir()?.join("kazoo").join(KAZOO_VERSION);
    let python = environment.join("bin/python");
    if !imports_kazoo(&python) {
        print_line(&format!("fetching kazoo {KAZOO_VERSION} with pip"));
        create_environment(&environment)?;
        command::run(&mut install_kazoo(&python))
            .map_err(|e| format!("could not fetch kazoo from the Python package index: {e}"))?;
    }
    if imports_kazoo(&python) {
        Ok(python)
    } else {
        Err(format!(
            "pip has installed another version of kazoo than {KAZOO_VERSION}"
        ))
    }
}

/// Creates an empty virtual environment. Replaces an existing one.
fn create_environment(environment: &Path) -> Result<(), String> {
    let venv = || {
        let mut python = Command::new("python3");
        command::run(
            python
                .args(["-m", "venv", "--clear"])
                .arg(environment)
                .stdin(Stdio::null()),
        )
    };
    if find_on_path("python3").is_some() && venv().is_ok() {
        return Ok(());
    }
    // Debian's Python does not contain the module `venv`.
    debian::install_python().map_err(|e| {
        format!("there is no Python with the module `venv`, and it could not be installed: {e}")
    })?;
    venv()
}

fn install_kazoo(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .arg(format!("kazoo=={KAZOO_VERSION}"));
    pip.stdin(Stdio::null());
    pip
}

fn imports_kazoo(python: &Path) -> bool {
    let check =
        format!("import kazoo.version as v; raise SystemExit(v.__version__ != '{KAZOO_VERSION}')");
    command::succeeds(Command::new(python).arg("-c").arg(check))
}

/// The environment variable with the path of the interop tests' Go program.
const AGENT_VARIABLE: &str = "CURATOR_TEST_GO_AGENT";

/// The environment variable with the path of the bench's Go program.
const BENCH_VARIABLE: &str = "CURATOR_TEST_GO_BENCH";

/// One of our Go programs.
struct Program {
    name: &'static str,
    /// The directory of its module in the workspace.
    module: &'static str,
    /// The environment variable with the path of a program that was built elsewhere.
    variable: &'static str,
}

const AGENT: Program = Program {
    name: "agent",
    module: "crates/curator-recipes/tests/interop/go",
    variable: AGENT_VARIABLE,
};

const BENCH: Program = Program {
    name: "bench",
    module: "crates/curator-bench/peers/go",
    variable: BENCH_VARIABLE,
};

/// Finds the programs, or builds them into the target directory, and returns their environment
/// variables. Takes little time if they are built already.
pub(crate) fn prepare_go() -> Result<Vec<(&'static str, OsString)>, String> {
    [AGENT, BENCH]
        .iter()
        .map(|program| Ok((program.variable, program.prepare()?.into_os_string())))
        .collect()
}

impl Program {
    fn prepare(&self) -> Result<PathBuf, String> {
        if let Some(program) = env::var_os(self.variable) {
            return Ok(program.into());
        }
        let home = target_dir()?.join("go");
        let module = workspace().join(self.module);
        let program = home.join(name_of(self.name, &sources(&module)?));
        if program.is_file() {
            return Ok(program);
        }
        print_line(&format!("building the Go program in {}", self.module));
        let go = go()?;
        make_at(&program, |work| {
            command::run(&mut build(&go, &module, work))
        })?;
        Ok(program)
    }
}

/// The files of the program, by their paths in the module. `go.mod` and `go.sum` pin the other
/// modules.
fn sources(module: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut paths = files(module)?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|e| ["go", "mod", "sum"].iter().any(|kind| e == *kind))
    });
    paths
        .into_iter()
        .map(|path| {
            Ok((
                path.strip_prefix(module).unwrap_or(&path).to_owned(),
                read(&path)?,
            ))
        })
        .collect()
}

fn build(go: &Path, module: &Path, program: &Path) -> Command {
    let mut build = Command::new(go);
    // The build needs no C compiler, and must not fetch another version of Go.
    build.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
    build
        .args([
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-trimpath",
            "-o",
        ])
        .arg(program)
        .arg(".");
    build.current_dir(module).stdin(Stdio::null());
    build
}

/// Finds `go` in `PATH`; otherwise installs Debian's package.
fn go() -> Result<PathBuf, String> {
    if let Some(go) = find_on_path("go") {
        return Ok(go);
    }
    print_line("no Go found");
    debian::install_go()?;
    find_on_path("go").ok_or_else(|| "Debian's package does not contain `go`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_peers_are_reported_and_the_others_are_used() {
        let there = Prepared {
            client: Client::Curator,
            variables: vec![("X", "/jars".into())],
        };
        let results = [
            (Client::Curator, Ok(there.clone())),
            (Client::Kazoo, Err("no Python".to_owned())),
        ];
        let (available, not_run) = partition(results);
        assert_eq!(available, [there]);
        let text = not_run.iter().map(NotRun::text).collect::<String>();
        assert!(
            text.contains("*** NOT RUN: the tests with Kazoo ***"),
            "{text}"
        );
        assert!(text.contains("why: no Python"), "{text}");
    }

    #[test]
    fn each_client_has_a_module_of_tests() {
        for client in Client::ALL {
            let main = workspace().join("crates/curator-recipes/tests/interop/main.rs");
            let text = std::fs::read_to_string(main).unwrap();
            assert!(
                text.contains(&format!("\nmod {};\n", client.name())),
                "{client:?}"
            );
        }
    }
}
