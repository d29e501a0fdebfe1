//! Prepares Java, ZooKeeper and the other clients.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    class_archive,
    clients::Client,
    debian,
    distribution::{
        DEBIAN_HOME, DEBIAN_NAME, Distribution, NotFound, Origin, PINNED_VERSION, find_java,
        find_on_path, jars_of_release, prepared_dir,
    },
    maven, print_line, target_dir,
};

/// Installs everything that `cargo xtask test` needs besides Rust.
pub(crate) fn everything() -> Result<(), String> {
    prepare()?;
    for client in Client::ALL {
        client.prepare_and_report()?;
    }
    Ok(())
}

/// Prepares ZooKeeper and these clients. Prints the environment variables with the clients'
/// locations, one `NAME=value` per line.
pub(crate) fn environment(clients: &[Client]) -> Result<(), String> {
    prepare()?;
    for client in clients {
        for (variable, value) in client.prepare()?.variables {
            println!("{variable}={}", value.to_string_lossy());
        }
    }
    Ok(())
}

/// Finds ZooKeeper and Java, or installs them. Quick if both are installed.
pub(crate) fn prepare() -> Result<Distribution, String> {
    java()?;
    let found = match Distribution::find() {
        Ok(found) if !maven::is_better_fetched(&found) => found,
        Err(NotFound::Home(home)) => return Err(NotFound::Home(home).to_string()),
        Ok(_) | Err(_) => {
            install_any_zookeeper()?;
            Distribution::find().map_err(|e| e.to_string())?
        }
    };
    print_line(&format!("{found}, Java at {}", found.java().display()));
    archive_classes(&found)?;
    Ok(found)
}

/// Finds this release of ZooKeeper, or fetches it. Returns its directory.
pub(crate) fn release(version: &str) -> Result<PathBuf, String> {
    java()?;
    let home = maven::fetch(version)?;
    if let Some(class_path) = jars_of_release(&home).and_then(|jars| env::join_paths(jars).ok()) {
        class_archive::make(&class_path, &home);
    }
    Ok(home)
}

fn java() -> Result<(), String> {
    if find_java().is_none() {
        print_line("no Java found");
        debian::install_java()?;
    }
    Ok(())
}

/// Installs ZooKeeper in the first way that works.
fn install_any_zookeeper() -> Result<(), String> {
    if find_on_path("mvn").is_some() {
        match maven::fetch(PINNED_VERSION) {
            Ok(_) => return Ok(()),
            Err(e) => print_line(&format!("{e}; trying Debian's package instead")),
        }
    } else {
        print_line("no Maven found; trying Debian's package instead");
    }
    if Distribution::find().is_ok() {
        return Ok(());
    }
    debian::install_zookeeper().map_err(|e| {
        format!(
            "could not install ZooKeeper: {e}. There are three ways: set ZOOKEEPER_HOME to an unpacked \
             ZooKeeper release, or put `mvn` (Maven) on PATH and run this again, or install Debian's package \
             `zookeeper`"
        )
    })
}

/// Finds Debian's package of ZooKeeper, or installs it. Its release is older than the pinned one.
pub(crate) fn debian() -> Result<Distribution, String> {
    java()?;
    if Distribution::debian().is_err() {
        debian::install_zookeeper()
            .map_err(|e| format!("Debian's package is missing and could not be installed: {e}"))?;
    }
    let found = Distribution::debian().map_err(|e| e.to_string())?;
    archive_classes(&found)?;
    Ok(found)
}

/// Makes the archive of a ZooKeeper's classes, if it is missing: beside the jars, or for Debian's
/// package in the target directory. Writes nothing into another directory of the user.
fn archive_classes(found: &Distribution) -> Result<(), String> {
    let class_path = found.classpath();
    let jar = env::split_paths(&class_path).next().unwrap_or_default();
    match jar.parent() {
        Some(home) if home == Path::new(DEBIAN_HOME) => {
            class_archive::make(&class_path, &prepared_dir(&target_dir()?, DEBIAN_NAME));
        }
        Some(home) if found.origin() == Origin::Prepared => class_archive::make(&class_path, home),
        _ => {}
    }
    Ok(())
}
