//! Reads files, and creates new ones.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher as _},
    io,
    path::{Path, PathBuf},
    process::id,
};

/// All files below the directory, sorted by path.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |e: io::Error| format!("cannot list {}: {e}", folder.display());
    let entries = fs::read_dir(folder)
        .map_err(cannot)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(cannot)?;
    let mut found = Vec::new();
    for path in entries.iter().map(fs::DirEntry::path) {
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// Calls `make` to write a file or a directory in a temporary place, and renames the result to
/// `place`, so that other processes never see a part of it.
pub(crate) fn make_at(
    place: &Path,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let cannot = |e: io::Error| format!("cannot write to {}: {e}", place.display());
    let directory = place.parent().unwrap_or(place);
    let name = place.file_name().unwrap_or_default();
    fs::create_dir_all(directory).map_err(cannot)?;
    let work = directory.join(format!(".making-{}-{}", name.display(), id()));
    let made = make(&work).and_then(|()| match fs::rename(&work, place) {
        // Another process has already created the same file or directory.
        Err(_) if place.exists() => Ok(()),
        renamed => renamed.map_err(cannot),
    });
    // Leftovers after a failure are harmless.
    drop((fs::remove_file(&work), fs::remove_dir_all(&work)));
    made
}

/// A name for an output that is made from these sources. Other sources give another name.
pub(crate) fn name_of(what: &str, sources: &impl Hash) -> String {
    let mut version = DefaultHasher::new();
    sources.hash(&mut version);
    format!("{what}-{:016x}", version.finish())
}
