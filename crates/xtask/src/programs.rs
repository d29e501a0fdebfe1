//! Builds all test programs of the workspace, and lists them.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    command,
    targets::{Needs, UNIT, needs},
};

/// A program that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The test target, or `unit` for the tests in the package's sources.
    pub(crate) target: String,
    pub(crate) needs: Needs,
    /// The package's directory, which is the working directory of its tests, as in `cargo test`.
    directory: PathBuf,
    executable: PathBuf,
}

/// Builds every test program: the programs of plain `cargo test --workspace`, which also builds the examples, and the
/// programs that it leaves out. `features` are additional arguments; without them, the tests with Kerberos tickets are
/// not built.
pub(crate) fn build(features: &[&str], ci: bool) -> Result<Vec<Program>, String> {
    let left_out = left_out(&command::output(command::cargo().args(["metadata", "--no-deps", "--format-version=1"]))?)?;
    let wanted = left_out.iter().filter(|target| is_wanted(needs(target), !features.is_empty(), ci));
    // `--lib` and `--bins` select targets of all packages: a build enables only the features of packages with a selected
    // target.
    let named = ["--lib", "--bins"].into_iter().chain(wanted.flat_map(|target| ["--test", target]));
    let mut programs = cargo(features)?;
    for program in cargo(&features.iter().copied().chain(named).collect::<Vec<_>>())? {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    Ok(programs)
}

/// Whether a test target that plain `cargo test` leaves out is built.
fn is_wanted(needs: Option<Needs>, has_kerberos: bool, ci: bool) -> bool {
    match needs {
        Some(Needs::Time) => false,
        Some(Needs::Kerberos) => has_kerberos,
        Some(Needs::EitherInCi) => ci,
        _ => true,
    }
}

/// The test targets that plain `cargo test` leaves out, according to `cargo metadata`.
fn left_out(metadata: &str) -> Result<BTreeSet<String>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|e| format!("cannot read cargo's metadata: {e}"))?;
    let targets =
        metadata["packages"].as_array().into_iter().flatten().filter_map(|package| package["targets"].as_array());
    let tests = targets.flatten().filter(|target| target["kind"][0] == "test" && target["test"] == false);
    Ok(tests.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect())
}

/// Builds the test programs of all packages that these arguments select.
fn cargo(arguments: &[&str]) -> Result<Vec<Program>, String> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
    let messages = command::output(&mut cargo).map_err(|e| format!("the tests could not be built: {e}"))?;
    messages.lines().map(Program::read).filter_map(Result::transpose).collect()
}

impl Program {
    /// Reads one of cargo's messages. `None` if it is not about a test program.
    fn read(message: &str) -> Result<Option<Self>, String> {
        let message: Value =
            serde_json::from_str(message).map_err(|e| format!("cannot read cargo's message `{message}`: {e}"))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(executable), Some(true)) = (text(&message["executable"]), message["profile"]["test"].as_bool())
        else {
            return Ok(None);
        };
        let malformed = || format!("cargo's message about the program {executable} is malformed");
        let manifest = text(&message["manifest_path"]).ok_or_else(malformed)?;
        let directory = PathBuf::from(manifest).parent().map(PathBuf::from).ok_or_else(malformed)?;
        let package = text(&message["package_id"]).as_deref().and_then(name).ok_or_else(malformed)?;
        let kind = message["target"]["kind"][0].as_str().ok_or_else(malformed)?;
        let (target, needs) = match kind {
            "test" => {
                let target = text(&message["target"]["name"]).ok_or_else(malformed)?;
                let needs = needs(&target).ok_or_else(|| {
                    format!("the test target {target} of {package} is not in crates/xtask/src/targets.rs")
                })?;
                (target, needs)
            }
            _ => (UNIT.to_owned(), Needs::Nothing),
        };
        Ok(Some(Self { package, target, needs, directory, executable: executable.into() }))
    }

    /// The command that runs the program, with the directory and the variables that `cargo test` sets.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        let cargo = command::cargo().get_program().to_owned();
        let variables = [
            ("CARGO", cargo),
            ("CARGO_MANIFEST_DIR", OsString::from(&self.directory)),
            ("CARGO_PKG_NAME", OsString::from(&self.package)),
        ];
        command.current_dir(&self.directory).envs(variables).stdin(Stdio::null());
        command
    }
}

/// The name in the id of a package: `path+file:///w/crates/a#0.1.0`, or `path+file:///w/b#a@0.1.0` if the directory has
/// another name.
fn name(id: &str) -> Option<String> {
    let (path, version) = id.rsplit_once('#')?;
    let name = version.rsplit_once('@').map_or_else(|| path.rsplit('/').next(), |(name, _)| Some(name));
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, name: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/a#0.1.0","manifest_path":"/w/crates/a/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/x-1"}}"#
        )
    }

    #[test]
    fn test_programs_are_distinguished_from_other_artifacts() {
        let read = |kind, name, test| {
            Program::read(&message(kind, name, test)).map(|found| found.map(|p| (p.target, p.needs)))
        };
        assert_eq!(read("test", "server", true), Ok(Some(("server".to_owned(), Needs::Either))));
        assert_eq!(read("lib", "a", true), Ok(Some(("unit".to_owned(), Needs::Nothing))));
        assert_eq!(read("bin", "a", false), Ok(None));
        assert_eq!(Program::read(r#"{"reason":"build-finished","success":true}"#), Ok(None));
        assert!(read("test", "serve", true).unwrap_err().contains("the test target serve of a is not in"));
        assert!(Program::read("warning: x").unwrap_err().contains("cargo's message `warning: x`"));
    }

    #[test]
    fn test_targets_that_cargo_test_leaves_out_are_found() {
        let target =
            |kind: &str, name: &str, test: bool| format!(r#"{{"kind":["{kind}"],"name":"{name}","test":{test}}}"#);
        let targets = [target("test", "real", false), target("test", "server", true), target("example", "x", false)];
        let metadata = format!(r#"{{"packages":[{{"targets":[{}]}}]}}"#, targets.join(","));
        assert_eq!(left_out(&metadata), Ok(["real".to_owned()].into()));
    }

    #[test]
    fn the_fault_matrix_is_built_only_with_ci() {
        for ci in [false, true] {
            assert_eq!(is_wanted(needs("matrix"), true, ci), ci);
            assert!(is_wanted(needs("real"), true, ci) && !is_wanted(needs("model-deep"), true, ci));
        }
    }

    #[test]
    fn the_name_of_a_package_is_read_from_its_id() {
        assert_eq!(name("path+file:///w/crates/a#0.1.0").as_deref(), Some("a"));
        assert_eq!(name("path+file:///w/examples#a-examples@0.1.0").as_deref(), Some("a-examples"));
    }
}
