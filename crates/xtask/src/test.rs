//! Runs the tests, and reports what ran.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    cargo,
    choice::{self, Server},
    command,
    curator::{self, CLASSPATH_VARIABLE},
    distribution::{DEBIAN_HOME, Distribution, HOME_VARIABLE},
    kazoo::{self, PYTHON_VARIABLE},
    kind::ServerKind,
    not_run::{INSTALL_CURATOR, INSTALL_DEBIAN, INSTALL_KAZOO, INSTALL_REAL, INSTALL_RELEASE, NotRun},
    plan::{self, Suite},
    prepare,
    summary::{Run, Summary, is_ci},
};

/// Runs all tests, or `cargo test` with these arguments, on the named servers, or else on embedded servers and then on real
/// ones.
pub(crate) fn run(servers: Option<&str>, arguments: &[String]) -> Result<(), String> {
    let mut summary = Summary::default();
    let (chosen_kind, ci) = (plan::chosen_kind()?, is_ci(env::var_os("CI").as_deref()));
    let choice = match servers {
        Some(list) => choice::named(list, chosen_kind)?,
        None => choice::default(arguments, chosen_kind, ci),
    };
    for (server, suite) in choice {
        match server {
            Server::Embedded => on_embedded_servers(arguments, &mut summary)?,
            Server::Found => on_the_one_found(suite, arguments, &mut summary)?,
            Server::Debian => on_debians(suite, arguments, &mut summary)?,
            Server::Release(version) => on_release(&version, suite, arguments, &mut summary)?,
        }
    }
    if servers.is_none() {
        summary.not_run.extend(NotRun::other_half(arguments, chosen_kind));
    }
    println!("\n{}", summary.text());
    // A named server is required.
    summary.verdict(ci || servers.is_some())
}

/// Comes first, and needs only cargo.
fn on_embedded_servers(arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    let kind = ServerKind::Embedded;
    summary.runs.push(chosen("embedded", kind, Suite::All, arguments, None)?);
    if arguments.is_empty() {
        with_other_clients(summary)?;
    }
    Ok(())
}

/// The tests with other clients, as far as those are available.
fn with_other_clients(summary: &mut Summary) -> Result<(), String> {
    let kind = ServerKind::Embedded;
    let (kazoo, curator) = (kazoo::prepare(), curator::prepare());
    if let Ok(python) = &kazoo {
        let variables = [(PYTHON_VARIABLE, python.as_path())];
        summary.runs.push(cargo::test("embedded, kazoo", kind, &plan::interop(), &variables)?);
    }
    let clients = [("kazoo", kazoo.is_ok()), ("curator", curator.is_ok())];
    let clients: Vec<_> = clients.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
    if !clients.is_empty() {
        let variables = peers(kazoo.as_ref().ok(), curator.as_ref().ok());
        summary.runs.push(cargo::test("embedded, peers", kind, &plan::peers(&clients), &variables)?);
    }
    let missing = |what: &str, why, remedy| NotRun { what: what.to_owned(), why, remedy };
    summary.not_run.extend(kazoo.err().map(|why| missing("the tests with kazoo", why, INSTALL_KAZOO)));
    summary.not_run.extend(curator.err().map(|why| missing("the tests with Curator", why, INSTALL_CURATOR)));
    Ok(())
}

/// The variables that tell where these clients are.
fn peers<'a>(kazoo: Option<&'a PathBuf>, curator: Option<&'a OsString>) -> Vec<(&'static str, &'a Path)> {
    let kazoo = kazoo.map(|python| (PYTHON_VARIABLE, python.as_path()));
    kazoo.into_iter().chain(curator.map(|classpath| (CLASSPATH_VARIABLE, Path::new(classpath)))).collect()
}

fn on_the_one_found(suite: Suite, arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    let found = match prepare::prepare() {
        Ok(found) => found,
        Err(why) => {
            let what = "the tests on a real ZooKeeper".to_owned();
            summary.not_run.push(NotRun { what, why, remedy: INSTALL_REAL });
            return Ok(());
        }
    };
    summary.runs.push(chosen(&title(&found), ServerKind::Real, suite, arguments, None)?);
    if arguments.is_empty() {
        summary.not_run.extend(NotRun::release_3_9(found.version()));
    }
    Ok(())
}

