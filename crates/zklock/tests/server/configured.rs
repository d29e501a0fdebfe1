//! Settings from configuration files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use curator_test::TestingServer;

use crate::support::{Printed, finished, path, zklock};

fn write(file: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// `zklock tree` with these variables and without servers in the environment; a `None` removes the variable.
async fn printed(variables: &[(&str, Option<&Path>)]) -> Printed {
    printed_by(&format!("tree {}", path("configured")), variables).await
}

async fn printed_by(options: &str, variables: &[(&str, Option<&Path>)]) -> Printed {
    let mut command = zklock("", options, None);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finished(command.spawn().unwrap()).await
}

#[tokio::test]
async fn the_default_file_is_read_unless_another_one_or_none_is_named() {
    let (home, server) = (tempfile::tempdir().unwrap(), TestingServer::shared().await);
    let home = home.path();
    let connect = format!("connect = \"{}\"\r\n", server.connect_string());
    write(&home.join(".config/zklock/config.toml"), &connect, 0o600);
    write(&home.join("xdg/zklock/config.toml"), "connect = \"the file in XDG_CONFIG_HOME\"", 0o600);
    write(&home.join("named.toml"), "connect = \"the named file\"", 0o600);
    let (none, xdg, named) = (Path::new(""), home.join("xdg"), home.join("named.toml"));
    let tried = printed(&[("HOME", Some(home)), ("XDG_CONFIG_HOME", None), ("ZKLOCK_CONFIG", None)]).await;
    // There are no locks.
    assert_eq!((tried.code, tried.error.as_str()), (Some(1), ""), "{tried:?}");
    let cases = [
        (Some(xdg.as_path()), None, "the file in XDG_CONFIG_HOME"),
        (Some(&xdg), Some(named.as_path()), "the named file"),
        (Some(&xdg), Some(none), "no servers: "),
        (Some(home), Some(home), "cannot read "),
    ];
    for (xdg, named, expected) in cases {
        let tried = printed(&[("HOME", Some(home)), ("XDG_CONFIG_HOME", xdg), ("ZKLOCK_CONFIG", named)]).await;
        assert!(tried.code == Some(125) && tried.error.contains(expected), "{expected}: {tried:?}");
    }
}

#[tokio::test]
async fn a_file_with_wrong_permissions_draws_one_warning_and_its_errors_show_no_secret() {
    let (directory, server) = (tempfile::tempdir().unwrap(), TestingServer::shared().await);
    let file = directory.path().join("config.toml");
    let connect = format!("connect = \"{}\"\n", server.connect_string());
    let digest = format!("{connect}[digest]\nuser = \"u\"\npassword = \"hunter2\"\n");
    for (text, mode, warning) in [
        (&connect, 0o644, ""),
        (&digest, 0o600, ""),
        (&digest, 0o644, "contains a password, and can be read by other users: run `chmod go-r` on it\n"),
        (&connect, 0o666, "can be written by other users"),
        (&digest, 0o622, "can be written by other users"),
    ] {
        write(&file, text, mode);
        let printed = printed(&[("ZKLOCK_CONFIG", Some(&file))]).await;
        assert_eq!(printed.code, Some(1), "{mode:o}: {printed:?}");
        assert_eq!(printed.error.lines().count(), usize::from(!warning.is_empty()), "{mode:o}: {printed:?}");
        assert!(printed.error.contains(warning), "{mode:o}: {printed:?}");
    }
    // The doctor connects several times.
    let doctor = printed_by("doctor", &[("ZKLOCK_CONFIG", Some(&file))]).await;
    assert_eq!(doctor.error.lines().count(), 1, "{doctor:?}");
    write(&file, "digest = \"u:hunter2\"", 0o600);
    let printed = printed(&[("ZKLOCK_CONFIG", Some(&file))]).await;
    assert!(printed.code == Some(125) && printed.error.contains("line 1: expected a table"), "{printed:?}");
    assert!(!printed.error.contains("hunter2"), "{printed:?}");
}
