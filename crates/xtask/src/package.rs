//! Packs the published packages, and uses them in a new crate.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{command, contents, print_line, target_dir, workspace};

/// The published packages, in the order of publication: each depends only on packages before it.
pub(crate) const PUBLISHED: [&str; 5] =
    ["curator-protocol", "curator-client", "curator-test", "curator-recipes", "curator-discovery"];

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Unmaintained dependencies, which must not be in a build without the feature `backoff`.
const UNMAINTAINED: [&str; 2] = ["backoff", "instant"];

/// The builds of the new crate: a name, the arguments, and whether the feature `backoff` is enabled.
const BUILDS: [(&str, &[&str], bool); 2] =
    [("default", &[], false), ("full", &["--features", "backoff,tls,sasl-digest-md5,unused"], true)];

/// Packs every package. Then builds and runs a new crate that depends on the packed packages.
pub(crate) fn run() -> Result<(), String> {
    print_line(&format!("packing {}", PUBLISHED.join(", ")));
    let target = target_dir()?;
    command::run(&mut packing(&target))?;
    let fresh = Fresh::new(&target)?;
    for (build, arguments, has_backoff) in BUILDS {
        command::run(fresh.cargo("run").args(["--quiet", "--package", "fresh"]).args(arguments))?;
        let packages = fresh.packages(arguments)?;
        let found: Vec<_> = UNMAINTAINED.into_iter().filter(|name| packages.iter().any(|have| have == name)).collect();
        let expected: &[_] = if has_backoff { &UNMAINTAINED } else { &[] };
        if found != expected {
            return Err(format!("of {UNMAINTAINED:?}, a {build} build contains {found:?}; expected {expected:?}"));
        }
        print_line(&format!(
            "a new crate with a {build} build of curator-recipes works, with {} packages",
            packages.len()
        ));
    }
    Ok(())
}

/// The command that packs every package without building it.
fn packing(target: &Path) -> Command {
    let mut cargo = command::cargo();
    // `--allow-dirty`: packs uncommitted changes too.
    cargo.args(["package", "--locked", "--allow-dirty", "--no-verify", "--quiet", "--target-dir"]).arg(target);
    cargo.args(PUBLISHED.iter().flat_map(|package| ["--package", package]));
    cargo
}

/// A temporary workspace with the packed packages and a new crate. Dropping this value removes it.
struct Fresh {
    directory: PathBuf,
    target: PathBuf,
}

