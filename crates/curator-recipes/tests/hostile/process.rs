//! The process that runs the clients: its memory limit, descriptors, panics and output.

use std::collections::BTreeMap;
use std::env;
use std::panic;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, Rlimit, setrlimit};

use test_support::environment::{number, say};

/// The process's limit for writable memory, in bytes: an allocation beyond it fails, which ends the
/// process. Thread stacks count in full, although most of their memory is never used.
const MOST_MEMORY: u64 = 1 << 30;

/// Whether the memory of the process has limits. `AddressSanitizer` reserves terabytes of
/// addresses, and keeps freed memory.
pub(crate) fn has_memory_limit() -> bool {
    number("HOSTILE_UNLIMITED", 0) == 0
}

pub(crate) fn limit_memory() {
    if !has_memory_limit() {
        return;
    }
    let limit = Rlimit {
        current: Some(MOST_MEMORY),
        maximum: Some(MOST_MEMORY),
    };
    setrlimit(Resource::Data, limit).unwrap();
}

/// The number of open descriptors.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The number of panics at each place. Panics in `zookeeper-client` are counted, but permitted.
pub(crate) type Panics = Arc<Mutex<BTreeMap<String, usize>>>;

/// Starts counting panics.
pub(crate) fn count_panics() -> Panics {
    let panics = Panics::default();
    let default_hook = panic::take_hook();
    let counted = Arc::clone(&panics);
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or_else(
            || "somewhere".to_owned(),
            |at| format!("{}:{}", at.file(), at.line()),
        );
        // Without the directory of the registry.
        let name = place
            .rsplit_once("/src/index.crates.io-")
            .map_or(&*place, |(_, place)| place);
        let is_first = {
            let mut counted = counted.lock().unwrap();
            let count = counted.entry(name.to_owned()).or_default();
            *count += 1;
            *count == 1
        };
        if is_first {
            default_hook(info);
        }
    }));
    panics
}

/// This program, run as a subprocess.
pub(crate) struct Limited(Output);

impl Limited {
    /// Runs one test in a process with these variables, and prints its results.
    pub(crate) fn run(test: &str, variables: &[(&str, u64)]) -> Self {
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .stdin(Stdio::null())
            .envs(
                variables
                    .iter()
                    .map(|(name, value)| (name, value.to_string())),
            )
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter(|line| line.starts_with("hostile"))
            .for_each(say);
        Self(output)
    }

    pub(crate) fn assert_success(&self) {
        let Output {
            status,
            stdout,
            stderr,
        } = &self.0;
        let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    }

    /// The error output of the process, if the process has failed.
    pub(crate) fn died_of(&self) -> Option<String> {
        (!self.0.status.success()).then(|| String::from_utf8_lossy(&self.0.stderr).into_owned())
    }
}
