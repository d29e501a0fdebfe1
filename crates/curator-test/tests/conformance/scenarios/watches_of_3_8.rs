//! The embedded server with the watches of ZooKeeper 3.8, compared with the transcripts of 3.8.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{golden, scenario::compare_replay, server::Server};

/// These differ in the permission that `exists` needs, and in a setting of their own.
const OTHERS: [&str; 2] = ["watch_acl", "watch_manager_optimized"];

#[test]
fn the_embedded_server_matches_the_watch_transcripts_of_3_8() {
    let differs = |name: &String| {
        let server = Server::with_watches_of_3_8();
        catch_unwind(AssertUnwindSafe(|| compare_replay(&server, name))).is_err()
    };
    let about_watches = golden::all()
        .into_iter()
        .filter(|name| name.contains("watch") && !OTHERS.contains(&&**name));
    assert_eq!(about_watches.filter(differs).collect::<Vec<_>>(), [""; 0]);
}
