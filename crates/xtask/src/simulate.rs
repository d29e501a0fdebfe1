//! Searches over schedules in simulated time.

use crate::command;

/// Runs `curator-simulation` with these arguments. It needs nothing that must be prepared.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    command::run(command::cargo().args(command_line(arguments)))
}

fn command_line(arguments: &[String]) -> Vec<String> {
    // Optimized: a search of some thousand schedules takes much longer than the build.
    let cargo =
        ["run", "--quiet", "--profile", "simulation", "--package", "curator-simulation", "--"].map(str::to_owned);
    cargo.into_iter().chain(arguments.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::words;

    #[test]
    fn arguments_are_passed_on() {
        let line = command_line(&words("--seeds 500 --from commit"));
        assert_eq!(
            line,
            words("run --quiet --profile simulation --package curator-simulation -- --seeds 500 --from commit")
        );
    }
}
