//! Files with keys.

use curator_test::TestingCa;

use crate::configuration::{printed, write};

#[tokio::test]
async fn a_key_that_others_can_read_draws_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let ca = TestingCa::new("keys").unwrap();
    let file = |name: &str| directory.path().join(name);
    let issued = ca.issue(&["client"]).unwrap();
    write(&file("ca.pem"), ca.pem(), 0o644);
    write(&file("client.pem"), &issued.certificate_pem, 0o644);
    let names = ["ca.pem", "client.pem", "client.key"].map(|name| file(name).display().to_string());
    let [ca, certificate, key] = &names;
    let text = format!(
        "connect = \"\"\n[tls]\nca = \"{ca}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"
    );
    write(&file("config.toml"), &text, 0o600);
    for (mode, is_warned) in [(0o600, false), (0o644, true)] {
        write(&file("client.key"), &issued.key_pem, mode);
        // The connect string is invalid, so the failure is the last line.
        let printed = printed(&[("ZKLOCK_CONFIG", Some(&file("config.toml")))]).await;
        let warning = format!(
            "zklock: warning: {key} is a key, and can be read by other users: run `chmod go-r` on it\n"
        );
        assert_eq!(
            (printed.code, printed.error.contains(&warning)),
            (Some(125), is_warned),
            "{printed:?}"
        );
        assert_eq!(
            printed.error.lines().count(),
            1 + usize::from(is_warned),
            "{printed:?}"
        );
    }
}
