//! Prepares Java, ZooKeeper and the other clients.

use std::path::PathBuf;

use crate::{
    clients::Client,
    debian,
    distribution::{Distribution, NotFound, PINNED_VERSION, find_java, find_on_path},
    maven, print_line,
};

/// Installs everything that `cargo xtask test` needs besides Rust.
pub(crate) fn everything() -> Result<(), String> {
    prepare()?;
    for client in Client::ALL {
        client.prepare_and_report()?;
    }
    Ok(())
}

/// Finds ZooKeeper and Java, or installs them. Quick if both are installed.
pub(crate) fn prepare() -> Result<Distribution, String> {
    java()?;
    match Distribution::find() {
        Ok(found) if !maven::is_better_fetched(&found) => {
            print_line(&format!("{found}, Java at {}", found.java().display()));
            Ok(found)
        }
        Err(NotFound::Home(home)) => Err(NotFound::Home(home).to_string()),
        Ok(_) | Err(_) => {
            install_any_zookeeper()?;
            let found = Distribution::find().map_err(|e| e.to_string())?;
            print_line(&format!("{found}, Java at {}", found.java().display()));
            Ok(found)
        }
    }
}

/// Finds this release of ZooKeeper, or fetches it. Returns its directory.
pub(crate) fn release(version: &str) -> Result<PathBuf, String> {
    java()?;
    maven::fetch(version)
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
    if let Ok(found) = Distribution::debian() {
        return Ok(found);
    }
    debian::install_zookeeper().map_err(|e| format!("Debian's package is missing and could not be installed: {e}"))?;
    Distribution::debian().map_err(|e| e.to_string())
}
