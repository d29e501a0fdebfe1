//! Runs `zklock doctor --certify`, and parses what it prints.

use curator_test::soon;
use tokio::process::Command;

use crate::support::{Printed, finished, zklock};

/// The names and the verdicts of the checks of one run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certified {
    pub(crate) operations: Vec<(String, String)>,
    pub(crate) recipes: Vec<(String, String)>,
}

/// Certifies servers, with these options.
pub(crate) fn certify(connect: &str, options: &str) -> Command {
    zklock(connect, &format!("doctor --certify {options}"), None)
}

/// Waits for the end of a run, and parses its output.
pub(crate) async fn certified(command: &mut Command) -> (Printed, Certified) {
    let printed = soon(finished(command.spawn().unwrap())).await;
    let certified = Certified::parsed(&printed.out);
    (printed, certified)
}

impl Certified {
    /// Parses the output of a run.
    fn parsed(out: &str) -> Self {
        let mut tables = out
            .split("\n\n")
            .map(|table| {
                let lines = table.lines();
                let mut lines = lines.skip_while(|line| !line.ends_with("  RESULT"));
                let width = lines.next().map_or(0, |head| head.len() - "RESULT".len());
                let row = |line: &str| {
                    let name = line.get(..width).unwrap_or_default().trim_end();
                    (name.to_owned(), line.get(width..).unwrap().to_owned())
                };
                lines.map(row).collect::<Vec<_>>()
            })
            .filter(|rows| !rows.is_empty());
        Self {
            operations: tables.next().unwrap_or_default(),
            recipes: tables.next().unwrap_or_default(),
        }
    }

    /// The same names, with verdicts that are made from these.
    pub(crate) fn map(self, change: impl Fn(&str) -> String) -> Self {
        let changed = |rows: Vec<(String, String)>| {
            rows.into_iter()
                .map(|(name, verdict)| (name, change(&verdict)))
                .collect()
        };
        Self {
            operations: changed(self.operations),
            recipes: changed(self.recipes),
        }
    }

    /// The verdict on an operation or a recipe.
    pub(crate) fn verdict(&self, name: &str) -> &str {
        let mut all = self.operations.iter().chain(&self.recipes);
        let found = all.find(|(known, _)| known == name);
        &found
            .unwrap_or_else(|| panic!("no line for {name}: {self:?}"))
            .1
    }

    /// The lines of recipes that do not work without a limitation.
    pub(crate) fn limited_recipes(&self) -> Vec<&(String, String)> {
        let recipes = self.recipes.iter();
        recipes.filter(|(_, verdict)| verdict != "works").collect()
    }
}
