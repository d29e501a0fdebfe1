//! Checks that the workflow on GitHub runs all that `.ci/run` does.

use std::{collections::BTreeSet, fs};

use crate::{
    choice::{self, Server},
    distribution::PINNED_VERSION,
    workspace,
};

/// The commands of the workflow's steps, as they stand in it.
fn commands(workflow: &str) -> impl Iterator<Item = &str> {
    workflow.lines().filter_map(|line| line.trim().strip_prefix("- run: "))
}

/// The steps that `.ci/run` knows: the words in the arrays that begin with this.
fn steps<'a>(script: &'a str, array: &str) -> BTreeSet<&'a str> {
    let (_, list) = script.split_once(&format!("\nreadonly {array}=(")).unwrap();
    list.split_once(')').unwrap().0.split_whitespace().collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(workspace().join(file)).unwrap()
}

#[test]
fn each_step_of_a_local_run_is_in_the_workflow() {
    let (script, workflow) = (read(".ci/run"), read(".github/workflows/ci.yml"));
    let mut known: BTreeSet<_> = steps(&script, "ALL").union(&steps(&script, "MORE")).copied().collect();
    assert!(known.contains("lints") && known.contains("semver"), "{known:?}");
    // Two jobs share it: see below.
    known.remove("tests");
    let run: BTreeSet<_> = commands(&workflow).filter_map(|command| command.strip_prefix(".ci/run ")).collect();
    assert_eq!(run, known, "in the workflow on the left, in .ci/run on the right");
}

#[test]
fn the_tests_of_a_local_run_are_in_the_workflow() {
    let workflow = read(".github/workflows/ci.yml");
    let lists = commands(&workflow).filter_map(|command| command.strip_prefix("cargo xtask test --servers "));
    let mut run: Vec<_> = lists.flat_map(|list| choice::named(list, None).unwrap()).collect();
    for (server, _) in &mut run {
        // Where ZOOKEEPER_HOME is not set, this is what a local run finds.
        if *server == Server::Release(PINNED_VERSION.to_owned()) {
            *server = Server::Found;
        }
    }
    assert_eq!(run, choice::default(&[], None, true), "in the workflow on the left, in .ci/run on the right");
}

/// Such a step would stand there, and check nothing.
#[test]
fn no_step_of_the_workflow_is_skipped_or_may_fail() {
    let workflow = read(".github/workflows/ci.yml");
    for line in workflow.lines() {
        let key = line.trim_start().trim_start_matches("- ").split(':').next().unwrap();
        assert!(!["if", "continue-on-error"].contains(&key.trim_matches(['"', '\''])), "{line}");
    }
}
