//! The program `curator-jepsen`: conducts a run, checks runs, or does the work of one client.

mod arguments;

use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::{env, fs, io};

use clap::{CommandFactory, FromArgMatches};
use curator_jepsen::report::{self, Report};
use curator_jepsen::run::{self, Options};
use curator_jepsen::{exec_tied, worker};
use curator_results::faults::{Results, Summary};

use crate::arguments::{Arguments, Program, RunArguments, nemeses};

/// The exit status if the run was not clean, or expected violations were not found.
const NOT_CLEAN: u8 = 1;
/// The exit status if the run could not be completed. Invalid arguments have the status 2, by
/// convention.
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let command = Arguments::command().mut_subcommand("run", |run| run.after_help(nemeses()));
    let arguments =
        Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    match arguments.program {
        Program::Run(arguments) => exit_code(conduct(&arguments), arguments.expect_violations),
        Program::Check { directory } => exit_code(
            report::check_directory(&directory).inspect(|report| println!("{}", report.text())),
            false,
        ),
        Program::Summary {
            json,
            section,
            directories,
        } => match summarize(&directories) {
            Ok(summary) => {
                print!("{}", summary.markdown());
                json.zip(section)
                    .map_or(Ok(()), |(file, section)| publish(summary, &file, section))
                    .map_or_else(|error| failed(&error.into()), |()| ExitCode::SUCCESS)
            }
            Err(error) => failed(&error),
        },
        Program::Worker => worker::run(),
        Program::Tied {
            parent,
            program,
            arguments,
        } => {
            let error = exec_tied(parent, process::Command::new(&program).args(arguments));
            eprintln!("curator-jepsen: cannot run {}: {error}", program.display());
            ExitCode::from(FAILED)
        }
    }
}

fn summarize(directories: &[PathBuf]) -> anyhow::Result<Summary> {
    let reports = directories
        .iter()
        .map(|directory| report::check_directory(directory))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(report::summary(&reports, report::kind))
}

/// Replaces this section of the file. Creates the file if it is missing.
fn publish(summary: Summary, file: &Path, section: String) -> io::Result<()> {
    let mut results: Results = if file.exists() {
        serde_json::from_slice(&fs::read(file)?)?
    } else {
        Results::default()
    };
    results.insert(section, summary);
    fs::write(file, serde_json::to_string_pretty(&results)? + "\n")
}

fn conduct(arguments: &RunArguments) -> anyhow::Result<Report> {
    let program = env::current_exe()?;
    let options: Options = arguments.options(program);
    // A client is killed when the thread that started it ends, so the main thread starts the
    // clients.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run::run(&options))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("curator-jepsen: {error:#}");
    ExitCode::from(FAILED)
}

fn exit_code(result: anyhow::Result<Report>, expects_violations: bool) -> ExitCode {
    match result {
        Ok(report) if expects_violations && report.violations() == 0 => {
            println!("the expected violations were not found");
            ExitCode::from(NOT_CLEAN)
        }
        Ok(report) if expects_violations && report.is_of_slow_clocks() => ExitCode::SUCCESS,
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(report) => {
            if expects_violations {
                println!(
                    "not only the expected violations: slow clocks do not explain a violation, or a client did not recover, or \
                     nodes or watches are left, or a part has no acknowledged write: see above"
                );
            } else if report.violations() == 0 {
                println!(
                    "not clean: a client did not recover, nodes or watches are left, or a part has no acknowledged write: see \
                     above"
                );
            }
            ExitCode::from(NOT_CLEAN)
        }
        Err(error) => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use curator_results::faults::Run;

    use super::*;

    #[test]
    fn publishing_replaces_one_section() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("results.json");
        let runs = |number| Summary {
            runs: vec![Run::default(); number],
            ..Summary::default()
        };
        for (section, number) in [("locks", 1), ("caches", 2), ("locks", 3)] {
            publish(runs(number), &file, section.to_owned()).unwrap();
        }
        let results: Results = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(
            results,
            [
                ("locks".to_owned(), runs(3)),
                ("caches".to_owned(), runs(2))
            ]
            .into()
        );
        // A file that cannot be parsed is not overwritten.
        fs::write(&file, "{").unwrap();
        publish(runs(1), &file, "locks".to_owned()).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"{");
    }
}
