//! Runs cargo's tests on one kind of server, and reads their output.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    num::NonZero,
    path::Path,
    process::{Command, id},
    thread,
};

use crate::{
    command,
    kind::{SERVER_VARIABLE, ServerKind},
    plan,
    report::REPORT_VARIABLE,
    say,
    servers::Servers,
    summary::Run,
    tally::{Reader, Tallies},
    target_dir,
};

/// The variable that says how many tests libtest runs at a time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Makes cargo name each test program in a line that we can parse, whatever the caller's configuration says.
const READABLE: [(&str, &str); 3] =
    [("CARGO_TERM_COLOR", "never"), ("CARGO_TERM_QUIET", "false"), ("CARGO_TERM_VERBOSE", "false")];

/// Runs cargo with its tests on one kind of server, and with these additional variables.
pub(crate) fn test(
    server: &str,
    kind: ServerKind,
    line: &[String],
    variables: &[(&str, &Path)],
) -> Result<Run, String> {
    let target = target_dir()?;
    let report = target.join(format!("servers-{}-{kind}.txt", id()));
    fs::create_dir_all(&target).map_err(|e| format!("cannot write to the directory {}: {e}", target.display()))?;
    // Left by an old run with the same id.
    drop(fs::remove_file(&report));
    say(&format!("on {server}: cargo {}", line.join(" ")));
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = env::var_os(THREADS_VARIABLE).is_none().then(|| plan::threads(kind, cores));
    let mut cargo = command(line, kind, &report, threads);
    cargo.envs(variables.iter().copied());
    let (good, tallies) = stream(cargo, kind, &mut io::stdout().lock())?;
    let servers = Servers::read(&fs::read_to_string(&report).unwrap_or_default());
    // It is only a file in the target directory.
    drop(fs::remove_file(&report));
    Ok(Run { server: server.to_owned(), kind, tallies, servers, good, all: false })
}

/// The command; without a number of threads, the caller's applies.
fn command(line: &[String], kind: ServerKind, report: &Path, threads: Option<usize>) -> Command {
    let mut cargo = command::cargo();
    cargo.args(line).envs(READABLE).env(SERVER_VARIABLE, kind.name()).env(REPORT_VARIABLE, report);
    if let Some(threads) = threads {
        cargo.env(THREADS_VARIABLE, threads.to_string());
    }
    cargo
}

/// Runs a command, passes on its output line by line and adds up its results. Returns whether it succeeded.
///
/// Cargo names the program that it runs on standard error, and the program prints its results on standard output; only
/// through one pipe do both arrive in order.
fn stream(mut command: Command, kind: ServerKind, console: &mut impl Write) -> Result<(bool, Tallies), String> {
    let broken = |e: io::Error| format!("cannot run cargo: {e}");
    let (output, input) = io::pipe().map_err(broken)?;
    let both = input.try_clone().map_err(broken)?;
    let mut child = command.stdout(input).stderr(both).spawn().map_err(broken)?;
    // It holds our ends of the pipe, without which the pipe would never end.
    drop(command);
    let mut reader = Reader::new(kind);
    // Bytes, as tests may print anything.
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(broken)?;
        reader.line(&String::from_utf8_lossy(&line));
        console.write_all(&line).and_then(|()| console.write_all(b"\n")).map_err(broken)?;
    }
    Ok((child.wait().map_err(broken)?.success(), reader.tallies()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_are_read_in_order() {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            "for i in 1 2 3 4 5 6 7 8 9; do
               echo '     Running unittests src/lib.rs (target/debug/deps/x-1)' >&2
               echo 'test result: ok. 1 passed; 0 failed; 0 ignored; finished in 0.00s'
               echo '     Running tests/server/main.rs (target/debug/deps/server-1)' >&2
               echo 'test result: ok. 2 passed; 0 failed; 0 ignored; finished in 0.00s'
               echo '     Running tests/embedded/main.rs (target/debug/deps/embedded-1)' >&2
               echo 'test result: ok. 4 passed; 0 failed; 0 ignored; finished in 0.00s'
             done; exit 3",
        );
        let mut console = Vec::new();
        let (good, tallies) = stream(command, ServerKind::Real, &mut console).unwrap();
        assert!(!good);
        assert_eq!(String::from_utf8(console).unwrap().lines().count(), 54);
        let passed = (tallies.pure.passed, tallies.on_servers.passed, tallies.other_kind.passed);
        assert_eq!(passed, (9, 18, 36));
    }

    #[test]
    fn cargo_is_told_to_be_readable_and_which_servers_to_use() {
        let variable = |command: &Command, name: &str| {
            let value = command.get_envs().find(|(key, _)| *key == name)?.1;
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        let line = ["test".to_owned(), "some_name".to_owned()];
        let cargo = command(&line, ServerKind::Real, Path::new("/report"), Some(7));
        assert_eq!(cargo.get_args().collect::<Vec<_>>(), ["test", "some_name"]);
        let expected = [
            ("CARGO_TERM_COLOR", "never"),
            ("CARGO_TERM_QUIET", "false"),
            ("CARGO_TERM_VERBOSE", "false"),
            ("RUST_TEST_THREADS", "7"),
            (SERVER_VARIABLE, "real"),
            (REPORT_VARIABLE, "/report"),
        ];
        for (name, value) in expected {
            assert_eq!(variable(&cargo, name).as_deref(), Some(value), "{name}");
        }
        let cargo = command(&line, ServerKind::Embedded, Path::new("/report"), None);
        assert_eq!(variable(&cargo, SERVER_VARIABLE).as_deref(), Some("embedded"));
        assert_eq!(variable(&cargo, "RUST_TEST_THREADS"), None);
    }
}
