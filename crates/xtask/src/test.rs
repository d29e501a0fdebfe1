//! Runs the tests, and reports the results.

use std::{env, io, num::NonZero, path::PathBuf, process::Command, thread, time::Instant};

use crate::{
    calibration::Calibration,
    clients::{self, Client, Prepared},
    command, debian,
    distribution::{DEBIAN_HOME, Distribution, HOME_VARIABLE},
    jobs::{self, Job, Outcome},
    plan::{self, Choice, Role, Server},
    prepare, print_line,
    programs::{self, Program},
    server_kind::{SERVER_VARIABLE, ServerKind},
    summary::{NotRun, ON_REAL, Run, Summary, is_ci},
    target_dir,
    targets::{self, Build, EMBEDDED, HOSTILE, JEPSEN, Needs, TLS, Tier},
};

/// The variable with the number of tests that libtest runs at a time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// The variable that selects the transport of the tests' clients.
const TRANSPORT_VARIABLE: &str = "CURATOR_TEST_TRANSPORT";

/// The variable that selects the servers whose protocol embedded servers speak.
const DIALECT_VARIABLE: &str = "CURATOR_TEST_DIALECT";

/// The value of [`DIALECT_VARIABLE`] for servers that remove empty containers as soon as they can.
const EAGER: &str = "zookeeper-3.10-eager";

/// The value of [`TRANSPORT_VARIABLE`] for the client's own transport.
const NATIVE: &str = "native";

/// The number of cases on hostile servers with the native transport. `.ci/run native` runs all,
/// every night.
const NATIVE_CASES: &str = "100";

/// The row of the tests that use no server.
const WITHOUT_SERVER: &str = "without a server";

/// Runs the tests of a tier, or `cargo test` with these arguments, on the named servers, or else on
/// the servers of the tier.
pub(crate) fn run(tier: Tier, servers: Option<&str>, arguments: &[String]) -> Result<(), String> {
    let chosen_kind = plan::chosen_kind()?;
    let ci = is_ci(env::var_os("CI").as_deref());
    let choice = match servers {
        Some(list) => plan::named_choice(list, chosen_kind)?,
        None => plan::default_choice(arguments, chosen_kind, tier),
    };
    // A server that the caller names is required.
    let required = ci || servers.is_some();
    if !arguments.is_empty() {
        return selected(choice, arguments, ci, required);
    }
    let calibration = Calibration::measure();
    let begin = Instant::now();
    let mut summary = everything(tier, choice, ci)?;
    if servers.is_none() {
        summary.not_run.extend(NotRun::other_kind(chosen_kind));
    }
    println!("\n{}", summary.text());
    if let (None, Some(budget)) = (servers, budget(tier)) {
        print_line(&calibration.report(begin.elapsed(), budget));
    }
    summary.verdict(required)
}

/// The maximum time of a run from a fresh clone, in units of the calibration. See CONTRIBUTING.md.
fn budget(tier: Tier) -> Option<u32> {
    match tier {
        Tier::Commit => Some(2_500),
        Tier::Landing => Some(2_400),
        Tier::Nightly => None,
    }
}

/// An available server, and its role.
struct ServerRun {
    title: String,
    kind: ServerKind,
    /// The directory of this ZooKeeper; if `None`, tests find a ZooKeeper themselves.
    home: Option<PathBuf>,
    role: Role,
}

/// Builds all test programs of a tier once, and runs them on each server.
fn everything(tier: Tier, choice: Choice, ci: bool) -> Result<Summary, String> {
    let mut not_run = Vec::new();
    let wants_kerberos =
        tier != Tier::Commit && choice.iter().any(|(_, role)| *role == Role::Newest);
    // Kerberos is prepared before the build, which must enable the feature of the Kerberos tests.
    let kerberos = wants_kerberos
        .then(|| debian::prepare_kerberos(ci))
        .transpose()
        .map_err(|why| {
            let what = "the tests of clients with Kerberos tickets".to_owned();
            not_run.push(NotRun { what, why });
        });
    let has_kerberos = kerberos == Ok(Some(()));
    let begin = Instant::now();
    // Downloads, and builds with other compilers, run concurrently with cargo's build.
    let (mut programs, server_runs, clients) = thread::scope(|scope| {
        let others = scope.spawn(|| {
            let server_runs = server_runs(choice, &mut not_run);
            not_run.extend(server_runs.iter().find_map(ServerRun::missing_3_9));
            let (clients, missing) = if tier == Tier::Landing {
                Default::default()
            } else {
                clients::available()
            };
            not_run.extend(missing);
            (server_runs, clients)
        });
        let programs = programs::build(tier, has_kerberos);
        let (server_runs, clients) = others
            .join()
            .map_err(|_| "a thread that prepares servers panicked")?;
        Ok::<_, String>((programs?, server_runs, clients))
    })?;
    print_line(&format!("built in {:.1} s", begin.elapsed().as_secs_f64()));
    programs.sort_by_key(|program| targets::rank(program.target.name));
    let mut jobs = Vec::new();
    if tier != Tier::Commit
        && server_runs
            .iter()
            .any(|server_run| server_run.role == Role::Embedded)
    {
        jobs.push(documentation(tier, has_kerberos));
    }
    let has_newest = server_runs
        .iter()
        .any(|server_run| server_run.role == Role::Newest);
    for program in &programs {
        for server_run in &server_runs {
            let Some(filters) = filters(tier, program, server_run, has_newest) else {
                continue;
            };
            let job = job(program, server_run, filters, &clients);
            jobs.extend(native_job(program, server_run));
            jobs.extend(job);
        }
    }
    let runs = rows(
        tier,
        &server_runs,
        jobs::run(jobs, &target_dir()?.join("test-logs"), io::stdout())?,
    );
    Ok(Summary { runs, not_run })
}

