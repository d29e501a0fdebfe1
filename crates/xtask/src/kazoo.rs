//! Installs kazoo, the ZooKeeper client for Python.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{command, debian, distribution::find_on_path, print_line, target_dir};

/// The environment variable with a Python that can import kazoo.
pub(crate) const PYTHON_VARIABLE: &str = "CURATOR_TEST_KAZOO_PYTHON";

/// The version of kazoo, which needs no other package.
pub(crate) const VERSION: &str = "2.11.0";

/// Finds a Python that can import kazoo, or creates one: a virtual environment in the target
/// directory. Quick if it exists already.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    if let Some(python) = env::var_os(PYTHON_VARIABLE).map(PathBuf::from) {
        let error = || {
            format!(
                "{PYTHON_VARIABLE} is {}, which cannot import kazoo {VERSION}",
                python.display()
            )
        };
        return if imports_kazoo(&python) {
            Ok(python.clone())
        } else {
            Err(error())
        };
    }
    let environment = target_dir()?.join("kazoo").join(VERSION);
    let python = environment.join("bin/python");
    if !imports_kazoo(&python) {
        print_line(&format!("fetching kazoo {VERSION} with pip"));
        create(&environment)?;
        command::run(&mut install(&python))
            .map_err(|e| format!("could not fetch kazoo from the Python package index: {e}"))?;
    }
    if imports_kazoo(&python) {
        Ok(python)
    } else {
        Err(format!(
            "pip has installed another version of kazoo than {VERSION}"
        ))
    }
}

/// Creates an empty virtual environment. Replaces an existing one.
fn create(environment: &Path) -> Result<(), String> {
    let venv = || {
        let mut python = Command::new("python3");
        command::run(
            python
                .args(["-m", "venv", "--clear"])
                .arg(environment)
                .stdin(Stdio::null()),
        )
    };
    if find_on_path("python3").is_some() && venv().is_ok() {
        return Ok(());
    }
    // Debian's Python does not contain the module `venv`.
    debian::install_python().map_err(|e| {
        format!("there is no Python with the module `venv`, and it could not be installed: {e}")
    })?;
    venv()
}

fn install(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .arg(format!("kazoo=={VERSION}"));
    pip.stdin(Stdio::null());
    pip
}

fn imports_kazoo(python: &Path) -> bool {
    let check =
        format!("import kazoo.version as v; raise SystemExit(v.__version__ != '{VERSION}')");
    command::succeeds(Command::new(python).arg("-c").arg(check))
}
