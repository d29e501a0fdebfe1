//! Installs the prerequisites of the feature `sasl-gssapi` and of its tests.

use std::{env, fs, path::Path};

use crate::{debian, distribution::find_on_path, print_line};

/// A prerequisite of the feature or of its tests.
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
pub(crate) fn prepare_build() -> Result<(), String> {
    install(&missing(&TO_BUILD).collect::<Vec<_>>())?;
    print_line("the feature sasl-gssapi can be built");
    Ok(())
}

/// Finds the prerequisites of the build and of the tests. Installs missing ones only if `ci` is
/// set, as the packages of a key distribution centre start services, which should not run on a
/// developer's machine.
pub(crate) fn prepare(ci: bool) -> Result<(), String> {
    let missing: Vec<_> = missing(&TO_BUILD).chain(missing(&TO_TEST)).collect();
    if ci || missing.is_empty() {
        install(&missing)
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

fn install(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(", ");
    debian::install_all(packages).map_err(|e| format!("{names} could not be installed: {e}"))
}

/// Whether this program exists, in `PATH` or in the directories for administrators.
fn is_system_program(name: &str) -> bool {
    find_on_path(name).is_some() || Path::new("/usr/sbin").join(name).is_file()
}

/// Whether `bindgen` finds the library libclang, next to which the compiler's headers are
/// installed.
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
        assert_eq!(install(&[]), Ok(()));
    }
}
