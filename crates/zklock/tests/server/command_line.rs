//! The command line: options, times, the help of a shell, the manual page, `--verbose`.

use std::collections::BTreeSet;

use curator_test::{TestingServer, soon, until};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Printed, client, finished, path, printed, signal, zklock};

/// Runs zklock with these options and then these words, which may contain blanks.
async fn printed_words(options: &str, words: &[&str]) -> Printed {
    let server = TestingServer::shared().await;
    finished(
        zklock(&server.connect_string(), options, None)
            .args(words)
            .spawn()
            .unwrap(),
    )
    .await
}

#[tokio::test]
async fn options_after_the_first_word_belong_to_the_command() {
    let lock = path("words");
    for (words, out) in [
        (&["echo", "hi"][..], "hi\n"),
        (&["--", "echo", "hi"], "hi\n"),
        (&["echo", "--", "hi"], "-- hi\n"),
        (
            &[
                "printf", "[%s]", "-v", "--lock", "--help", "a  b", "", "it's", "$HOME",
            ],
            "[-v][--lock][--help][a  b][][it's][$HOME]",
        ),
        (
            &["--", "printf", "[%s]", "--no-wait", "--"],
            "[--no-wait][--]",
        ),
        (&["env", "-i", "X=1", "env"], "X=1\n"),
    ] {
        let printed =
            printed_words(&format!("run --lock {lock} --connect-timeout 60s"), words).await;
        assert_eq!(
            (printed.code, printed.out.as_str(), printed.error.as_str()),
            (Some(0), out, ""),
            "{words:?}"
        );
    }
    // After `--`, the first word is a command, even if it looks like an option.
    for command in ["-v", "--help", ""] {
        let printed = printed_words(&format!("run --lock {lock} --"), &[command]).await;
        assert_eq!(
            (printed.code, printed.out.as_str()),
            (Some(127), ""),
            "{command}: {printed:?}"
        );
        assert!(
            printed.error.starts_with("zklock: cannot run "),
            "{command}: {printed:?}"
        );
    }
}

#[tokio::test]
async fn a_mistake_in_the_options_is_named_with_what_was_probably_meant() {
    for (words, expected) in [
        ("run --lock /x", "<COMMAND>"),
        ("run --lock /x --", "<COMMAND>"),
        ("run true", "--lock <PATH>"),
        (
            "run --lock /x --no-wiat true",
            "a similar argument exists: '--no-wait'",
        ),
        (
            "run --lock /x --at-last 5m true",
            "a similar argument exists: '--at-least'",
        ),
        ("docter", "a similar subcommand exists: 'doctor'"),
        // Internal subcommands are not suggested.
        ("gaurd /x", "unrecognized subcommand 'gaurd'\n\nUsage:"),
        (
            "run --lock /x --wait -1s true",
            "invalid value '-1s' for '--wait <TIME>': a time is not negative",
        ),
        (
            "run --lock /x -w soon true",
            "invalid value 'soon' for '--wait <TIME>': expected a time such as 30",
        ),
        (
            "run --lock /x --at-least 5x true",
            "invalid value '5x' for '--at-least <TIME>': expected a time such as 30",
        ),
        (
            "run --lock /x --grace -3 true",
            "invalid value '-3' for '--grace <TIME>': a time is not negative",
        ),
        (
            "ls /x --session-timeout x",
            "invalid value 'x' for '--session-timeout <TIME>'",
        ),
        (
            "ls /x --connect-timeout -1",
            "invalid value '-1' for '--connect-timeout <TIME>'",
        ),
        (
            "run --lock /x --wait 600000000000y true",
            "the number is too large",
        ),
    ] {
        let printed = printed(words, None).await;
        assert_eq!(
            (printed.code, printed.out.as_str()),
            (Some(125), ""),
            "{words}: {printed:?}"
        );
        assert!(
            printed.error.starts_with("error: ") && printed.error.contains(expected),
            "{words}: {printed:?}"
        );
    }
}

