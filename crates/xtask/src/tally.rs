//! Adds up what test programs report.

use std::{fmt, time::Duration};

use crate::{
    kind::ServerKind,
    targets::{Needs, needs},
};

/// How many tests passed, failed or were ignored, and how long they took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The sum of what the programs themselves measured: without compiling them.
    pub(crate) time: Duration,
}

/// The tests of one run of cargo, grouped by what they need.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tallies {
    /// Those that use servers of the kind that the run is for.
    pub(crate) on_servers: Tally,
    /// Those that use servers of the other kind, whatever the run is for.
    pub(crate) other_kind: Tally,
    /// Unit tests, property tests, searches.
    pub(crate) pure: Tally,
    /// Doc tests, most of which are compiled but not run.
    pub(crate) documentation: Tally,
    /// Those of programs that cargo does not name, or whose name is unknown.
    pub(crate) unknown: Tally,
}

/// Reads the output of `cargo test`, line by line.
#[derive(Debug)]
pub(crate) struct Reader {
    kind: ServerKind,
    tallies: Tallies,
    program: Program,
}

/// What is running at this point of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Tests(Needs),
    Documentation,
    Unknown,
}

impl Reader {
    /// For a run on this kind of server.
    pub(crate) fn new(kind: ServerKind) -> Self {
        Self { kind, tallies: Tallies::default(), program: Program::Unknown }
    }

    /// Reads a line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(program) = Program::announced(line) {
            self.program = program;
        } else if let Some(tally) = Tally::read(line) {
            self.tallies.of(self.program, self.kind).add(tally);
        }
    }

    pub(crate) fn tallies(&self) -> Tallies {
        self.tallies
    }
}

impl Tallies {
    /// Their sum.
    pub(crate) fn each(self) -> [Tally; 5] {
        let Self { on_servers, other_kind, pure, documentation, unknown } = self;
        [on_servers, other_kind, pure, documentation, unknown]
    }

    /// Where the tests of a program count in a run on this kind of server.
    fn of(&mut self, program: Program, kind: ServerKind) -> &mut Tally {
        match (program, kind) {
            (Program::Tests(Needs::Nothing), _) => &mut self.pure,
            (Program::Tests(Needs::Either | Needs::One | Needs::Clients), _)
            | (Program::Tests(Needs::Embedded), ServerKind::Embedded)
            | (Program::Tests(Needs::Real | Needs::Kerberos), ServerKind::Real) => &mut self.on_servers,
            (Program::Tests(Needs::Embedded | Needs::Real | Needs::Kerberos), _) => &mut self.other_kind,
            (Program::Documentation, _) => &mut self.documentation,
            (Program::Unknown, _) => &mut self.unknown,
        }
    }
}

impl Program {
    /// `Running tests/server/main.rs (target/debug/deps/server-0123456789abcdef)`, or `Doc-tests curator_test`.
    fn announced(line: &str) -> Option<Self> {
        let line = line.trim_start();
        if line.starts_with("Doc-tests ") {
            return Some(Self::Documentation);
        }
        let program = line.strip_prefix("Running ")?.strip_suffix(')')?;
        let (target, _) = program.rsplit(['/', '(']).next()?.rsplit_once('-')?;
        if program.starts_with("unittests ") {
            return Some(Self::Tests(Needs::Nothing));
        }
        Some(needs(target).map_or(Self::Unknown, Self::Tests))
    }
}

impl Tally {
    /// Parses one line of output, such as `test result: ok. 3 passed; 0 failed; 1 ignored; …; finished in 0.05s`.
    fn read(line: &str) -> Option<Self> {
        let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut tally = Self::default();
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            match (number, what) {
                ("finished", time) => tally.time = seconds(time).unwrap_or_default(),
                (number, "passed") => tally.passed = number.parse().ok()?,
                (number, "failed") => tally.failed = number.parse().ok()?,
                (number, "ignored") => tally.ignored = number.parse().ok()?,
                _ => {}
            }
        }
        Some(tally)
    }

    /// Adds another's numbers.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.time += other.time;
    }

    /// Whether there were no tests at all.
    pub(crate) fn is_empty(self) -> bool {
        self.passed + self.failed + self.ignored == 0
    }
}

