//! The embedded server with the watches of ZooKeeper 3.8, compared with the transcripts of 3.8.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{scenario::compare_replay, server::Server};

/// The scenarios about watches. Without `watch_acl`, which differs in the permission that `exists` needs.
const ABOUT_WATCHES: [&str; 18] = [
    "check_watches",
    "check_watches_none",
    "remove_watches",
    "set_watches",
    "set_watches2",
    "set_watches_resume",
    "watch_close_session",
    "watch_connection",
    "watch_delete",
    "watch_kinds_together",
    "watch_modes",
    "watch_modes_on_one_path",
    "watch_once",
    "watch_order",
    "watch_persistent",
    "watch_recursive",
    "watch_triggers",
    "words_watches",
];

#[test]
fn the_embedded_server_matches_the_watch_transcripts_of_3_8() {
    let differs = |name: &&str| {
        let server = Server::with_watches_of_3_8();
        catch_unwind(AssertUnwindSafe(|| compare_replay(&server, name))).is_err()
    };
    assert_eq!(ABOUT_WATCHES.iter().filter(|name| differs(name)).collect::<Vec<_>>(), [&""; 0]);
}