/// The filters that select the program's tests on this server; no filter selects all tests. `None`
/// if no test runs.
fn filters(
    tier: Tier,
    program: &Program,
    server_run: &ServerRun,
    has_newest: bool,
) -> Option<&'static [&'static str]> {
    let package = program.package.as_str();
    let is_included = tier.includes(program.tier());
    if program.build == Build::Full && !plan::needs_all_features(package, program.target.name) {
        return None;
    }
    plan::tests(
        tier,
        server_run.role,
        package,
        program.target,
        is_included,
        has_newest,
    )
}

/// The available servers. The tests on missing servers are added to `not_run`.
fn server_runs(choice: Choice, not_run: &mut Vec<NotRun>) -> Vec<ServerRun> {
    let mut server_runs: Vec<ServerRun> = Vec::new();
    for (server, role) in choice {
        // A missing real server has been reported already.
        if server == Server::Debian && not_run.iter().any(|not_run| not_run.what == ON_REAL) {
            continue;
        }
        match ServerRun::prepare(&server, role) {
            // The same release was found before, in a role with more tests.
            Ok(server_run)
                if server_runs
                    .iter()
                    .any(|known| known.title == server_run.title) => {}
            Ok(server_run) => server_runs.push(server_run),
            Err(missing) => not_run.push(missing),
        }
    }
    server_runs
}

impl ServerRun {
    /// Finds the server, or installs it.
    fn prepare(server: &Server, role: Role) -> Result<Self, NotRun> {
        let real = |title, home| Self {
            title,
            kind: ServerKind::Real,
            home,
            role,
        };
        match server {
            Server::Embedded => Ok(Self {
                title: "embedded".to_owned(),
                kind: ServerKind::Embedded,
                home: None,
                role,
            }),
            Server::Eager => Ok(Self {
                title: EAGER.to_owned(),
                kind: ServerKind::Embedded,
                home: None,
                role,
            }),
            Server::Simulated => Ok(Self {
                title: "simulated".to_owned(),
                kind: ServerKind::Simulated,
                home: None,
                role,
            }),
            Server::Found => prepare::prepare()
                .map(|found| real(title(&found), None))
                .map_err(|why| NotRun {
                    what: ON_REAL.to_owned(),
                    why,
                }),
            Server::Debian => {
                let home = Some(PathBuf::from(DEBIAN_HOME));
                prepare::debian()
                    .map(|debian| real(title(&debian), home))
                    .map_err(|why| {
                        let what = "the tests on ZooKeeper 3.8, Debian's package".to_owned();
                        NotRun { what, why }
                    })
            }
            Server::Release(version) => {
                let title = format!("ZooKeeper {version}");
                prepare::release(version)
                    .map_err(|why| NotRun {
                        what: format!("the tests on {title}"),
                        why,
                    })
                    .map(|home| real(title.clone(), Some(home)))
            }
        }
    }

    /// The tests that need release 3.9, if this server is in the role that runs them, but is
    /// another release.
    fn missing_3_9(&self) -> Option<NotRun> {
        (self.role == Role::Newest).then(|| NotRun::release_3_9(&self.title))?
    }

    /// Sets the environment variables that make tests use this server.
    fn set(&self, command: &mut Command) {
        command.env(SERVER_VARIABLE, self.kind.name());
        command.envs(self.home.as_deref().map(|home| (HOME_VARIABLE, home)));
        if self.role == Role::Eager {
            command.env(DIALECT_VARIABLE, EAGER);
        }
        if env::var_os(THREADS_VARIABLE).is_none() {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            command.env(
                THREADS_VARIABLE,
                plan::threads(self.kind, cores).to_string(),
            );
        }
    }
}

fn title(found: &Distribution) -> String {
    format!(
        "ZooKeeper {}",
        found.version().unwrap_or("of unknown version")
    )
}

