//! Installs missing programs from Debian's packages, including the prerequisites of the feature
//! `sasl-gssapi` and of its tests, and `promtool`, which tests the alert rules.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{command, distribution::find_on_path, print_line, target_dir, workspace};

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

/// Installs ZooKeeper without starting a server: the service is in another package, `zookeeperd`.
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

/// Waits until no other process of this workspace runs `apt-get`: only one process at a time can
/// run it. Dropping the file releases the lock.
fn lock() -> Result<File, String> {
    let path = target_dir()?.join("apt-get.lock");
    File::create(&path)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|e| format!("cannot lock {}: {e}", path.display()))
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

/// The words before a command that needs root: none for root, otherwise `sudo`. `None` if `sudo`
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

/// A prerequisite of the feature `sasl-gssapi`, or of its tests.
struct Part {
    /// Debian's package.
    package: &'static str,
    is_there: fn() -> bool,
}

/// The prerequisites of a build: the Kerberos library, and the generator of its bindings.
const TO_BUILD: [Part; 2] = [
    Part {
        package: "libkrb5-dev",
        is_there: || find_on_path("krb5-config").is_some(),
    },
    Part {
        package: "libclang-dev",
        is_there: has_libclang,
    },
];

/// The prerequisites of the tests: a separate key distribution centre, and a program that gets
/// tickets.
const TO_TEST: [Part; 3] = [
    Part {
        package: "krb5-kdc",
        is_there: || is_system_program("krb5kdc"),
    },
    Part {
        package: "krb5-admin-server",
        is_there: || is_system_program("kadmin.local"),
    },
    Part {
        package: "krb5-user",
        is_there: || is_system_program("kinit"),
    },
];

/// Finds the prerequisites of a build, or installs them.
pub(crate) fn prepare_kerberos_build() -> Result<(), String> {
    install_parts(&missing(&TO_BUILD).collect::<Vec<_>>())?;
    print_line("the feature sasl-gssapi can be built");
    Ok(())
}

/// Finds the prerequisites of the build and of the tests. Installs missing ones only if `ci` is
/// set: the packages of a key distribution centre start services, which should not run on a
/// developer's machine.
pub(crate) fn prepare_kerberos(ci: bool) -> Result<(), String> {
    let missing: Vec<_> = missing(&TO_BUILD).chain(missing(&TO_TEST)).collect();
    if ci || missing.is_empty() {
        install_parts(&missing)
    } else {
        Err(format!("not installed: {}", missing.join(", ")))
    }
}

/// The packages of the missing parts.
fn missing(parts: &'static [Part]) -> impl Iterator<Item = &'static str> {
    parts
        .iter()
        .filter(|part| !(part.is_there)())
        .map(|part| part.package)
}

fn install_parts(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(", ");
    install_all(packages).map_err(|e| format!("{names} could not be installed: {e}"))
}

/// Whether this program exists in `PATH` or in `/usr/sbin`.
fn is_system_program(name: &str) -> bool {
    find_on_path(name).is_some() || Path::new("/usr/sbin").join(name).is_file()
}

/// Whether `bindgen` finds the library libclang, which is installed together with the compiler's
/// headers.
fn has_libclang() -> bool {
    env::var_os("LIBCLANG_PATH").is_some()
        || Path::new("/usr/lib64/libclang.so").exists()
        || fs::read_dir("/usr/lib").is_ok_and(|directories| {
            directories
                .flatten()
                .any(|directory| directory.path().join("lib/libclang.so").exists())
        })
}

/// Finds `promtool`, or extracts it from Debian's package `prometheus`. Does not install the
/// package, because it would start a service.
pub(crate) fn prepare_promtool() -> Result<PathBuf, String> {
    let directory = target_dir()?.join("prometheus");
    let unpacked = directory.join("usr/bin/promtool");
    let found = find_on_path("promtool").or_else(|| unpacked.is_file().then(|| unpacked.clone()));
    let promtool = match found {
        Some(promtool) => promtool,
        None => {
            fs::create_dir_all(&directory)
                .map_err(|e| format!("cannot create {}: {e}", directory.display()))?;
            unpack("prometheus", &directory)?;
            unpacked
        }
    };
    print_line(&format!("promtool at {}", promtool.display()));
    Ok(promtool)
}

/// Checks the rules, and runs their tests.
pub(crate) fn test_alerts() -> Result<(), String> {
    let promtool = prepare_promtool()?;
    for words in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts.test.yml"],
    ] {
        command::run(
            Command::new(&promtool)
                .args(words)
                .current_dir(workspace().join("docs/operations")),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        const PARTS: [Part; 3] = [
            Part {
                package: "here",
                is_there: || true,
            },
            Part {
                package: "gone",
                is_there: || is_system_program("no-such-program"),
            },
            Part {
                package: "shell",
                is_there: || is_system_program("sh"),
            },
        ];
        assert_eq!(missing(&PARTS).collect::<Vec<_>>(), ["gone"]);
        assert_eq!(install_parts(&[]), Ok(()));
    }
}
