//! The scenarios. Most are the transcripts themselves; the modules check what no transcript
//! contains.
//!
//! A transcript that is not named here is replayed on the server that most scenarios share.

mod ephemerals;
mod expiry;
mod watches_of_3_8;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};

use curator_test::TestingServer;

use crate::{golden::not_named_in, scenario::replay, server::Server};

/// The setting that chooses a server's watch manager, and the one that supports only one-shot
/// watches.
const MANAGER: &str = "zookeeper.watchManagerName";
const OPTIMIZED: &str = "org.apache.zookeeper.server.watch.WatchManagerOptimized";

#[test]
fn each_transcript_that_no_scenario_module_names_replays_on_the_shared_server() {
    let (server, names) = (Server::common(), not_named_in("scenarios"));
    let fails = |name: &&String| catch_unwind(AssertUnwindSafe(|| replay(&server, name))).is_err();
    assert_eq!(names.iter().filter(fails).collect::<Vec<_>>(), [""; 0]);
}

/// Declares a test for each of these transcripts: repeats the clients' actions on a server of this
/// kind.
macro_rules! transcripts {
    ($server:expr => $(fn $test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                replay(&$server, $name);
            }
        )*
    };
}

transcripts! { Server::own() =>
    // Replies to four-letter words.
    fn words_about_watches: "words_watches";
    fn words_about_the_tree: "words_mntr";
    // All watches of the server are counted.
    fn modes_of_watches_on_one_path: "watch_modes_on_one_path";
    // A new server: the root's stat and counter have their initial values.
    fn nodes_below_zookeeper: "system_nodes";
    fn paths_of_new_nodes: "path_create";
    fn paths_of_other_requests: "path_other";
    fn modes_of_create_in_a_multi: "multi_create_modes";
    // Sessions that expire soon would change the zxids of the next scenario.
    fn a_silent_session_expires: "expiry";
    fn the_timeout_is_negotiated: "handshake_timeout";
    fn a_session_has_the_timeout_that_was_granted_last: "expiry_after_resume";
    fn a_session_without_a_connection_expires: "expiry_without_connection";
}

transcripts! { Server::with_counters() =>
    fn at_its_end_the_counter_repeats_its_last_number: "counter_end";
    fn at_the_end_of_the_counter_a_transaction_continues_with_negative_numbers: "counter_end_multi";
    fn a_node_that_a_transaction_recreates_counts_from_zero: "counter_anew";
    fn a_negative_counter_counts_up: "counter_negative";
}

transcripts! { Server::with_frequent_checks() =>
    fn an_empty_container_is_removed: "container";
    fn a_container_is_created_by_its_request_or_in_a_multi_by_the_flag: "container_by_flag";
    fn a_node_is_removed_after_its_time_to_live: "ttl";
    fn a_write_restarts_the_time_to_live: "ttl_renewed";
}

transcripts! { Server::with(TestingServer::builder().system_property(MANAGER, OPTIMIZED)) =>
    fn a_watch_manager_without_persistent_watches: "watch_manager_optimized";
}

transcripts! { Server::with(TestingServer::builder().property("extendedTypesEnabled", "false")) =>
    fn times_to_live_can_be_turned_off: "ttl_disabled";
}
