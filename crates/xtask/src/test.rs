//! Runs the tests, and reports what ran.

use std::{cell::OnceCell, env, path::Path};

use crate::{
    cargo,
    choice::{self, Server},
    clients::{self, Client, Prepared},
    command,
    distribution::{DEBIAN_HOME, Distribution, HOME_VARIABLE},
    kerberos,
    kind::ServerKind,
    not_run::{INSTALL_DEBIAN, INSTALL_KERBEROS, INSTALL_REAL, INSTALL_RELEASE, NotRun},
    plan::{self, Suite},
    prepare,
    summary::{Run, Summary, is_ci},
};

/// Runs all tests, or `cargo test` with these arguments, on the named servers, or else on embedded servers and then on real
/// ones.
pub(crate) fn run(servers: Option<&str>, arguments: &[String]) -> Result<(), String> {
    let (chosen_kind, ci) = (plan::chosen_kind()?, is_ci(env::var_os("CI").as_deref()));
    let choice = match servers {
        Some(list) => choice::named(list, chosen_kind)?,
        None => choice::default(arguments, chosen_kind, ci),
    };
    let mut runner = Runner { arguments, ci, clients: OnceCell::new(), summary: Summary::default() };
    for (server, suite) in choice {
        match server {
            Server::Embedded => runner.on_embedded_servers()?,
            Server::Found => runner.on_the_one_found(suite)?,
            Server::Debian => runner.on_debians(suite)?,
            Server::Release(version) => runner.on_release(&version, suite)?,
        }
    }
    let Runner { clients, mut summary, .. } = runner;
    // Runs that a caller names can do without.
    if arguments.is_empty() {
        summary.not_run.extend(clients.into_inner().into_iter().flat_map(|(_, not_run)| not_run));
    }
    if servers.is_none() {
        summary.not_run.extend(NotRun::other_half(arguments, chosen_kind));
    }
    println!("\n{}", summary.text());
    // A named server is required.
    summary.verdict(ci || servers.is_some())
}

struct Runner<'a> {
    /// Those of `cargo test`; without any, everything runs.
    arguments: &'a [String],
    /// Whether the machine is a build server.
    ci: bool,
    /// The other clients, which are looked for when they are first needed, and what is not run without those that are missing.
    clients: OnceCell<(Vec<Prepared>, Vec<NotRun>)>,
    summary: Summary,
}

/// A server that is there.
struct Place<'a> {
    title: &'a str,
    kind: ServerKind,
    /// Where this ZooKeeper is; without it, tests find one by themselves.
    home: Option<&'a Path>,
}

