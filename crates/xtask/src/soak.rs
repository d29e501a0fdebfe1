//! Runs the long form of the soak.

use std::path::PathBuf;

use crate::{
    command,
    kind::{SERVER_VARIABLE, ServerKind},
    plan, prepare,
    targets::SOAK,
};

/// The default duration.
const MINUTES: u64 = 10;

const HELP: &str = "\
cargo xtask soak [--minutes <n>] [--seed <n>] [--table <file>]

Two hundred tasks use twenty locks while connections are cut. Fails if memory or another resource grows. Prints its seed.

  --minutes <n>   the duration; 10 by default
  --seed <n>      the seed of the faults and of the work; by default a new one in each run
  --table <file>  also write the table to this file, in Markdown

The server is a real one, unless CURATOR_TEST_SERVER=embedded is set.
";

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arguments {
    minutes: u64,
    seed: Option<u64>,
    table: Option<PathBuf>,
}

/// Runs the soak, on a real server unless the environment selects a kind.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let Some(parsed) = Arguments::parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let kind = plan::chosen_kind()?.unwrap_or(ServerKind::Real);
    if kind == ServerKind::Real {
        prepare::prepare()?;
    }
    let mut cargo = command::cargo();
    cargo.args(["test", "--package", "curator-recipes", "--test", SOAK, "--", "--nocapture"]);
    cargo.env(SERVER_VARIABLE, kind.name()).env("SOAK_SECONDS", (parsed.minutes * 60).to_string());
    cargo.envs(parsed.seed.map(|seed| ("SOAK_SEED", seed.to_string())));
    // Cargo runs the tests in the directory of their package.
    let table = parsed.table.map(std::path::absolute).transpose().map_err(|e| format!("--table: {e}"))?;
    cargo.envs(table.map(|table| ("SOAK_TABLE", table)));
    command::run(&mut cargo)
}

impl Arguments {
    /// `None` for a request for help.
    fn parse(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut parsed = Self { minutes: MINUTES, seed: None, table: None };
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--help" | "-h" => return Ok(None),
                "--minutes" | "--seed" | "--table" => {}
                _ => return Err(format!("`{option}` is not an option of `soak`; see `cargo xtask soak --help`")),
            }
            let value = arguments.next().ok_or_else(|| format!("{option}: a value is missing"))?;
            match option.as_str() {
                "--minutes" => {
                    // At most a year.
                    let minutes = number(option, value)?;
                    parsed.minutes =
                        Some(minutes).filter(|minutes| (1..=525_600).contains(minutes)).ok_or_else(|| {
                            format!("--minutes: {minutes} is out of range; give a number from 1 to 525600")
                        })?;
                }
                "--seed" => parsed.seed = Some(number(option, value)?),
                _ => parsed.table = Some(value.into()),
            }
        }
        Ok(Some(parsed))
    }
}

fn number(option: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{option}: \"{value}\" is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::words;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&words(line)).map(|parsed| parsed.expect("the line does not request help"))
    }

    #[test]
    fn a_soak_takes_ten_minutes_by_default() {
        assert_eq!(parse(""), Ok(Arguments { minutes: 10, seed: None, table: None }));
        let parsed = Arguments { minutes: 60, seed: Some(7), table: Some("t.md".into()) };
        assert_eq!(parse("--table t.md --minutes 60 --seed 7"), Ok(parsed));
    }

    #[test]
    fn help_needs_no_value() {
        for line in ["--help", "--seed 7 -h"] {
            assert_eq!(Arguments::parse(&words(line)), Ok(None));
        }
    }

    #[test]
    fn an_invalid_option_or_value_is_named_in_the_error() {
        for (line, named) in [
            ("--minutes", "--minutes"),
            ("--minutes ten", "ten"),
            ("--minutes 0", "0"),
            ("--minutes 99999999999", "99999999999"),
            ("--seed -1", "-1"),
            ("--hours 1", "--hours"),
        ] {
            let refused = parse(line).unwrap_err();
            assert!(refused.contains(named), "{line}: {refused}");
        }
    }
}
