//! Installs missing programs from Debian's packages.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use crate::{command, distribution::find_on_path, print_line, target_dir};

/// Installs a Java runtime.
pub(crate) fn install_java() -> Result<(), String> {
    install("default-jre-headless").map_err(|e| {
        format!("Java is missing and could not be installed: {e}. Install a Java runtime, or set JAVA_HOME to one")
    })
}

/// Installs a Java compiler.
pub(crate) fn install_jdk() -> Result<(), String> {
    install("default-jdk-headless").map_err(|e| {
        format!("a Java compiler is missing and could not be installed: {e}. Install a JDK, or set JAVA_HOME to one")
    })
}

/// Installs ZooKeeper. The service is in another package, `zookeeperd`, so no server is started.
pub(crate) fn install_zookeeper() -> Result<(), String> {
    install("zookeeper")
}

/// Installs Python's module for virtual environments.
pub(crate) fn install_python() -> Result<(), String> {
    install("python3-venv")
}

/// Installs Go.
pub(crate) fn install_go() -> Result<(), String> {
    install("golang-go").map_err(|e| {
        format!("Go is missing and could not be installed: {e}. Install Go 1.19 or newer")
    })
}

fn install(package: &str) -> Result<(), String> {
    install_all(&[package])
}

/// Installs these packages.
pub(crate) fn install_all(packages: &[&str]) -> Result<(), String> {
    let _lock = lock()?;
    update()?;
    print_line(&format!("installing from Debian: {}", packages.join(", ")));
    apt_get(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

/// Waits until no other process of this workspace runs `apt-get`, which fails while another process
/// runs it. Dropping the file releases the lock.
fn lock() -> Result<File, String> {
    let path = target_dir()?.join("apt-get.lock");
    let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|e| format!("cannot lock {}: {e}", path.display()))
}

/// Updates the list of packages.
fn update() -> Result<(), String> {
    if find_on_path("apt-get").is_none() {
        return Err("`apt-get` is not available".to_owned());
    }
    apt_get(&["update"])
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let prefix =
        privileges().ok_or("installing packages needs root, or a `sudo` without a password")?;
    let words: Vec<&str> = prefix
        .iter()
        .copied()
        .chain(["apt-get", "-qq"])
        .chain(arguments.iter().copied())
        .collect();
    let mut command = Command::new("env");
    command
        .arg("DEBIAN_FRONTEND=noninteractive")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command::run(&mut command)
}

/// Unpacks a package into a directory, without installing it.
pub(crate) fn unpack(package: &str, directory: &Path) -> Result<(), String> {
    let _lock = lock()?;
    update()?;
    command::run(
        Command::new("apt-get")
            .args(["-qq", "download", package])
            .current_dir(directory),
    )?;
    let prefix = format!("{package}_");
    let files =
        fs::read_dir(directory).map_err(|e| format!("cannot read {}: {e}", directory.display()))?;
    let archive = files
        .flatten()
        .find(|file| file.file_name().to_string_lossy().starts_with(&prefix));
    let archive = archive
        .ok_or_else(|| format!("apt-get has not downloaded {package}"))?
        .path();
    command::run(
        Command::new("dpkg-deb")
            .arg("--extract")
            .args([&archive, directory]),
    )
}

/// The prefix of a command that needs root: empty for root, otherwise `sudo`. `None` if `sudo`
/// needs a password.
fn privileges() -> Option<&'static [&'static str]> {
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout.trim_ascii() == b"0");
    if is_root {
        return Some(&[]);
    }
    command::succeeds(Command::new("sudo").args(["-n", "true"])).then_some(&["sudo", "-n", "-E"])
}
