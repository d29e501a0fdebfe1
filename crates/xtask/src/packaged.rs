//! Checks that a published package contains all files that its sources include.
//!
//! `cargo package` follows symbolic links, but leaves out files that the manifest's `include` does not list.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::package::PUBLISHED;

/// The text before the path of an included text, binary file or module.
const INCLUDES: [&str; 3] = ["include_str!(", "include_bytes!(", "#[path = "];

/// The paths that a source file includes, as written.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let calls = code.flat_map(|line| INCLUDES.map(|include| line.split(include).skip(1)));
    calls.flatten().filter_map(|call| call.strip_prefix('"')?.split('"').next())
}

/// The files and directories of a package that are packed, from its manifest.
fn packed(manifest: &str) -> Vec<&str> {
    let (_, list) = manifest.split_once("\ninclude = [").unwrap();
    let patterns = list.split(']').next().unwrap().split('"').skip(1).step_by(2);
    patterns.map(|pattern| pattern.trim_start_matches('/').trim_end_matches("/**")).collect()
}

/// Whether `path`, in the file `source` of `package`, is a file that is not packed.
fn is_unpacked(package: &Path, packed: &[&str], source: &Path, path: &str) -> bool {
    let mut target = PathBuf::new();
    for component in source.with_file_name(path).components() {
        match component {
            Component::ParentDir => drop(target.pop()),
            component => target.push(component),
        }
    }
    !packed.iter().any(|included| target.starts_with(package.join(included)))
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Unit tests that read the transcripts of the conformance tests, and include how. They run from the repository only.
const TESTS_OF_TRANSCRIPTS: [&str; 2] = ["src/wire/tests/mutated.rs", "src/embedded/processor/mutated.rs"];

#[test]
fn files_that_sources_include_are_in_their_package() {
    let mut includes = 0;
    for package in PUBLISHED.map(|package| crate::workspace().join("crates").join(package)) {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let packed = packed(&manifest);
        let mut files = Vec::new();
        sources(&package.join("src"), &mut files);
        files.retain(|file| !TESTS_OF_TRANSCRIPTS.iter().any(|test| file.ends_with(test)));
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for path in included(&text) {
                includes += 1;
                assert!(!is_unpacked(&package, &packed, &file, path), "{} includes {path}", file.display());
                assert!(file.with_file_name(path).exists(), "{} includes {path}, which does not exist", file.display());
            }
        }
    }
    assert!(includes > 5, "only {includes} found");
}

#[test]
fn an_include_of_a_file_that_is_not_packed_is_found() {
    let (package, file) = (Path::new("/w/crates/a"), Path::new("/w/crates/a/src/guide.rs"));
    let packed = packed("[package]\ninclude = [\"/src/**\", \"/docs/**\", \"/README.md\"]\n");
    assert_eq!(packed, ["src", "docs", "README.md"]);
    for within in ["../docs/x.md", "x.md", "../README.md"] {
        assert!(!is_unpacked(package, &packed, file, within), "{within}");
    }
    for beyond in ["../../../docs/x.md", "../../b/src/x.md", "../tests/log.rs", "../x.md"] {
        assert!(is_unpacked(package, &packed, file, beyond), "{beyond}");
    }
    let text = "#[doc = include_str!(\"../docs/x.md\")]\n// include_str!(\"no\")\nlet x = include_bytes!(\"y\");\n\
        #[path = \"../tests/log.rs\"]\nmod log;\n";
    assert_eq!(included(text).collect::<Vec<_>>(), ["../docs/x.md", "y", "../tests/log.rs"]);
}
