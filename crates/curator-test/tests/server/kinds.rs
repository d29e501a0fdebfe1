//! Selects the kind of server for a test, and its dialect.

use std::{
    env,
    process::{Command, Output},
};

use curator_test::{DIALECT_VARIABLE, Dialect, SERVER_VARIABLE, ServerKind, TestingServer};

/// The environment variable that makes `starter` start a server.
const STARTER: &str = "CURATOR_TEST_STARTER";

/// Not a test itself, but the process that the tests below start, with environment variables of
/// their choice.
#[tokio::test]
async fn starter() {
    if env::var_os(STARTER).is_none() {
        return;
    }
    match TestingServer::start().await {
        Ok(server) => {
            println!("\nkind {}", server.kind());
            let srvr = server.four_letter_word("srvr").await.unwrap();
            println!("{}", srvr.lines().next().unwrap_or_default());
        }
        Err(error) => println!("\nerror {error}"),
    }
}

/// The output of a process that starts a server of this kind, without `PATH` or other environment
/// variables.
fn start_with(kind: Option<&str>) -> String {
    start(kind.map(|kind| (SERVER_VARIABLE, kind)))
}

/// The output of a process that starts a server with these environment variables only.
fn start<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut starter = Command::new(env::current_exe().unwrap());
    starter
        .args(["kinds::starter", "--exact", "--nocapture"])
        .env_clear()
        .env(STARTER, "1");
    starter.envs(variables);
    let Output { stdout, status, .. } = starter.output().unwrap();
    let printed = String::from_utf8(stdout).unwrap();
    assert!(status.success(), "{printed}");
    printed
}

#[test]
fn an_embedded_server_is_the_default_and_needs_no_program() {
    for kind in [None, Some("embedded")] {
        let printed = start_with(kind);
        assert!(printed.contains("\nkind embedded\n"), "{printed}");
    }
}

#[test]
fn a_real_server_without_java_fails_to_start_instead_of_becoming_an_embedded_one() {
    let printed = start_with(Some("real"));
    assert!(printed.contains("\nerror no Java found"), "{printed}");
}

#[tokio::test]
async fn the_environment_chooses_the_kind_of_each_server_that_does_not_specify_it() {
    let kind = ServerKind::from_environment().unwrap();
    assert_eq!(TestingServer::start().await.unwrap().kind(), kind);
    assert_eq!(TestingServer::shared().await.kind(), kind);
    assert_eq!(
        TestingServer::embedded().await.unwrap().kind(),
        ServerKind::Embedded
    );
}

#[test]
fn the_environment_chooses_the_dialect() {
    for dialect in Dialect::ALL {
        for kind in ["embedded", "simulated"] {
            let printed = start([
                (SERVER_VARIABLE, kind),
                (DIALECT_VARIABLE, dialect.short_name()),
            ]);
            assert!(printed.contains(&format!("\nkind {kind}\n")), "{printed}");
            let release = dialect.name().rsplit_once(' ').unwrap().1;
            let version = printed.split_once(" version: ").unwrap().1;
            let version = version.trim_start_matches('v');
            assert!(version.starts_with(release), "{dialect}: {printed}");
        }
    }
    let printed = start([(DIALECT_VARIABLE, "keeper")]);
    assert!(
        printed.contains("\nerror \"keeper\" is not a dialect"),
        "{printed}"
    );
}
