//! Checks the contents of a packed package: for a missing file or key, cargo prints a warning at most.

use std::{fs, path::Path};

/// The files that each package must contain.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The keys that crates.io shows, but `repository`: this project does not own one yet.
const KEYS: [&str; 6] = ["categories", "description", "documentation", "keywords", "license", "readme"];

/// Checks the unpacked files of a package.
pub(crate) fn check(package: &Path) -> Result<(), String> {
    let read = || {
        let entries = fs::read_dir(package)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        Ok((entries.collect::<Result<Vec<_>, std::io::Error>>()?, fs::read_to_string(package.join("Cargo.toml"))?))
    };
    let (names, manifest) = read().map_err(|e: std::io::Error| format!("cannot read {}: {e}", package.display()))?;
    let faults = faults(&names, &manifest);
    if faults.is_empty() { Ok(()) } else { Err(format!("{}: {}", package.display(), faults.join(", "))) }
}

/// The faults of a package with these files and directories, and this manifest, as cargo has packed it.
fn faults(names: &[String], manifest: &str) -> Vec<String> {
    let has = |file: &str| names.iter().any(|name| name == file);
    let (_, table) = manifest.split_once("\n[package]\n").unwrap_or_default();
    let table = table.split_once("\n[").map_or(table, |(table, _)| table);
    let has_key = |key: &str| table.lines().any(|line| line.split_once(" = ").is_some_and(|(found, _)| found == key));
    let files = FILES.iter().filter(|file| !has(file)).map(|file| format!("{file} is not packed"));
    // The tests need files that are not packed.
    let tests = has("tests").then(|| "the directory `tests` is packed".to_owned());
    let keys = KEYS.iter().filter(|key| !has_key(key)).map(|key| format!("the packed manifest has no `{key}`"));
    files.chain(tests).chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "# A comment of cargo.\n\n[package]\nname = \"a\"\ndescription = \"A.\"\nreadme = \"README.md\"\n\
        documentation = \"https://docs.rs/a\"\nkeywords = [\n    \"k\",\n]\ncategories = [\"c\"]\nlicense = \"MIT\"\n\
\n[dependencies.b]\nversion = \"1\"\n";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_complete_package_has_no_faults() {
        let files = names(&["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "docs", "src"]);
        assert_eq!(faults(&files, MANIFEST), [""; 0]);
    }

    #[test]
    fn missing_and_surplus_contents_are_named() {
        let files = names(&["Cargo.toml", "LICENSE-MIT", "README.md", "src", "tests"]);
        // The description of a dependency, not of the package.
        let manifest = MANIFEST.replace("description = \"A.\"\n", "") + "description = \"B.\"\n";
        let expected = [
            "LICENSE-APACHE is not packed",
            "the directory `tests` is packed",
            "the packed manifest has no `description`",
        ];
        assert_eq!(faults(&files, &manifest), expected);
    }
}
