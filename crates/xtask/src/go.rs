//! Builds the programs that use go-zookeeper, the ZooKeeper client for Go.

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
    print_line, target_dir, workspace,
};

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
/// variables. Quick if they are built already.
pub(crate) fn prepare() -> Result<Vec<(&'static str, OsString)>, String> {
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
        let (home, module) = (target_dir()?.join("go"), workspace().join(self.module));
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

/// The files from which the program is built, by their names. `go.mod` and `go.sum` pin the other
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
