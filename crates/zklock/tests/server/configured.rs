//! Settings from configuration files.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use curator_recipes::InterProcessMutex;
use curator_test::{TestingServer, soon, until};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::configuration::{printed, printed_by, write};
use crate::support::{client, finished, path, proxy, signal, zklock};

#[tokio::test]
async fn the_default_file_is_read_unless_another_one_or_none_is_named() {
    let home = tempfile::tempdir().unwrap();
    let server = TestingServer::shared().await;
    let home = home.path();
    let connect = format!("connect = \"{}\"\r\n", server.connect_string());
    write(&home.join(".config/zklock/config.toml"), &connect, 0o600);
    write(
        &home.join("xdg/zklock/config.toml"),
        "connect = \"the file in XDG_CONFIG_HOME\"",
        0o600,
    );
    write(
        &home.join("named.toml"),
        "connect = \"the named file\"",
        0o600,
    );
    let none = Path::new("");
    let xdg = home.join("xdg");
    let named = home.join("named.toml");
    let tried = printed(&[
        ("HOME", Some(home)),
        ("XDG_CONFIG_HOME", None),
        ("ZKLOCK_CONFIG", None),
    ])
    .await;
    // `tree` finds no locks.
    assert_eq!(
        (tried.code, tried.error.as_str()),
        (Some(1), ""),
        "{tried:?}"
    );
    let cases = [
        (Some(xdg.as_path()), None, "the file in XDG_CONFIG_HOME"),
        (Some(&xdg), Some(named.as_path()), "the named file"),
        (Some(&xdg), Some(none), "no servers: "),
        (Some(home), Some(home), "cannot read "),
    ];
    for (xdg, named, expected) in cases {
        let tried = printed(&[
            ("HOME", Some(home)),
            ("XDG_CONFIG_HOME", xdg),
            ("ZKLOCK_CONFIG", named),
        ])
        .await;
        assert!(
            tried.code == Some(125) && tried.error.contains(expected),
            "{expected}: {tried:?}"
        );
    }
}

