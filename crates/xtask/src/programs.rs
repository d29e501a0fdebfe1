//! Builds all test programs of the workspace, and lists them.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    command,
    targets::{self, Build, CONFORMANCE, Needs, SERVER, TARGETS, Target, Tier, UNIT},
};

/// A program that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The target, or `unit` for the tests in the package's sources.
    pub(crate) target: &'static Target,
    pub(crate) build: Build,
    /// The package's directory, which is the working directory of its tests, as in `cargo test`.
    directory: PathBuf,
    executable: PathBuf,
}

/// The package of the client.
pub(crate) const CLIENT: &str = "curator-client";

/// The package of the recipes.
pub(crate) const RECIPES: &str = "curator-recipes";

/// The package of service discovery.
pub(crate) const DISCOVERY: &str = "curator-discovery";

/// The package that compiles the code on the pages.
pub(crate) const PAGES: &str = "curator-pages";

/// The packages whose tests run before each commit: no fault tester, no bench and no examples.
pub(crate) const PLAIN_PACKAGES: [&str; 10] = [
    CLIENT,
    DISCOVERY,
    PAGES,
    "curator-protocol",
    RECIPES,
    "curator-results",
    "curator-simulation",
    "curator-test",
    "xtask",
    "zklock",
];

/// The features of [`Build::Plain`]: the default ones without `tls` of `zklock`, which needs a C
/// compiler.
const PLAIN_FEATURES: &str = "curator-client/zookeeper-client,curator-discovery/zookeeper-client,\
                              curator-recipes/zookeeper-client,curator-test/simulation";

/// The packages with tests that need all features, and the packages that only tools and examples
/// need.
const FULL_PACKAGES: [&str; 12] = [
    CLIENT,
    "curator-discovery",
    "curator-example-discovery",
    "curator-example-service",
    "curator-example-tls",
    "curator-examples",
    "curator-jepsen",
    PAGES,
    "curator-protocol",
    "curator-recipes",
    "curator-test",
    "zklock",
];

/// The packages with tests that only a run of all tests builds.
const NIGHTLY_PACKAGES: [&str; 1] = ["curator-bench"];

/// The features of [`Build::Full`], besides the default features and [`KERBEROS_FEATURE`].
const FULL_FEATURES: &str = "curator-client/tls,curator-recipes/tls,curator-test/tls,curator-pages/full,curator-examples/backoff";

/// The feature with Kerberos tickets.
const KERBEROS_FEATURE: &str = "curator-client/sasl-gssapi";

/// Builds the test programs of a run: once without the features that need a C compiler, and, unless
/// the tier is [`Tier::Commit`], once with all of them.
pub(crate) fn build(tier: Tier, has_kerberos: bool) -> Result<Vec<Program>, String> {
    let mut programs = cargo(
        Build::Plain,
        &plain(),
        &named_targets(Build::Plain, tier, has_kerberos),
    )?;
    if tier != Tier::Landing {
        // The targets that plain `cargo test` runs.
        programs.extend(cargo(Build::Plain, &plain(), &[])?);
    }
    if tier != Tier::Commit {
        // Some tests run examples as programs; `cargo test --examples` would build their tests
        // instead.
        let examples = ["build", "--profile", "test", "--examples"].map(str::to_owned);
        command::run(
            command::cargo()
                .args(examples)
                .args(full(tier, has_kerberos)),
        )?;
        programs.extend(cargo(
            Build::Full,
            &full(tier, has_kerberos),
            &named_targets(Build::Full, tier, has_kerberos),
        )?);
    }
    // The libraries' programs are built both with and without named targets.
    programs.sort_by(|one, other| one.executable.cmp(&other.executable));
    programs.dedup_by(|one, other| one.executable == other.executable);
    Ok(programs)
}

fn packages<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names
        .into_iter()
        .flat_map(|name| ["--package".to_owned(), name.to_owned()])
        .collect()
}

/// The packages and features of [`Build::Plain`].
fn plain() -> Vec<String> {
    let features = ["--no-default-features", "--features", PLAIN_FEATURES].map(str::to_owned);
    [packages(PLAIN_PACKAGES), features.to_vec()].concat()
}

/// The packages and features of [`Build::Full`].
fn full(tier: Tier, has_kerberos: bool) -> Vec<String> {
    let nightly = if tier == Tier::Nightly {
        &NIGHTLY_PACKAGES[..]
    } else {
        &[]
    };
    let mut features = FULL_FEATURES.to_owned();
    if has_kerberos {
        features = format!("{features},{KERBEROS_FEATURE}");
    }
    [
        packages(FULL_PACKAGES.into_iter().chain(nightly.iter().copied())),
        vec!["--features".to_owned(), features],
    ]
    .concat()
}

/// The arguments for the targets of this build that plain `cargo test` does not run, and for the
/// tests in the sources. Without the latter, cargo would not enable the features of packages that
/// have none of these targets.
fn named_targets(build: Build, tier: Tier, has_kerberos: bool) -> Vec<String> {
    // These run on older releases too.
    let is_of_older_releases = |name| tier != Tier::Commit && [SERVER, CONFORMANCE].contains(&name);
    let names = TARGETS
        .iter()
        .filter(|target| {
            target.build == build
                && target.name != UNIT
                && (tier.includes(target.tier) || is_of_older_releases(target.name))
                && (has_kerberos || target.needs != Needs::Kerberos)
        })
        .map(|target| target.name);
    ["--lib", "--bins"]
        .map(str::to_owned)
        .into_iter()
        .chain(names.flat_map(|name| ["--test".to_owned(), name.to_owned()]))
        .collect()
}