#[tokio::test]
async fn short_options_mean_what_they_mean_in_flock() {
    let lock = path("short");
    let server = TestingServer::shared().await;
    let holder = zklock(
        &server.connect_string(),
        &format!("run -s -l {lock} -v"),
        Some("sleep 1000"),
    );
    let (mut holder, _) = until_printed(holder, "started").await;
    for (options, code) in [
        ("-s -n", 0),
        ("-x -n", 121),
        ("-x -w 0", 121),
        ("-x -w 0.2", 121),
        ("-x -w 0.2s -q", 121),
    ] {
        let printed = printed(
            &format!("run --connect-timeout 60s -l {lock} {options} true"),
            None,
        )
        .await;
        assert_eq!(printed.code, Some(code), "{options}: {printed:?}");
        assert_eq!(
            printed.error.is_empty(),
            code == 0 || options.ends_with("-q"),
            "{options}: {printed:?}"
        );
    }
    signal(&holder, Signal::TERM);
    assert_eq!(soon(holder.wait()).await.unwrap().code(), Some(143));
}

/// Starts zklock, and reads its messages until one contains `text`. Also returns the messages.
async fn until_printed(mut command: Command, text: &str) -> (tokio::process::Child, String) {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let mut all = String::new();
    while !all.contains(text) {
        all += &soon(lines.next_line())
            .await
            .unwrap()
            .unwrap_or_else(|| panic!("no {text:?}: {all}"));
        all += "\n";
    }
    (child, all)
}

#[tokio::test]
async fn the_largest_times_mean_for_ever() {
    let lock = path("largest");
    let server = TestingServer::shared().await;
    for time in [
        u64::MAX.to_string(),
        format!("{}s", u64::MAX),
        "584542046090y".to_owned(),
    ] {
        for options in ["--wait", "--connect-timeout"].map(|option| format!("{option} {time}")) {
            let printed = printed(&format!("run --lock {lock} {options} true"), None).await;
            assert_eq!(
                (printed.code, printed.error.as_str()),
                (Some(0), ""),
                "{options}"
            );
        }
        for (option, error) in [
            ("--grace", "is too long"),
            ("--session-timeout", "invalid session timeout "),
        ] {
            let printed = printed(&format!("run --lock {lock} {option} {time} true"), None).await;
            assert_eq!(printed.code, Some(125), "{printed:?}");
            assert!(printed.error.contains(error), "{printed:?}");
        }
        let options = format!("run --lock {lock} --at-least {time} -v -- sh -c");
        let mut command = zklock(&server.connect_string(), &options, None);
        command.arg("exit 4");
        let (mut child, _) = until_printed(command, "because of --at-least").await;
        signal(&child, Signal::TERM);
        assert_eq!(soon(child.wait()).await.unwrap().code(), Some(4), "{time}");
    }
}

#[tokio::test]
async fn a_request_or_a_loss_after_the_command_has_ended_does_not_change_its_exit_code() {
    let server = TestingServer::shared().await;
    let client = client().await;
    for (name, message) in [
        ("request", "is released before the end of --at-least"),
        (
            "loss",
            "is lost before the end of --at-least, after the command has ended: ",
        ),
    ] {
        let lock = path(name);
        let options = format!("run --lock {lock} --at-least 1h -v");
        let (child, _) = until_printed(
            zklock(&server.connect_string(), &options, Some("exit 4")),
            "because of --at-least",
        )
        .await;
        if name == "loss" {
            for node in client.get_children(&lock).await.unwrap() {
                client
                    .delete()
                    .for_path(format!("{lock}/{node}"))
                    .await
                    .unwrap();
            }
        } else {
            assert_eq!(printed(&format!("revoke {lock}"), None).await.code, Some(0));
        }
        let printed = finished(child).await;
        assert_eq!(printed.code, Some(4), "{name}: {printed:?}");
        assert!(printed.error.contains(message), "{name}: {printed:?}");
        until(async || {
            client
                .get_children(&lock)
                .await
                .map_or(true, |children| children.is_empty())
        })
        .await;
    }
}

