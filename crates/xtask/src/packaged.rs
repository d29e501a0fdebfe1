//! Checks that a published package has all that its sources include.
//!
//! `cargo package` follows symbolic links, but what `include_str!` names beyond the package is not in it.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The paths that a source file includes, as they stand in it.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let calls = code.flat_map(|line| ["include_str!(", "include_bytes!("].map(|call| line.split(call).skip(1)));
    calls.flatten().filter_map(|call| call.strip_prefix('"')?.split('"').next())
}

/// Whether `path`, which stands in the file `source` of `package`, leads out of the package.
fn leads_out(package: &Path, source: &Path, path: &str) -> bool {
    let mut target = PathBuf::new();
    for component in source.with_file_name(path).components() {
        match component {
            Component::ParentDir => drop(target.pop()),
            component => target.push(component),
        }
    }
    !target.starts_with(package)
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

#[test]
fn what_sources_include_is_in_their_package() {
    let mut includes = 0;
    for package in fs::read_dir(crate::workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let mut files = Vec::new();
        sources(&package.join("src"), &mut files);
        // The strings of the test below.
        files.retain(|file| !file.ends_with("xtask/src/packaged.rs"));
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for path in included(&text) {
                includes += 1;
                assert!(!leads_out(&package, &file, path), "{} includes {path}", file.display());
                assert!(file.with_file_name(path).exists(), "{} includes {path}, which is not there", file.display());
            }
        }
    }
    assert!(includes > 5, "only {includes} found");
}

#[test]
fn a_path_out_of_the_package_is_found() {
    let (package, file) = (Path::new("/w/crates/a"), Path::new("/w/crates/a/src/guide.rs"));
    assert!(!leads_out(package, file, "../docs/x.md"));
    assert!(leads_out(package, file, "../../../docs/x.md"));
    assert!(leads_out(package, file, "../../b/x.md"));
    let text = "#[doc = include_str!(\"../docs/x.md\")]\n// include_str!(\"no\")\nlet x = include_bytes!(\"y\");\n";
    assert_eq!(included(text).collect::<Vec<_>>(), ["../docs/x.md", "y"]);
}