/// Builds the test programs of the targets that `targets` selects, of these packages with these
/// features.
fn cargo(build: Build, packages: &[String], targets: &[String]) -> Result<Vec<Program>, String> {
    let mut cargo = command::cargo();
    cargo
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .args(packages)
        .args(targets);
    let messages =
        command::output(&mut cargo).map_err(|e| format!("the tests could not be built: {e}"))?;
    messages
        .lines()
        .map(|message| Program::read(message, build))
        .filter_map(Result::transpose)
        .collect()
}

/// Builds the tests in the documentation, with all features, and runs them.
pub(crate) fn documentation(tier: Tier, has_kerberos: bool) -> Command {
    let mut command = command::cargo();
    command
        .args(["test", "--doc", "--no-fail-fast"])
        .args(full(tier, has_kerberos));
    command
}

impl Program {
    /// Reads one of cargo's messages. `None` if it is not about a test program.
    fn read(message: &str, build: Build) -> Result<Option<Self>, String> {
        let message: Value = serde_json::from_str(message)
            .map_err(|e| format!("cannot read cargo's message `{message}`: {e}"))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(executable), Some(true)) = (
            text(&message["executable"]),
            message["profile"]["test"].as_bool(),
        ) else {
            return Ok(None);
        };
        let malformed = || format!("cargo's message about the program {executable} is malformed");
        let manifest = text(&message["manifest_path"]).ok_or_else(malformed)?;
        let directory = PathBuf::from(manifest)
            .parent()
            .map(PathBuf::from)
            .ok_or_else(malformed)?;
        let package = text(&message["package_id"])
            .as_deref()
            .and_then(package_name)
            .ok_or_else(malformed)?;
        let kind = message["target"]["kind"][0]
            .as_str()
            .ok_or_else(malformed)?;
        let name = match kind {
            "test" => text(&message["target"]["name"]).ok_or_else(malformed)?,
            _ => UNIT.to_owned(),
        };
        let target = targets::named(&name).ok_or_else(|| {
            format!("the test target {name} of {package} is not in crates/xtask/src/targets.rs")
        })?;
        Ok(Some(Self {
            package,
            target,
            build,
            directory,
            executable: executable.into(),
        }))
    }

    /// The smallest tier that includes the program. [`Tier::Commit`] builds nothing with all
    /// features.
    pub(crate) fn tier(&self) -> Tier {
        match self.build {
            Build::Plain => self.target.tier,
            Build::Full => self.target.tier.max(Tier::Landing),
        }
    }

    /// The command that runs the program, with the directory and the variables that `cargo test`
    /// sets.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        let cargo = command::cargo().get_program().to_owned();
        let variables = [
            ("CARGO", cargo),
            ("CARGO_MANIFEST_DIR", OsString::from(&self.directory)),
            ("CARGO_PKG_NAME", OsString::from(&self.package)),
        ];
        command
            .current_dir(&self.directory)
            .envs(variables)
            .stdin(Stdio::null());
        command
    }
}

/// The name in the id of a package: `path+file:///w/crates/a#0.1.0`, or `path+file:///w/b#a@0.1.0`
/// if the directory has another name.
fn package_name(id: &str) -> Option<String> {
    let (path, version) = id.rsplit_once('#')?;
    let name = version
        .rsplit_once('@')
        .map_or_else(|| path.rsplit('/').next(), |(name, _)| Some(name));
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
            let program = Program::read(&message(kind, name, test), Build::Plain);
            program.map(|found| found.map(|program| (program.package, program.target.name)))
        };
        assert_eq!(
            read("test", "server", true),
            Ok(Some(("a".to_owned(), "server")))
        );
        assert_eq!(read("lib", "a", true), Ok(Some(("a".to_owned(), "unit"))));
        assert_eq!(read("bin", "a", false), Ok(None));
        assert_eq!(
            Program::read(
                r#"{"reason":"build-finished","success":true}"#,
                Build::Plain
            ),
            Ok(None)
        );
        assert!(
            read("test", "serve", true)
                .unwrap_err()
                .contains("the test target serve of a is not in")
        );
        assert!(
            Program::read("warning: x", Build::Plain)
                .unwrap_err()
                .contains("cargo's message `warning: x`")
        );
    }

    #[test]
    fn a_run_builds_the_targets_of_its_tier() {
        let names = |build, tier, has_kerberos| -> Vec<_> {
            named_targets(build, tier, has_kerberos)
                .into_iter()
                .filter(|word| !word.starts_with('-'))
                .collect()
        };
        assert!(names(Build::Plain, Tier::Commit, true).contains(&"interop".to_owned()));
        assert!(!names(Build::Plain, Tier::Commit, true).contains(&"hostile".to_owned()));
        assert!(names(Build::Plain, Tier::Landing, true).contains(&"hostile".to_owned()));
        for (has_kerberos, count) in [(true, 1), (false, 0)] {
            let full = names(Build::Full, Tier::Landing, has_kerberos);
            assert_eq!(
                full.iter().filter(|name| *name == "kerberos").count(),
                count
            );
            assert!(full.contains(&"tls".to_owned()) && !full.contains(&"bench".to_owned()));
        }
        assert!(names(Build::Full, Tier::Nightly, true).contains(&"bench".to_owned()));
    }

    #[test]
    fn the_name_of_a_package_is_read_from_its_id() {
        assert_eq!(
            package_name("path+file:///w/crates/a#0.1.0").as_deref(),
            Some("a")
        );
        assert_eq!(
            package_name("path+file:///w/examples#a-examples@0.1.0").as_deref(),
            Some("a-examples")
        );
    }
}
