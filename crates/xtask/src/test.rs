//! Runs the tests, and says what ran.

use std::{env, path::Path};

use crate::{
    cargo, command,
    distribution::{DEBIAN_HOME, Distribution},
    kazoo::{self, PYTHON_VARIABLE},
    kind::ServerKind,
    not_run::{INSTALL_DEBIAN, INSTALL_KAZOO, INSTALL_REAL, NotRun},
    plan, prepare,
    summary::{Run, Summary, is_ci},
};

/// Runs all tests, or `cargo test` with these arguments, on embedded servers and then on real ones.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut summary = Summary::default();
    let chosen_kind = plan::chosen_kind()?;
    for kind in plan::kinds(arguments, chosen_kind) {
        match kind {
            ServerKind::Embedded => on_embedded_servers(arguments, &mut summary)?,
            ServerKind::Real => on_real_servers(arguments, &mut summary)?,
        }
    }
    summary.not_run.extend(NotRun::other_half(arguments, chosen_kind));
    println!("\n{}", summary.text());
    summary.verdict(is_ci(env::var_os("CI").as_deref()))
}

/// Comes first, and needs nothing but cargo.
fn on_embedded_servers(arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    let kind = ServerKind::Embedded;
    summary.runs.push(chosen("embedded", kind, arguments)?);
    if arguments.is_empty() {
        match kazoo::prepare() {
            Ok(python) => {
                let variables = [(PYTHON_VARIABLE, python.as_path())];
                summary.runs.push(cargo::test("embedded, kazoo", kind, &plan::interop(), &variables)?);
            }
            Err(why) => {
                summary.not_run.push(NotRun { what: "the tests with kazoo", why, remedy: INSTALL_KAZOO });
            }
        }
    }
    Ok(())
}

fn on_real_servers(arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    let kind = ServerKind::Real;
    let found = match prepare::prepare() {
        Ok(found) => found,
        Err(why) => {
            summary.not_run.push(NotRun { what: "the tests on a real ZooKeeper", why, remedy: INSTALL_REAL });
            return Ok(());
        }
    };
    if arguments.is_empty() {
        command::run(command::cargo().args(plan::BUILD_EXAMPLES))?;
    }
    summary.runs.push(chosen(&title(&found), kind, arguments)?);
    if arguments.is_empty() {
        summary.not_run.extend(NotRun::release_3_9(found.version()));
        match prepare::debian() {
            // Everything has run on it already.
            Ok(debian) if debian.version() == found.version() => {}
            Ok(debian) => {
                let variables = [("ZOOKEEPER_HOME", Path::new(DEBIAN_HOME))];
                summary.runs.push(cargo::test(&title(&debian), kind, &plan::conformance(), &variables)?);
            }
            Err(why) => {
                let what = "the conformance tests on ZooKeeper 3.8";
                summary.not_run.push(NotRun { what, why, remedy: INSTALL_DEBIAN });
            }
        }
    }
    Ok(())
}

/// All tests, or those that the caller wants.
fn chosen(server: &str, kind: ServerKind, arguments: &[String]) -> Result<Run, String> {
    let line = plan::command_line(arguments, kind);
    let python = plan::names_interop(arguments).then(kazoo::prepare).transpose()?;
    let variables: Vec<_> = python.iter().map(|python| (PYTHON_VARIABLE, python.as_path())).collect();
    let run = cargo::test(server, kind, &line, &variables)?;
    Ok(Run { all: arguments.is_empty(), ..run })
}

fn title(found: &Distribution) -> String {
    format!("ZooKeeper {}", found.version().unwrap_or("of unknown version"))
}
