//! Makes sure that there is what the feature `sasl-gssapi` and its tests need.

use std::{env, fs, path::Path};

use crate::{debian, distribution::find_on_path, say};

/// Something that the feature or its tests need.
struct Part {
    /// Debian's package.
    package: &'static str,
    is_there: fn() -> bool,
}

/// What building needs: the Kerberos library, and what makes its interface out of its header.
const TO_BUILD: [Part; 2] = [
    Part { package: "libkrb5-dev", is_there: || find_on_path("krb5-config").is_some() },
    Part { package: "libclang-dev", is_there: has_libclang },
];

/// What the tests need: a key distribution centre of their own, and a program that gets tickets.
const TO_TEST: [Part; 3] = [
    Part { package: "krb5-kdc", is_there: || is_system_program("krb5kdc") },
    Part { package: "krb5-admin-server", is_there: || is_system_program("kadmin.local") },
    Part { package: "krb5-user", is_there: || is_system_program("kinit") },
];

/// Finds what the feature needs to be built, or installs it.
pub(crate) fn prepare_build() -> Result<(), String> {
    install(&missing(&TO_BUILD).collect::<Vec<_>>())?;
    say("the feature sasl-gssapi can be built");
    Ok(())
}

/// Finds what the tests need too. It is installed where `ci` says that the machine is for that: the packages of a key
/// distribution centre are services, which nobody wants to find on a machine of their own.
pub(crate) fn prepare(ci: bool) -> Result<(), String> {
    let wanted: Vec<_> = missing(&TO_BUILD).chain(missing(&TO_TEST)).collect();
    if ci || wanted.is_empty() { install(&wanted) } else { Err(format!("there is no {}", wanted.join(", no "))) }
}

/// The packages of the parts that are not there.
fn missing(parts: &'static [Part]) -> impl Iterator<Item = &'static str> {
    parts.iter().filter(|part| !(part.is_there)()).map(|part| part.package)
}

fn install(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(", no ");
    debian::install_all(packages).map_err(|e| format!("there is no {names}, and it could not be installed: {e}"))
}

/// Whether there is such a program, perhaps where those for administrators are.
fn is_system_program(name: &str) -> bool {
    find_on_path(name).is_some() || Path::new("/usr/sbin").join(name).is_file()
}

/// Whether `bindgen` finds the library, and with it the compiler's own headers.
fn has_libclang() -> bool {
    let has_library = |directory: fs::DirEntry| directory.path().join("lib/libclang.so").exists();
    env::var_os("LIBCLANG_PATH").is_some()
        || Path::new("/usr/lib64/libclang.so").exists()
        || fs::read_dir("/usr/lib").is_ok_and(|directories| directories.flatten().any(has_library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_by_its_package() {
        const PARTS: [Part; 3] = [
            Part { package: "here", is_there: || true },
            Part { package: "gone", is_there: || is_system_program("no-such-program") },
            Part { package: "shell", is_there: || is_system_program("sh") },
        ];
        assert_eq!(missing(&PARTS).collect::<Vec<_>>(), ["gone"]);
        assert_eq!(install(&[]), Ok(()));
    }
}
