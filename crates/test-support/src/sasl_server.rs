//! Real servers with SASL users.

use std::path::{Path, PathBuf};

use curator_test::{ServerKind, TestingServer, TestingServerBuilder};

/// The users who can authenticate to the servers with DIGEST-MD5, and their passwords.
pub const USERS: [(&str, &str); 4] = [
    ("alice", "wonderland"),
    ("bob", "bob's, \"quoted\" = \\ and ≥ 1"),
    ("carol", "пароль"),
    ("shop", "a long password"),
];

/// Writes the login configuration of a server with these users to the file `name` in the directory
/// `folder`.
pub fn write_login_configuration(folder: &str, name: &str, users: &[(&str, &str)]) -> PathBuf {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let users: String = users
        .iter()
        .map(|(user, password)| format!("\n  user_{user}=\"{}\"", quoted(password)))
        .collect();
    let text = format!(
        "Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required{users};\n}};\n"
    );
    let path = Path::new(folder).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A real server whose SASL configuration is the file `login`.
pub fn sasl_server(login: &Path) -> TestingServerBuilder {
    TestingServer::builder()
        .kind(ServerKind::Real)
        .property(
            "authProvider.sasl",
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        )
        .system_property(
            "java.security.auth.login.config",
            login.display().to_string(),
        )
}

/// The server that the tests of a program share, with the [users](USERS). Its login configuration
/// is written to the directory `folder`.
pub async fn shared_sasl_server(folder: &str) -> &'static TestingServer {
    static SHARED: tokio::sync::OnceCell<TestingServer> = tokio::sync::OnceCell::const_new();
    let start = async || {
        sasl_server(&write_login_configuration(folder, "users.jaas", &USERS))
            .start()
            .await
            .unwrap()
    };
    SHARED.get_or_init(start).await
}
