//! Plants known defects into a copy of the workspace, and measures how many seeds find them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum number of seeds that a search for a defect runs.
const SEEDS: u64 = 1000;

/// A defect: a patch of the workspace, which begins with lines that describe the defect.
#[derive(Debug)]
struct Defect {
    name: String,
    patch: PathBuf,
    /// The description of the defect.
    what: String,
    /// The workload that finds it.
    workload: String,
}

/// Plants each defect whose name contains `only`. Prints a table, and returns whether all of these
/// defects are found.
///
/// # Errors
///
/// If the workspace cannot be copied, or a patch does not apply.
pub fn run(only: Option<&str>) -> Result<bool, String> {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let workspace = package
        .ancestors()
        .nth(2)
        .ok_or("the workspace is missing")?;
    let copy = workspace.join("target/planted");
    let mut defects = read_all(&package.join("planted"))?;
    defects.retain(|defect| only.is_none_or(|only| defect.name.contains(only)));
    println!("| defect | workload | seeds | failure |\n|---|---|---|---|");
    let mut all = true;
    for defect in &defects {
        copy_workspace(workspace, &copy.join("workspace"))?;
        apply(defect, &copy.join("workspace"))?;
        let found = search(defect, &copy)?;
        all &= found.is_some();
        let (seeds, failure) = found.unwrap_or_else(|| (format!("not in {SEEDS}"), String::new()));
        println!(
            "| {}: {} | {} | {seeds} | {failure} |",
            defect.name, defect.what, defect.workload
        );
    }
    Ok(all)
}

fn read_all(directory: &Path) -> Result<Vec<Defect>, String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut patches: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect();
    patches.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "patch")
    });
    patches.sort();
    patches.into_iter().map(read).collect()
}

fn read(patch: PathBuf) -> Result<Defect, String> {
    let text =
        fs::read_to_string(&patch).map_err(|error| format!("{}: {error}", patch.display()))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim().to_owned())
            .ok_or_else(|| format!("{}: no line {name}", patch.display()))
    };
    let name = patch
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let what = field("Defect:")?;
    let workload = field("Workload:")?;
    Ok(Defect {
        name,
        what,
        workload,
        patch,
    })
}

/// Copies the sources. Does not write files that have not changed, so that cargo does not compile
/// them again.
fn copy_workspace(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("cannot create {}: {error}", to.display()))?;
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "clippy.toml",
        "README.md",
        "crates",
        "examples",
        "docs",
    ] {
        copy(&from.join(name), &to.join(name))
            .map_err(|error| format!("cannot copy {name}: {error}"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if name != "target" {
                copy(&from.join(&name), &to.join(&name))?;
            }
        }
        return Ok(());
    }
    let contents = fs::read(from)?;
    if fs::read(to).is_ok_and(|before| before == contents) {
        Ok(())
    } else {
        fs::write(to, contents)
    }
}

fn apply(defect: &Defect, workspace: &Path) -> Result<(), String> {
    let mut git = Command::new("git");
    // The copy is inside the repository's directory, but git must not treat it as a part of the
    // repository.
    git.args(["apply", "--whitespace=nowarn"])
        .arg(&defect.patch)
        .current_dir(workspace);
    git.env(
        "GIT_CEILING_DIRECTORIES",
        workspace.parent().unwrap_or(workspace),
    );
    let output = git
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{} does not apply: {}",
        defect.patch.display(),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Returns how many seeds the search took, and the failure that they found. `None` if they found
/// none.
fn search(defect: &Defect, copy: &Path) -> Result<Option<(String, String)>, String> {
    let seeds = SEEDS.to_string();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(copy.join("workspace"))
        .env("CARGO_TARGET_DIR", copy.join("target"));
    // The build is barely optimized: every defect needs a build, but a few seeds find most defects.
    cargo.env("CARGO_PROFILE_SIMULATION_OPT_LEVEL", "1");
    cargo.args([
        "run",
        "--quiet",
        "--profile",
        "simulation",
        "--package",
        "curator-simulation",
        "--",
    ]);
    cargo.args(["--first", "--seeds", &seeds]);
    cargo.args(["--workload", &defect.workload]);
    let output = cargo
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(None);
    }
    // The threads report their failures in arbitrary order.
    let failures = text.lines().filter(|line| line.starts_with("FAILURE of "));
    // If time stands still in a schedule, the program exits with a message about the seed.
    let failures = failures.chain(errors.lines().filter(|line| line.starts_with("seed ")));
    let Some((seed, failure)) = failures.filter_map(|line| Some((seed(line)?, line))).min() else {
        return Err(format!("{} does not run: {errors}", defect.name));
    };
    let what = failure.split_once(": ").map_or("", |(_, what)| what);
    let seeds = (seed + 1).to_string();
    Ok(Some((seeds, what.chars().take(160).collect())))
}

/// The seed in the first line of a failure.
fn seed(failure: &str) -> Option<u64> {
    let mut words = failure
        .split_whitespace()
        .skip_while(|word| *word != "seed");
    words.nth(1)?.trim_end_matches(':').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_can_be_planted() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        for defect in read_all(&package.join("planted")).unwrap() {
            let mut git = Command::new("git");
            git.args(["apply", "--check"])
                .arg(&defect.patch)
                .current_dir(package.ancestors().nth(2).unwrap());
            assert!(
                git.status().unwrap().success(),
                "{} does not apply",
                defect.patch.display()
            );
        }
    }
}
