//! Runs the tests and says what ran.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    process::{Command, Stdio, id},
    time::Instant,
};

use crate::{
    command, prepare,
    report::REPORT_VARIABLE,
    say,
    summary::{Servers, Tally},
    target_dir,
};

/// Runs all tests, or `cargo test` with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    prepare::prepare()?;
    let begin = Instant::now();
    let target = target_dir()?;
    let report = target.join(format!("servers-{}.txt", id()));
    fs::create_dir_all(&target).map_err(|e| format!("the folder {} cannot be written: {e}", target.display()))?;
    let mut tally = Tally::default();
    let line = command_line(arguments);
    say(&format!("cargo {}", line.join(" ")));
    let good = stream(command::cargo().args(&line).env(REPORT_VARIABLE, &report), &mut tally)?;
    let servers = Servers::read(&fs::read_to_string(&report).unwrap_or_default());
    // Only a file in the target directory.
    drop(fs::remove_file(&report));
    println!();
    say(&format!("{tally}, in {} s", begin.elapsed().as_secs()));
    say(&servers.to_string());
    if !good {
        return Err("some tests failed or could not be built; their output is above".to_owned());
    }
    // A few chosen tests may well need no server.
    if let Some(package) = servers.missing().filter(|_| arguments.is_empty()) {
        return Err(format!("no test of {package} ran on a real ZooKeeper, so this run proves little"));
    }
    Ok(())
}

/// All tests, those of the documentation too, or what the caller wants.
///
/// Without a choice of targets, cargo also builds the examples as programs, which their own tests run.
fn command_line(arguments: &[String]) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if arguments.is_empty() {
        return owned(&["test", "--workspace", "--no-fail-fast"]);
    }
    let chosen = arguments.iter().take_while(|a| *a != "--").any(|a| a.starts_with("-p") || a.starts_with("--package"));
    let all = if chosen { &["test"][..] } else { &["test", "--workspace"] };
    [owned(all), arguments.to_vec()].concat()
}

/// Runs a command, passes its output on line by line and adds up its results. Returns whether it succeeded.
fn stream(command: &mut Command, tally: &mut Tally) -> Result<bool, String> {
    let broken = |e: io::Error| format!("cargo cannot be run: {e}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(broken)?;
    let output = child.stdout.take().map(BufReader::new);
    let mut console = io::stdout().lock();
    // Bytes, as tests may print anything.
    for line in output.into_iter().flat_map(|output| output.split(b'\n')) {
        let line = line.map_err(broken)?;
        tally.read(&String::from_utf8_lossy(&line));
        console.write_all(&line).and_then(|()| console.write_all(b"\n")).map_err(broken)?;
    }
    Ok(child.wait().map_err(broken)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tests_run_without_arguments() {
        assert_eq!(command_line(&[]), ["test", "--workspace", "--no-fail-fast"]);
    }

    #[test]
    fn arguments_are_passed_on() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(command_line(&words("some_name")), words("test --workspace some_name"));
        assert_eq!(command_line(&words("-p curator-test x")), words("test -p curator-test x"));
        assert_eq!(command_line(&words("x -- -p")), words("test --workspace x -- -p"));
    }
}
