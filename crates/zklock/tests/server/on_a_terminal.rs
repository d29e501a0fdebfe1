//! The program on a terminal.

use curator_test::TestingServer;

use crate::pseudo_terminal::{CTRL_C, PseudoTerminal};
use crate::support::{Notes, finished, path, zklock};

#[tokio::test]
async fn ctrl_c_ends_the_command() {
    let (lock, notes, server) = (path("ctrl-c"), Notes::new(), TestingServer::shared().await);
    let terminal = PseudoTerminal::new();
    let script = format!("echo $$ > {}; sleep 1000", notes.file("child").display());
    let child = terminal.spawn(&zklock(&server.connect_string(), &format!("run --lock {lock}"), Some(&script)));
    notes.process("child").await;
    terminal.type_text(CTRL_C);
    assert_eq!(finished(child).await.code, Some(130), "{}", terminal.shown());
}