impl Fresh {
    fn new(target: &Path) -> Result<Self, String> {
        let fresh = Self { directory: directory(target), target: target.to_owned() };
        if let Err(error) = fs::remove_dir_all(&fresh.directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(format!("cannot remove {}: {error}", fresh.directory.display()));
        }
        let source = fresh.directory.join("fresh/src");
        fs::create_dir_all(&source).map_err(|e| format!("cannot write to {}: {e}", source.display()))?;
        for package in PUBLISHED {
            let packed = target.join("package").join(format!("{package}-{VERSION}.crate"));
            // `m` sets the current time. All packed files have the same old time, so cargo could take them for the
            // files of an earlier run.
            command::run(Command::new("tar").arg("-xzmf").arg(packed).arg("-C").arg(&fresh.directory))?;
            contents::check(&fresh.directory.join(format!("{package}-{VERSION}")))?;
        }
        fresh.write("Cargo.toml", &workspace_manifest(&read("Cargo.toml")?))?;
        // With the locked versions of our dependencies, so that their new releases do not break this check.
        fresh.write("Cargo.lock", &read("Cargo.lock")?)?;
        fresh.write("fresh/Cargo.toml", &include_str!("../fresh/manifest.toml").replace("VERSION", VERSION))?;
        fresh.write("fresh/src/main.rs", include_str!("../fresh/main.rs"))?;
        fresh.write("fresh/src/secured.rs", include_str!("../fresh/secured.rs"))?;
        Ok(fresh)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.directory.join(file);
        fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = command::cargo();
        cargo.arg(subcommand).current_dir(&self.directory).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// The names of all packages of a build, without build-time dependencies.
    fn packages(&self, arguments: &[&str]) -> Result<Vec<String>, String> {
        let mut cargo = self.cargo("tree");
        cargo.args(["--package", "fresh", "--edges", "normal", "--prefix", "none", "--format", "{p}"]).args(arguments);
        let output = cargo.output().map_err(|e| format!("cannot start cargo: {e}"))?;
        if !output.status.success() {
            return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(names(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // If this fails, the next run removes the directory.
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// The directory of the new crate. It is outside the workspace, and the same in each run, as cargo identifies compiled
/// packages by their directory. Each target directory has a separate one.
fn directory(target: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    target.hash(&mut hasher);
    env::temp_dir().join(format!("curator-fresh-{:016x}", hasher.finish()))
}

/// Reads a file of our workspace.
fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(workspace().join(file)).map_err(|e| format!("cannot read {file}: {e}"))
}

/// The manifest of the temporary workspace. Its patches replace the registry's packages with the packed ones; its
/// profiles are ours, so that compiled packages are reused.
fn workspace_manifest(ours: &str) -> String {
    let profiles = ours.find("\n[profile.").map_or("", |start| &ours[start..]);
    let members = PUBLISHED.map(|package| format!("\"{package}-{VERSION}\", "));
    let patches = PUBLISHED.map(|package| format!("{package} = {{ path = \"{package}-{VERSION}\" }}\n"));
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}\"fresh\"]\n\n[patch.crates-io]\n{}{profiles}",
        members.concat(),
        patches.concat()
    )
}

/// The names in the lines of `cargo tree`, each once, as a package may occur in several versions.
fn names(tree: &str) -> Vec<String> {
    // A star marks repeated packages.
    let mut packages: Vec<_> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.iter().filter_map(|package| package.split(' ').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest_of(package: &Path) -> String {
        fs::read_to_string(package.join("Cargo.toml")).unwrap()
    }

    fn crates() -> impl Iterator<Item = PathBuf> {
        fs::read_dir(workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path())
    }

    #[test]
    fn exactly_the_unpublished_packages_have_publish_set_to_false() {
        let examples =
            ["examples", "examples/discovery", "examples/service", "examples/tls"].map(|place| workspace().join(place));
        for package in crates().chain(examples) {
            let is_published = PUBLISHED.iter().any(|name| package.ends_with(name));
            let is_excluded = manifest_of(&package).lines().any(|line| line == "publish = false");
            assert_ne!(is_published, is_excluded, "{}", package.display());
        }
    }

    /// The lines of a manifest's table, if it has this table.
    fn table<'a>(manifest: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str>> {
        let (_, found) = manifest.split_once(&format!("\n[{name}]\n"))?;
        Some(found.split("\n[").next()?.lines().filter(|line| !line.starts_with('#')))
    }

    #[test]
    fn the_oldest_rust_checks_each_published_package_and_each_feature() {
        let steps = read(".ci/run").unwrap();
        let step = steps.split_once("\nmsrv() {").and_then(|(_, rest)| rest.split("\n}\n").next()).unwrap();
        let commands = step.lines().filter_map(|line| line.trim().strip_prefix("\"${check[@]}\" -p "));
        let commands: Vec<Vec<_>> = commands.map(|command| command.split([' ', ',']).collect()).collect();
        // The dependencies and features of `curator-protocol` are those that `curator-recipes` gives it.
        for package in PUBLISHED.iter().filter(|package| **package != "curator-protocol") {
            // `curator-recipes` passes the features of the client on.
            let same = ["curator-client", "curator-recipes"];
            let is_of =
                |command: &&Vec<_>| command[0] == *package || same.contains(package) && same.contains(&command[0]);
            assert!(commands.iter().any(|command| command[0] == *package), "no check of {package}");
            let manifest = manifest_of(&workspace().join("crates").join(package));
            for feature in table(&manifest, "features").unwrap().filter_map(|line| line.split(" = ").next()) {
                let enables = |command: &Vec<_>| command[1..].contains(&feature);
                let is_checked = feature.is_empty() || commands.iter().filter(is_of).any(enables);
                assert!(is_checked, "no check of {package} with {feature}");
            }
        }
    }

    #[test]
    fn the_new_crate_uses_each_package_directly_or_through_another_one() {
        let ours = PUBLISHED.map(|package| manifest_of(&workspace().join("crates").join(package)));
        let manifests = ours.iter().map(String::as_str).chain([include_str!("../fresh/manifest.toml")]);
        let dependencies = manifests.flat_map(|manifest| table(manifest, "dependencies").unwrap());
        let used: Vec<_> = dependencies.filter_map(|line| line.split([' ', '.']).next()).collect();
        for package in PUBLISHED {
            assert!(used.contains(&package), "{package}");
        }
    }

    #[test]
    fn the_new_crate_is_in_the_same_place_in_each_run() {
        assert_eq!(directory(Path::new("/a/target")), directory(Path::new("/a/target")));
        assert_ne!(directory(Path::new("/a/target")), directory(Path::new("/b/target")));
        assert!(!directory(Path::new("/a/target")).starts_with(workspace()));
    }

    #[test]
    fn every_published_package_has_both_licences() {
        for (package, licence) in
            PUBLISHED.iter().flat_map(|name| ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| (name, file)))
        {
            let copy = workspace().join("crates").join(package).join(licence);
            // Where git does not create links, a link is a file that contains a path.
            assert!(
                copy.symlink_metadata().is_ok_and(|found| found.is_file()),
                "{} is not a regular file",
                copy.display()
            );
            assert_eq!(fs::read(&copy).unwrap(), fs::read(workspace().join(licence)).unwrap(), "{}", copy.display());
        }
    }

    #[test]
    fn links_in_the_readme_of_a_package_are_absolute() {
        for package in PUBLISHED {
            let readme = fs::read_to_string(workspace().join("crates").join(package).join("README.md")).unwrap();
            let links: Vec<_> = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
            assert!(!links.is_empty(), "{package}");
            for link in links {
                assert!(link.starts_with("https://"), "the README of {package} has a link to {link}");
            }
        }
    }

    #[test]
    fn a_package_is_counted_once_in_each_version() {
        let tree = "fresh v0.0.0 (/t/fresh)\na v1.0.0\nb v0.2.0\nb v0.1.0\na v1.0.0 (*)\nc v1.0.0 (proc-macro)\n";
        assert_eq!(names(tree), ["a", "b", "b", "c", "fresh"]);
    }
}
