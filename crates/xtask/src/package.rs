//! Packs the published packages, and compiles what is packed.

use std::{env, fs, path::PathBuf};

use crate::{command, print_line};

/// The published packages, in the order of publication: each depends only on packages before it.
pub(crate) const PUBLISHED: [&str; 5] = [
    "curator-protocol",
    "curator-client",
    "curator-test",
    "curator-recipes",
    "curator-discovery",
];

/// An unmaintained dependency, which must not be in a build without the feature of this name.
const UNMAINTAINED: &str = "backoff";

/// All features that need no system library. Each package enables the ones that it has.
const FEATURES: &str = "backoff,metrics,native,sasl-digest-md5,serde,tls,tokio-util,tower";

/// Packs every package, and compiles each one separately from its packed files: with the default
/// features, and with all of them.
pub(crate) fn run() -> Result<(), String> {
    let mut tree = command::cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "curator-recipes",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    if command::output(&mut tree)?
        .lines()
        .any(|package| package.split(' ').next() == Some(UNMAINTAINED))
    {
        return Err(format!(
            "a build with the default features contains {UNMAINTAINED}"
        ));
    }
    remove_unpacked()?;
    for features in ["", FEATURES] {
        print_line(&format!(
            "packing {}, with the features \"{features}\"",
            PUBLISHED.join(", ")
        ));
        // `--allow-dirty` packs uncommitted changes too.
        let publish = [
            "publish",
            "--workspace",
            "--dry-run",
            "--locked",
            "--allow-dirty",
            "--quiet",
            "--features",
        ];
        command::run(command::cargo().args(publish).arg(features))?;
    }
    Ok(())
}

/// Removes what cargo has unpacked of these packages in an earlier run: it unpacks each release only
/// once, and would compile the other packages with the older sources. The directories of registries
/// that are not on the network, as that of a dry run, have names without a host.
fn remove_unpacked() -> Result<(), String> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")));
    let Some(Ok(registries)) = home.map(|home| fs::read_dir(home.join("registry/src"))) else {
        return Ok(());
    };
    for registry in registries.flatten() {
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for release in fs::read_dir(registry.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = release.file_name();
            let name = name.to_string_lossy();
            if PUBLISHED.iter().any(|package| {
                name.strip_prefix(package)
                    .is_some_and(|version| version.starts_with('-'))
            }) {
                fs::remove_dir_all(release.path()).map_err(|error| {
                    format!("cannot remove {}: {error}", release.path().display())
                })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::workspace;

    fn manifest_of(package: &Path) -> String {
        fs::read_to_string(package.join("Cargo.toml")).unwrap()
    }

    fn crates() -> impl Iterator<Item = PathBuf> {
        fs::read_dir(workspace().join("crates"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
    }

    #[test]
    fn exactly_the_unpublished_packages_have_publish_set_to_false() {
        let examples = [
            "examples",
            "examples/discovery",
            "examples/service",
            "examples/tls",
        ]
        .map(|place| workspace().join(place));
        for package in crates().chain(examples) {
            let is_published = PUBLISHED.iter().any(|name| package.ends_with(name));
            let is_excluded = manifest_of(&package)
                .lines()
                .any(|line| line == "publish = false");
            assert_ne!(is_published, is_excluded, "{}", package.display());
        }
    }

    /// The lines of a manifest's table, if it has this table.
    fn table<'a>(manifest: &'a str, name: &str) -> Option<impl Iterator<Item = &'a str>> {
        let (_, found) = manifest.split_once(&format!("\n[{name}]\n"))?;
        Some(
            found
                .split("\n[")
                .next()?
                .lines()
                .filter(|line| !line.starts_with('#')),
        )
    }

    #[test]
    fn the_oldest_rust_checks_each_published_package_and_each_feature() {
        let steps = fs::read_to_string(workspace().join(".ci/run")).unwrap();
        let commands = steps
            .split_once("\nmsrv() {")
            .and_then(|(_, rest)| rest.split("\n}\n").next())
            .unwrap()
            .lines()
            .filter_map(|line| line.trim().strip_prefix("\"${check[@]}\" -p "));
        let commands: Vec<Vec<_>> = commands
            .map(|command| command.split([' ', ',']).collect())
            .collect();
        // `curator-protocol` is skipped: it has the dependencies and features that
        // `curator-recipes` selects.
        for package in PUBLISHED
            .iter()
            .filter(|package| **package != "curator-protocol")
        {
            // `curator-recipes` has the features of the client, and passes them on.
            let same = ["curator-client", "curator-recipes"];
            assert!(
                commands.iter().any(|command| command[0] == *package),
                "no check of {package}"
            );
            let manifest = manifest_of(&workspace().join("crates").join(package));
            for feature in table(&manifest, "features")
                .unwrap()
                .filter_map(|line| line.split(" = ").next())
            {
                let is_checked = feature.is_empty()
                    || commands
                        .iter()
                        .filter(|command| {
                            command[0] == *package
                                || same.contains(package) && same.contains(&command[0])
                        })
                        .any(|command| command[1..].contains(&feature));
                assert!(is_checked, "no check of {package} with {feature}");
            }
        }
    }

    #[test]
    fn every_published_package_has_both_licences() {
        for (package, licence) in PUBLISHED
            .iter()
            .flat_map(|name| ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| (name, file)))
        {
            let copy = workspace().join("crates").join(package).join(licence);
            // Where git cannot create symbolic links, it writes the target's path into a regular
            // file instead.
            assert!(
                copy.symlink_metadata().is_ok_and(|found| found.is_file()),
                "{} is not a regular file",
                copy.display()
            );
            assert_eq!(
                fs::read(&copy).unwrap(),
                fs::read(workspace().join(licence)).unwrap(),
                "{}",
                copy.display()
            );
        }
    }

    /// Without them, cargo at most prints a warning, and crates.io shows an incomplete page.
    /// `repository` is missing: this project does not own one yet.
    #[test]
    fn every_published_package_has_the_keys_and_files_that_a_registry_shows() {
        for package in PUBLISHED {
            let manifest = format!(
                "\n{}",
                manifest_of(&workspace().join("crates").join(package))
            );
            let keys: Vec<_> = table(&manifest, "package")
                .unwrap()
                .filter_map(|line| line.split([' ', '.']).next())
                .collect();
            for key in [
                "categories",
                "description",
                "documentation",
                "keywords",
                "license",
                "readme",
            ] {
                assert!(keys.contains(&key), "{package} has no {key}");
            }
            let packed = manifest
                .lines()
                .find(|line| line.starts_with("include = "))
                .unwrap();
            assert!(
                packed.contains("\"/README.md\", \"/LICENSE-*\"") && !packed.contains("tests"),
                "{packed}"
            );
        }
    }

    #[test]
    fn links_in_the_readme_of_a_package_are_absolute() {
        for package in PUBLISHED {
            let readme =
                fs::read_to_string(workspace().join("crates").join(package).join("README.md"))
                    .unwrap();
            let links: Vec<_> = readme
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
                .collect();
            assert!(!links.is_empty(), "{package}");
            for link in links {
                assert!(
                    link.starts_with("https://"),
                    "the README of {package} has a link to {link}"
                );
            }
        }
    }
}