#[tokio::test]
async fn verbose_prints_each_step_with_its_time() {
    let lock = path("verbose");
    let server = TestingServer::shared().await;
    let printed = printed(&format!("run --lock {lock} --verbose"), Some("exit 3")).await;
    assert_eq!(
        (printed.code, printed.out.as_str()),
        (Some(3), ""),
        "{printed:?}"
    );
    let mut steps = printed.error.lines().map(|line| {
        let line = line
            .strip_prefix("zklock: ")
            .unwrap_or_else(|| panic!("{printed:?}"));
        let (time, step) = line.split_once(' ').unwrap();
        assert!(
            time.len() == "2026-01-02T03:04:05.678Z".len() && time.ends_with('Z'),
            "{line}"
        );
        step
    });
    for expected in [
        format!("connecting to {}", server.connect_string()),
        format!("connected to {}: session 0x", server.connect_string()),
        format!("waiting for {lock}"),
        format!("acquired {lock}, token "),
        "started sh as process ".to_owned(),
        "the command has ended: exit status: 3".to_owned(),
        format!("released {lock}"),
    ] {
        let step = steps
            .next()
            .unwrap_or_else(|| panic!("no {expected:?}: {printed:?}"));
        assert!(step.starts_with(&expected), "{step:?}, not {expected:?}");
    }
    assert_eq!(steps.next(), None);
    // With `-v`, the message of a failure begins with the time.
    let failure = crate::support::printed("ls relative -v", None).await.error;
    assert!(failure.lines().last().unwrap().contains("Z "), "{failure}");
}

/// The names of the subcommands and options that a help shows.
fn names_in(help: &str) -> BTreeSet<String> {
    help.split(|c: char| !(c.is_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn the_manual_page_names_each_option_and_is_well_formed() {
    let page = printed("man", None).await;
    assert_eq!((page.code, page.error.as_str()), (Some(0), ""));
    let plain = page
        .out
        .replace("\\-", "-")
        .replace("\\fB", "")
        .replace("\\fR", "")
        .replace("\\fI", "");
    for subcommand in [
        "",
        "run",
        "ls",
        "tree",
        "revoke",
        "break",
        "doctor",
        "completions",
        "man",
    ] {
        let help = printed(&format!("{subcommand} --help"), None).await.out;
        for option in names_in(&help) {
            assert!(plain.contains(&option), "{subcommand} {option}");
        }
        assert!(
            plain.contains(&format!("zklock {subcommand}")),
            "{subcommand}"
        );
    }
    for internal in ["guard", "gate"] {
        assert!(
            !plain
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == internal),
            "{internal}"
        );
    }
    assert!(
        plain.contains("the ZOOKEEPER_CONNECT environment variable"),
        "{plain}"
    );
    // Lines keep their columns, for example in the table of exit codes.
    assert!(
        plain.contains("\n  121  the lock was not acquired in time"),
        "{plain}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &page.out).unwrap();
    for (formatter, options) in [
        ("groff", &["-man", "-ww", "-Tutf8", "-z"][..]),
        ("mandoc", &["-Tlint", "-Wwarning"]),
    ] {
        let Ok(run) = Command::new(formatter)
            .args(options)
            .arg(file.path())
            .output()
            .await
        else {
            continue;
        };
        let complaints = [run.stdout, run.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&complaints), "", "{formatter}");
    }
}

#[tokio::test]
async fn each_shell_has_completions_without_the_internal_subcommands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = printed(&format!("completions {shell}"), None).await;
        assert_eq!(
            (printed.code, printed.error.as_str()),
            (Some(0), ""),
            "{shell}"
        );
        assert!(
            printed.out.contains("at-least") && !printed.out.contains("guard"),
            "{shell}: {printed:?}"
        );
        // Commands and their arguments are completed after `run`.
        assert!(
            shell != "zsh" || printed.out.contains("_cmdambivalent"),
            "{printed:?}"
        );
    }
    let completions = printed("completions bash", None).await.out;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &completions).unwrap();
    let checked = Command::new("bash")
        .arg("-n")
        .arg(file.path())
        .output()
        .await
        .unwrap();
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );
}