#[tokio::test]
async fn an_unknown_transport_is_refused_by_name() {
    let variable = "ZKLOCK_TRANSPORT";
    let pigeon = Path::new("carrier-pigeon");
    for (options, variable) in [
        ("tree --transport carrier-pigeon", None),
        ("tree", Some((variable, Some(pigeon)))),
    ] {
        let refused = printed_by(options, variable.as_slice()).await;
        assert!(
            refused.code == Some(125) && refused.error.contains("unknown variant `carrier-pigeon`"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_file_with_wrong_permissions_draws_one_warning_and_its_errors_show_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let server = TestingServer::shared().await;
    let file = directory.path().join("config.toml");
    let connect = format!("connect = \"{}\"\n", server.connect_string());
    let digest = format!("{connect}[digest]\nuser = \"u\"\npassword = \"hunter2\"\n");
    for (text, mode, warning) in [
        (&connect, 0o644, ""),
        (&digest, 0o600, ""),
        (
            &digest,
            0o644,
            "contains a password, and can be read by other users: run `chmod go-r` on it\n",
        ),
        (&connect, 0o666, "can be written by other users"),
        (&digest, 0o622, "can be written by other users"),
    ] {
        write(&file, text, mode);
        let printed = printed(&[("ZKLOCK_CONFIG", Some(&file))]).await;
        assert_eq!(printed.code, Some(1), "{mode:o}: {printed:?}");
        assert_eq!(
            printed.error.lines().count(),
            usize::from(!warning.is_empty()),
            "{mode:o}: {printed:?}"
        );
        assert!(printed.error.contains(warning), "{mode:o}: {printed:?}");
    }
    // The doctor connects several times.
    let doctor = printed_by("doctor", &[("ZKLOCK_CONFIG", Some(&file))]).await;
    assert_eq!(doctor.error.lines().count(), 1, "{doctor:?}");
    write(&file, "digest = \"u:hunter2\"", 0o600);
    let printed = printed(&[("ZKLOCK_CONFIG", Some(&file))]).await;
    assert!(
        printed.code == Some(125) && printed.error.contains("line 1: expected a table"),
        "{printed:?}"
    );
    assert!(!printed.error.contains("hunter2"), "{printed:?}");
}

async fn fifo(file: &Path) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(file)
            .status()
            .await
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn a_fifo_is_no_default_file_but_can_be_named_and_a_signal_ends_zklock_that_reads_it() {
    let home = tempfile::tempdir().unwrap();
    let server = TestingServer::shared().await;
    let default = home.path().join(".config/zklock/config.toml");
    fifo(&default).await;
    let tried = printed(&[
        ("HOME", Some(home.path())),
        ("XDG_CONFIG_HOME", None),
        ("ZKLOCK_CONFIG", None),
    ])
    .await;
    assert!(
        tried.code == Some(125) && tried.error.contains("it is not a regular file"),
        "{tried:?}"
    );
    let named = home.path().join("named");
    fifo(&named).await;
    // Starts zklock, and returns when zklock has opened the FIFO.
    let start = async || -> (Child, std::fs::File) {
        let mut run = zklock("", &format!("run --lock {}", path("fifo")), Some("exit 4"));
        let run = run.env("ZKLOCK_CONFIG", &named).spawn().unwrap();
        let named = named.clone();
        let opening = tokio::task::spawn_blocking(move || {
            std::fs::File::options().write(true).open(named).unwrap()
        });
        (run, soon(opening).await.unwrap())
    };
    let (run, mut writer) = start().await;
    writer
        .write_all(format!("connect = \"{}\"\n", server.connect_string()).as_bytes())
        .unwrap();
    drop(writer);
    let read = finished(run).await;
    assert_eq!((read.code, read.error.as_str()), (Some(4), ""));
    for sent in [Signal::TERM, Signal::INT] {
        let (run, _writer) = start().await;
        signal(&run, sent);
        let ended = soon(run.wait_with_output()).await.unwrap();
        assert_eq!(
            (ended.status.signal(), ended.stderr),
            (Some(sent.as_raw()), Vec::new())
        );
    }
}

#[tokio::test]
async fn a_quiet_run_that_does_not_get_the_lock_prints_no_outage() {
    let proxy = proxy().await;
    let lock = path("quiet-outage");
    let mutex = InterProcessMutex::non_reentrant(&client().await, &lock).unwrap();
    let _guard = mutex.acquire().await.unwrap();
    let run = |options: &str| {
        let options = format!("run --lock {lock} --wait 15s {options}");
        zklock(&proxy.connect_string(), &options, Some("true"))
            .spawn()
            .unwrap()
    };
    let quiet = run("--quiet");
    let mut other = run("");
    let contenders = async || {
        client()
            .await
            .get_children(&lock)
            .await
            .map_or(0, |children| children.len())
    };
    until(async || contenders().await == 3).await;
    proxy.refuse(true).unwrap();
    proxy.cut();
    let mut lines = BufReader::new(other.stderr.take().unwrap()).lines();
    let line = soon(lines.next_line()).await.unwrap().unwrap();
    assert!(line.starts_with("zklock: not connected: "), "{line}");
    proxy.refuse(false).unwrap();
    let line = soon(lines.next_line()).await.unwrap().unwrap();
    assert!(line.starts_with("zklock: connected again after "), "{line}");
    let quiet = finished(quiet).await;
    let other = finished(other).await;
    assert_eq!(
        (quiet.code, quiet.error.as_str(), other.code),
        (Some(121), "", Some(121))
    );
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn without_the_feature_a_configuration_with_tls_files_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    write(
        &file,
        "connect = \"127.0.0.1:1\"\n[tls]\nca = \"ca.pem\"\n",
        0o600,
    );
    let printed = printed(&[("ZKLOCK_CONFIG", Some(&file))]).await;
    assert_eq!(printed.code, Some(125), "{printed:?}");
    assert!(
        printed
            .error
            .contains("this zklock was built without the feature `tls`"),
        "{printed:?}"
    );
}
