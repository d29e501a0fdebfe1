//! The programs of a run: see the library.

mod arguments;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::{env, fs, io};

use clap::{CommandFactory, FromArgMatches};
use curator_jepsen::report::{self, CheckError, Report};
use curator_jepsen::run::{self, Options, RunError};
use curator_jepsen::{exec_tied, worker};
use curator_results::faults::{Results, Summary};

use crate::arguments::{Arguments, Program, RunArguments, nemeses};

/// A violation was found, or expected violations were not found.
const FOUND: u8 = 1;
/// The run could not be completed. Bad arguments are 2, by convention.
const FAILED: u8 = 3;

fn main() -> ExitCode {
    let command = Arguments::command().mut_subcommand("run", |run| run.after_help(nemeses()));
    let arguments = Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    match arguments.program {
        Program::Run(arguments) => exit(conduct(&arguments), arguments.expect_violations),
        Program::Check { directory } => exit(
            report::check_directory(&directory).map_err(RunError::from).inspect(|report| println!("{}", report.text())),
            false,
        ),
        Program::Summary { json, section, directories } => match summarize(&directories) {
            Ok(summary) => {
                print!("{}", summary.markdown());
                let published = json.zip(section).map_or(Ok(()), |(file, section)| publish(summary, &file, section));
                published.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
            }
            Err(error) => failed(&error),
        },
        Program::Worker => worker::run(),
        Program::Tied { parent, program, arguments } => {
            let error = exec_tied(parent, process::Command::new(&program).args(arguments));
            eprintln!("curator-jepsen: cannot run {}: {error}", program.display());
            ExitCode::from(FAILED)
        }
    }
}

fn summarize(directories: &[PathBuf]) -> Result<Summary, CheckError> {
    let reports = directories.iter().map(|directory| report::check_directory(directory));
    Ok(report::summary(&reports.collect::<Result<Vec<_>, _>>()?, report::kind))
}

/// Replaces this section of the file, which need not exist.
fn publish(summary: Summary, file: &Path, section: String) -> io::Result<()> {
    let mut results: Results =
        if file.exists() { serde_json::from_slice(&fs::read(file)?)? } else { Results::default() };
    results.insert(section, summary);
    fs::write(file, serde_json::to_string_pretty(&results)? + "\n")
}

fn conduct(arguments: &RunArguments) -> Result<Report, RunError> {
    let io = |what: &'static str| move |source| RunError::Io { what: what.to_owned(), source };
    let program = env::current_exe().map_err(io("find this program"))?;
    let options: Options = arguments.options(program);
    // On this thread, which lives as long as the clients that it starts.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io("start a runtime"))?;
    runtime.block_on(run::run(&options))
}

fn failed(error: &dyn Error) -> ExitCode {
    eprintln!("curator-jepsen: {error}");
    ExitCode::from(FAILED)
}

fn exit(result: Result<Report, RunError>, expects_violations: bool) -> ExitCode {
    match result {
        Ok(report) if expects_violations && report.violations() == 0 => {
            println!("there should have been violations");
            ExitCode::from(FOUND)
        }
        Ok(report) if expects_violations && report.is_of_slow_clocks() => ExitCode::SUCCESS,
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(report) => {
            if expects_violations {
                println!(
                    "that is more than slow clocks explain, or not all came back, or something is left, or a part has done \
                     nothing: see above"
                );
            } else if report.violations() == 0 {
                println!(
                    "but not all came back after a nemesis, something is left, or a part has done nothing: see above"
                );
            }
            ExitCode::from(FOUND)
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
        let runs = |number| Summary { runs: vec![Run::default(); number], ..Summary::default() };
        for (section, number) in [("locks", 1), ("caches", 2), ("locks", 3)] {
            publish(runs(number), &file, section.to_owned()).unwrap();
        }
        let results: Results = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(results, [("locks".to_owned(), runs(3)), ("caches".to_owned(), runs(2))].into());
        // Nor is a file lost that cannot be read.
        fs::write(&file, "{").unwrap();
        publish(runs(1), &file, "locks".to_owned()).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"{");
    }
}