/// `in 12.34s`
fn seconds(text: &str) -> Option<Duration> {
    let number = text.trim().strip_prefix("in ")?.strip_suffix('s')?;
    Duration::try_from_secs_f64(number.parse().ok()?).ok()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, time } = self;
        write!(f, "{passed} tests passed, {failed} failed, {ignored} ignored, in {:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
     Running unittests src/lib.rs (target/debug/deps/curator_test-036e1a658dbf4d53)
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.25s
     Running tests/server/main.rs (/tmp/target dir/debug/deps/server-06408ebb08fbfe30)
test some::test ... ok
test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
     Running tests/model/deep.rs (target/debug/deps/model-deep-06408ebb08fbfe30)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 10.00s
     Running tests/conformance/main.rs (target/debug/deps/conformance-06408ebb08fbfe30)
test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s
   Doc-tests curator_test
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    fn tally(passed: u64, failed: u64, ignored: u64, millis: u64) -> Tally {
        Tally { passed, failed, ignored, time: Duration::from_millis(millis) }
    }

    fn read(kind: ServerKind, output: &str) -> Tallies {
        let mut reader = Reader::new(kind);
        output.lines().for_each(|line| reader.line(line));
        reader.tallies()
    }

    #[test]
    fn results_add_up_by_what_tests_need() {
        let expected = Tallies {
            on_servers: tally(7, 4, 0, 3_500),
            pure: tally(4, 0, 1, 10_250),
            documentation: tally(7, 0, 0, 100),
            ..Tallies::default()
        };
        for kind in ServerKind::ALL {
            assert_eq!(read(kind, OUTPUT), expected);
        }
        assert_eq!(expected.on_servers.to_string(), "7 tests passed, 4 failed, 0 ignored, in 3.5 s");
        assert_eq!(expected.each().iter().map(|tally| tally.passed).sum::<u64>(), 18);
    }

    #[test]
    fn tests_of_one_kind_never_count_for_the_other() {
        let output = "
     Running tests/embedded/main.rs (target/debug/deps/embedded-036e1a658dbf4d53)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/interop/main.rs (target/debug/deps/interop-036e1a658dbf4d53)
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/real/main.rs (target/debug/deps/real-036e1a658dbf4d53)
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
     Running tests/server/main.rs (target/debug/deps/server-036e1a658dbf4d53)
test result: ok. 8 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let passed = |kind| {
            let Tallies { on_servers, other_kind, .. } = read(kind, output);
            (on_servers.passed, other_kind.passed)
        };
        assert_eq!(passed(ServerKind::Embedded), (1 + 2 + 8, 4));
        assert_eq!(passed(ServerKind::Real), (2 + 4 + 8, 1));
    }

    #[test]
    fn results_of_unnamed_programs_are_of_unknown_ones() {
        // The output of `cargo test -q`, of `cargo test -v` and for a new target.
        for announced in [
            "",
            "     Running `/tmp/target dir/debug/deps/server-06408ebb08fbfe30`",
            "     Running tests/new.rs (target/debug/deps/new-06408ebb08fbfe30)",
        ] {
            let result =
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
            let expected = Tallies { unknown: tally(3, 0, 0, 0), ..Tallies::default() };
            assert_eq!(read(ServerKind::Real, &format!("{announced}\n{result}\n")), expected, "{announced}");
        }
    }

    #[test]
    fn unit_tests_need_no_server_whatever_their_package_is_called() {
        let line = "     Running unittests src/lib.rs (target/debug/deps/server-06408ebb08fbfe30)";
        assert_eq!(Program::announced(line), Some(Program::Tests(Needs::Nothing)));
    }

    #[test]
    fn failed_and_ignored_tests_are_tests() {
        assert!(tally(0, 0, 0, 7).is_empty());
        for one in [tally(1, 0, 0, 0), tally(0, 1, 0, 0), tally(0, 0, 1, 0)] {
            assert!(!one.is_empty(), "{one}");
        }
    }

    #[test]
    fn other_lines_are_no_results() {
        assert_eq!(Tally::read("test result: unknown"), None);
        assert_eq!(Tally::read("it says test result: ok. 3 passed; 0 failed"), None);
        assert!(Program::announced("     Running `rustc --crate-name x`").is_none());
    }
}
