//! Prepares the other ZooKeeper clients that tests, runs under faults and the bench use.

use std::ffi::OsString;

use crate::{
    curator::{self, CLASSPATH_VARIABLE},
    go,
    kazoo::{self, PYTHON_VARIABLE},
    not_run::NotRun,
    print_line,
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

    /// Finds the client, or fetches it. Quick if it is prepared already.
    pub(crate) fn prepare(self) -> Result<Prepared, String> {
        let variables = match self {
            Self::Curator => vec![(CLASSPATH_VARIABLE, curator::prepare()?)],
            Self::Go => go::prepare()?,
            Self::Kazoo => vec![(PYTHON_VARIABLE, kazoo::prepare()?.into_os_string())],
        };
        Ok(Prepared {
            client: self,
            variables,
        })
    }

    /// Does the same as [`prepare`](Self::prepare), and prints the client's location.
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

/// A client that is prepared.
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
    let (mut there, mut not_run) = (Vec::new(), Vec::new());
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
            let main = crate::workspace().join("crates/curator-recipes/tests/interop/main.rs");
            let text = std::fs::read_to_string(main).unwrap();
            assert!(
                text.contains(&format!("\nmod {};\n", client.name())),
                "{client:?}"
            );
        }
    }
}