fn on_debians(suite: Suite, arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    // If there is no real server at all, that has been reported already.
    if summary.not_run.iter().any(|not_run| not_run.remedy == INSTALL_REAL) {
        return Ok(());
    }
    match prepare::debian() {
        // Everything has already run on it.
        Ok(debian) if summary.runs.iter().any(|run| run.server == title(&debian)) => Ok(()),
        Ok(debian) => {
            let home = PathBuf::from(DEBIAN_HOME);
            summary.runs.push(chosen(&title(&debian), ServerKind::Real, suite, arguments, Some(&home))?);
            Ok(())
        }
        Err(why) => {
            let what = match suite {
                Suite::Conformance => "the conformance tests on ZooKeeper 3.8",
                _ => "the tests on ZooKeeper 3.8, Debian's package",
            };
            summary.not_run.push(NotRun { what: what.to_owned(), why, remedy: INSTALL_DEBIAN });
            Ok(())
        }
    }
}

fn on_release(version: &str, suite: Suite, arguments: &[String], summary: &mut Summary) -> Result<(), String> {
    let title = format!("ZooKeeper {version}");
    if summary.runs.iter().any(|run| run.server == title) {
        return Ok(());
    }
    match prepare::release(version) {
        Ok(home) => summary.runs.push(chosen(&title, ServerKind::Real, suite, arguments, Some(&home))?),
        Err(why) => {
            summary.not_run.push(NotRun { what: format!("the tests on {title}"), why, remedy: INSTALL_RELEASE });
        }
    }
    Ok(())
}

/// A suite, or the tests that the caller wants; on the ZooKeeper at this place, if one is given.
fn chosen(
    server: &str,
    kind: ServerKind,
    suite: Suite,
    arguments: &[String],
    home: Option<&Path>,
) -> Result<Run, String> {
    if arguments.is_empty() && suite == Suite::Real {
        command::run(command::cargo().args(plan::BUILD_EXAMPLES))?;
    }
    let line = plan::command_line(arguments, suite);
    let runs_faults = plan::names_jepsen(arguments) || (arguments.is_empty() && suite == Suite::Real);
    let kazoo = brought(plan::names_kazoo(arguments), runs_faults, kazoo::prepare)?;
    let curator = brought(plan::names_curator(arguments), runs_faults, curator::prepare)?;
    let home = home.map(|home| (HOME_VARIABLE, home));
    let variables: Vec<_> = peers(kazoo.as_ref(), curator.as_ref()).into_iter().chain(home).collect();
    let run = cargo::test(server, kind, &line, &variables)?;
    Ok(Run { all: arguments.is_empty() && suite != Suite::Conformance, ..run })
}

/// Another client for tests that need it, or that can do without.
fn brought<T>(needed: bool, wanted: bool, prepare: fn() -> Result<T, String>) -> Result<Option<T>, String> {
    match (needed, wanted) {
        (true, _) => prepare().map(Some),
        (false, true) => Ok(prepare().ok()),
        (false, false) => Ok(None),
    }
}

fn title(found: &Distribution) -> String {
    format!("ZooKeeper {}", found.version().unwrap_or("of unknown version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_a_client_fails_without_it_and_who_only_wants_it_does_not() {
        let there = || Ok("client");
        let absent = || Err("no client".to_owned());
        assert_eq!(brought(true, false, there), Ok(Some("client")));
        assert_eq!(brought(false, true, there), Ok(Some("client")));
        assert_eq!(brought::<()>(true, true, absent), Err("no client".to_owned()));
        assert_eq!(brought::<()>(false, true, absent), Ok(None));
        // It is not even looked for.
        assert_eq!(brought::<()>(false, false, || panic!("it was prepared")), Ok(None));
    }
}