/// The job that runs tests of a program on a server; `None` if the program needs other clients, and
/// none is available.
fn job(
    program: &Program,
    server_run: &ServerRun,
    filters: &[&str],
    clients: &[Prepared],
) -> Option<Job> {
    let mut command = program.command();
    let target = program.target;
    command.args(filters);
    if matches!(target.needs, Needs::Clients | Needs::Peers) {
        let names: Vec<_> = clients.iter().map(|prepared| prepared.client).collect();
        let filters = plan::filters(target.needs, &names);
        // Without a filter, all tests would run.
        (!filters.is_empty()).then(|| command.args(filters))?;
    }
    // Available peers take part in the runs under faults.
    if matches!(target.needs, Needs::Clients | Needs::Peers) || target.name == JEPSEN {
        command.envs(
            clients
                .iter()
                .flat_map(|prepared| prepared.variables.clone()),
        );
    }
    server_run.set(&mut command);
    if server_run.role != Role::Embedded {
        command.args(["--skip", EMBEDDED]);
    }
    if server_run.role == Role::Simulated {
        // Tests of simulated servers also test the client's own transport.
        command.env(TRANSPORT_VARIABLE, NATIVE);
    }
    let (row, on) = match (target.needs, server_run.role) {
        (Needs::Nothing, _) | (Needs::Sample, Role::Embedded) => {
            (WITHOUT_SERVER.to_owned(), String::new())
        }
        _ => (
            server_run.title.clone(),
            format!(" on {}", server_run.title),
        ),
    };
    let with = if program.build == Build::Full {
        " with all features"
    } else {
        ""
    };
    let title = format!("{} {}{with}{on}", program.package, target.name);
    Some(Job {
        title,
        row,
        command,
        is_cpu_bound: target.is_cpu_bound(),
    })
}

/// The job that repeats the tests on hostile servers and the tests with TLS with the client's own
/// transport. `None` for other programs, and if the caller has selected the transport of all tests.
fn native_job(program: &Program, server_run: &ServerRun) -> Option<Job> {
    if ![HOSTILE, TLS].contains(&program.target.name)
        || program.package == "zklock"
        || env::var_os(TRANSPORT_VARIABLE).is_some()
    {
        return None;
    }
    let mut job = job(program, server_run, &[], &[])?;
    job.title += ", native transport";
    job.command
        .env(TRANSPORT_VARIABLE, NATIVE)
        .env("HOSTILE_CASES", NATIVE_CASES);
    Some(job)
}

/// The job for the examples in the documentation.
fn documentation(tier: Tier, has_kerberos: bool) -> Job {
    let mut command = programs::documentation(tier, has_kerberos);
    command.env(SERVER_VARIABLE, ServerKind::Embedded.name());
    Job {
        title: "documentation".to_owned(),
        row: "documentation".to_owned(),
        command,
        is_cpu_bound: true,
    }
}

/// The results of all jobs, by row. A server without jobs has a row too.
fn rows(tier: Tier, server_runs: &[ServerRun], outcomes: Vec<Outcome>) -> Vec<Run> {
    let row = |title: &str, required| Run {
        title: title.to_owned(),
        required,
        ..Run::default()
    };
    let mut rows: Vec<_> = ["documentation", WITHOUT_SERVER]
        .map(|title| row(title, None))
        .into_iter()
        .chain(server_runs.iter().map(|server_run| {
            let is_of_all_packages = match server_run.role {
                Role::Embedded | Role::Newest => tier != Tier::Landing,
                Role::Older | Role::OlderWithTranscripts => true,
                Role::Simulated | Role::Eager => false,
            };
            row(
                &server_run.title,
                is_of_all_packages.then_some(server_run.kind),
            )
        }))
        .collect();
    for Outcome {
        title,
        row,
        failure,
        tally,
        servers,
    } in outcomes
    {
        if let Some(run) = rows.iter_mut().find(|run| run.title == row) {
            run.failed.extend(failure.map(|failure| (title, failure)));
            run.tally.add(tally);
            run.servers.add(servers);
        }
    }
    rows
}

/// Prepares and runs the tests that the caller selects, on one server after the other.
fn selected(choice: Choice, arguments: &[String], ci: bool, required: bool) -> Result<(), String> {
    let mut clients = plan::clients(arguments)
        .into_iter()
        .map(Client::prepare)
        .collect::<Result<Vec<_>, _>>()?;
    if plan::names_jepsen(arguments) && clients.is_empty() {
        // Available peers take part in the runs under faults.
        clients = clients::available().0;
    }
    if plan::names_kerberos(arguments) {
        debian::prepare_kerberos(ci)?;
    }
    let line = plan::command_line(arguments);
    let mut not_run = Vec::new();
    let server_runs = server_runs(choice, &mut not_run);
    let mut failed = Vec::new();
    for server_run in &server_runs {
        print_line(&format!(
            "on {}: cargo {}",
            server_run.title,
            line.join(" ")
        ));
        let mut cargo = command::cargo();
        cargo.args(&line).envs(
            clients
                .iter()
                .flat_map(|prepared| prepared.variables.clone()),
        );
        server_run.set(&mut cargo);
        if command::run(&mut cargo).is_err() {
            failed.push(server_run.title.as_str());
        }
    }
    not_run
        .iter()
        .for_each(|not_run| println!("{}", not_run.text()));
    match not_run.first() {
        _ if !failed.is_empty() => Err(format!(
            "the tests failed on {}, or could not be built",
            failed.join(" and ")
        )),
        Some(not_run) if required || server_runs.is_empty() => {
            Err(format!("{} did not run", not_run.what))
        }
        _ => Ok(()),
    }
}