impl Runner<'_> {
    /// Comes first, and needs only cargo.
    fn on_embedded_servers(&mut self) -> Result<(), String> {
        self.on(&Place { title: "embedded", kind: ServerKind::Embedded, home: None }, Suite::All)
    }

    fn on_the_one_found(&mut self, suite: Suite) -> Result<(), String> {
        let found = match prepare::prepare() {
            Ok(found) => found,
            Err(why) => {
                let what = "the tests on a real ZooKeeper".to_owned();
                self.summary.not_run.push(NotRun { what, why, remedy: INSTALL_REAL });
                return Ok(());
            }
        };
        self.on(&Place { title: &title(&found), kind: ServerKind::Real, home: None }, suite)?;
        if self.arguments.is_empty() {
            self.summary.not_run.extend(NotRun::release_3_9(found.version()));
        }
        Ok(())
    }

    fn on_debians(&mut self, suite: Suite) -> Result<(), String> {
        // If there is no real server at all, that has been reported already.
        if self.summary.not_run.iter().any(|not_run| not_run.remedy == INSTALL_REAL) {
            return Ok(());
        }
        match prepare::debian() {
            // Everything has already run on it.
            Ok(debian) if self.has_run_on(&title(&debian)) => Ok(()),
            Ok(debian) => {
                let home = Some(Path::new(DEBIAN_HOME));
                self.on(&Place { title: &title(&debian), kind: ServerKind::Real, home }, suite)
            }
            Err(why) => {
                let what = match suite {
                    Suite::Conformance => "the conformance tests on ZooKeeper 3.8",
                    _ => "the tests on ZooKeeper 3.8, Debian's package",
                };
                self.summary.not_run.push(NotRun { what: what.to_owned(), why, remedy: INSTALL_DEBIAN });
                Ok(())
            }
        }
    }

    fn on_release(&mut self, version: &str, suite: Suite) -> Result<(), String> {
        let title = format!("ZooKeeper {version}");
        if self.has_run_on(&title) {
            return Ok(());
        }
        match prepare::release(version) {
            Ok(home) => self.on(&Place { title: &title, kind: ServerKind::Real, home: Some(&home) }, suite),
            Err(why) => {
                let what = format!("the tests on {title}");
                self.summary.not_run.push(NotRun { what, why, remedy: INSTALL_RELEASE });
                Ok(())
            }
        }
    }

    fn has_run_on(&self, title: &str) -> bool {
        self.summary.runs.iter().any(|run| run.server == title)
    }

    /// A suite and the tests with other clients, or the tests that the caller wants.
    fn on(&mut self, place: &Place<'_>, suite: Suite) -> Result<(), String> {
        let all = self.arguments.is_empty();
        if all && suite == Suite::Real {
            command::run(command::cargo().args(plan::BUILD_EXAMPLES))?;
        }
        let line = plan::command_line(self.arguments, suite);
        let needed = brought(&plan::clients(self.arguments), Client::prepare)?;
        if plan::names_kerberos(self.arguments) {
            kerberos::prepare(self.ci)?;
        }
        let run = if plan::names_jepsen(self.arguments) || (all && suite == Suite::Real) {
            // Peers take part if they are there.
            test(place, place.title, &line, self.available())?
        } else {
            test(place, place.title, &line, &needed)?
        };
        self.summary.runs.push(Run { all: all && suite != Suite::Conformance, ..run });
        if all && suite != Suite::Conformance {
            self.with_other_clients(place)?;
        }
        // One release is enough for these: what differs between them is not Kerberos.
        if all && suite == Suite::Real {
            self.with_kerberos(place)?;
        }
        Ok(())
    }

    /// The tests of clients with Kerberos tickets, if there is what they need.
    fn with_kerberos(&mut self, place: &Place<'_>) -> Result<(), String> {
        match kerberos::prepare(self.ci) {
            Ok(()) => {
                let title = format!("{}, kerberos", place.title);
                self.summary.runs.push(test(place, &title, &plan::kerberos(), &[])?);
            }
            Err(why) => {
                let what = "the tests of clients with Kerberos tickets".to_owned();
                self.summary.not_run.push(NotRun { what, why, remedy: INSTALL_KERBEROS });
            }
        }
        Ok(())
    }

    /// The tests with other clients, as far as those are available.
    fn with_other_clients(&mut self, place: &Place<'_>) -> Result<(), String> {
        let there = self.available();
        let clients: Vec<_> = there.iter().map(|prepared| prepared.client).collect();
        let mut suites = vec![("interop", clients.clone(), plan::interop(&clients))];
        // One kind of server is enough for these.
        if place.kind == ServerKind::Embedded {
            let line = plan::peers(&clients);
            suites.push(("peers", clients, line));
        }
        let mut runs = Vec::new();
        // Without a name, all tests would run.
        for (name, _, line) in suites.iter().filter(|(_, clients, _)| !clients.is_empty()) {
            runs.push(test(place, &format!("{}, {name}", place.title), line, there)?);
        }
        self.summary.runs.extend(runs);
        Ok(())
    }

    fn available(&self) -> &[Prepared] {
        &self.clients.get_or_init(clients::available).0
    }
}

/// Runs cargo on this server, where these clients are available.
fn test(place: &Place<'_>, title: &str, line: &[String], clients: &[Prepared]) -> Result<Run, String> {
    let clients = clients.iter().map(|client| (client.variable, Path::new(&client.place)));
    let home = place.home.map(|home| (HOME_VARIABLE, home));
    cargo::test(title, place.kind, line, &clients.chain(home).collect::<Vec<_>>())
}

/// Clients without which tests cannot run.
fn brought(clients: &[Client], prepare: impl Fn(Client) -> Result<Prepared, String>) -> Result<Vec<Prepared>, String> {
    clients.iter().map(|client| prepare(*client)).collect()
}

fn title(found: &Distribution) -> String {
    format!("ZooKeeper {}", found.version().unwrap_or("of unknown version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_named_fail_without_their_client() {
        let prepare = |client| match client {
            Client::Curator => Ok(Prepared { client, variable: "X", place: "/jars".into() }),
            _ => Err("no Python".to_owned()),
        };
        assert_eq!(brought(&[Client::Curator], prepare).unwrap()[0].client, Client::Curator);
        assert_eq!(brought(&[], prepare), Ok(Vec::new()));
        assert_eq!(brought(&[Client::Curator, Client::Kazoo], prepare), Err("no Python".to_owned()));
    }
}
