//! The scenarios. Most are the transcripts themselves; the tests here check what no transcript
//! contains.
//!
//! A transcript that is not named here is replayed on the server that most scenarios share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use curator_test::{DEFAULT_TIMEOUT, TestingServer};

use crate::{
    golden::{self, not_named_in},
    scenario::{compare_replay, replay, run},
    server::Server,
};

/// The setting that chooses a server's watch manager, and the watch manager that supports only
/// one-shot watches.
const MANAGER: &str = "zookeeper.watchManagerName";
const OPTIMIZED: &str = "org.apache.zookeeper.server.watch.WatchManagerOptimized";

#[test]
fn each_transcript_that_no_scenario_names_replays_on_the_shared_server() {
    let server = Server::common();
    let names = not_named_in("scenarios.rs");
    let fails = |name: &&String| catch_unwind(AssertUnwindSafe(|| replay(&server, name))).is_err();
    assert_eq!(names.iter().filter(fails).collect::<Vec<_>>(), [""; 0]);
}

/// Declares a test for each of these transcripts, which repeats the clients' actions on this
/// server.
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
    // Replies to four-letter words report on the whole server.
    fn words_about_watches: "words_watches";
    fn words_about_the_tree: "words_mntr";
    // All watches of the server are counted.
    fn modes_of_watches_on_one_path: "watch_modes_on_one_path";
    // On a new server, the root's stat and counter have their initial values.
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

#[test]
fn several_ephemerals_of_a_session_are_deleted_in_one_transaction() {
    run(&Server::common(), "ephemerals_events", |s| {
        let mut a = s.client("a");
        let mut b = s.client("b");
        a.call(r#"create "/p" "" persistent"#);
        for path in ["/p/1", "/p/2", "/p/3"] {
            b.call(&format!("create {path:?} \"\" ephemeral"));
            a.call(&format!("exists {path:?} watch"));
        }
        a.call(r#"getChildren "/p" watch"#);
        b.call("closeSession");
        s.note(
            "One transaction, in an order that the server chooses. The first deletion fires the watch on the children.",
        );
        a.in_any_order(4);
        a.settle();
    });
}

#[test]
fn a_request_sent_after_a_close_session_is_not_applied() {
    run(&Server::common(), "close_session_at_once", |s| {
        s.note("The handshake, the close, and a request after it, in one write.");
        let mut a = s.open("a");
        a.send(&[
            "connect timeout=30000",
            "closeSession",
            r#"create "/never" "" ephemeral"#,
        ]);
        a.next();
        a.next();
        s.note("The request after the close is refused or not read. In either case the connection is closed.");
        a.skip_to_close();
        // A refusal uses up a zxid, so this reply's zxid is not recorded.
        let found = !s.client("b").ask(r#"exists "/never""#).is_empty();
        s.line(&format!(
            "b: \"/never\" is {}",
            if found { "there" } else { "not there" }
        ));
    });
}

#[test]
fn sessions_that_ping_or_read_stay_alive_and_a_silent_one_expires() {
    let server = Server::own();
    run(&server, "expiry_and_pings", |s| {
        let start = server.zxid();
        let limit = Instant::now() + DEFAULT_TIMEOUT;
        let [mut silent, mut pings, mut reads] =
            ["silent", "pings", "reads"].map(|name| s.connect(name, "connect timeout=1500"));
        pings.call(r#"create "/e" "" ephemeral"#);
        s.note("One session is silent, one pings and one reads, all with the same timeout.");
        // ZooKeeper can close the silent connection before it applies the end of the session, which
        // is the fifth transaction.
        while !silent.is_closed_within(Duration::from_millis(100)) || server.zxid() < start + 5 {
            assert!(Instant::now() < limit, "the silent session does not expire");
            pings.ask("ping");
            reads.ask(r#"exists "/e""#);
        }
        s.note("The silent session has expired.");
        silent.next();
        pings.call(r#"exists "/e""#);
        reads.call(r#"exists "/e""#);
    });
}

/// Transcripts that differ between releases for other reasons: the permission that `exists` needs,
/// and a setting.
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

#[test]
fn four_letter_word_replies_have_the_recorded_format() {
    run(&Server::common(), "words", |s| {
        s.line(&format!("ruok: {:?}", s.word("ruok")));
        s.line("srvr:");
        for line in s.word("srvr").lines() {
            // The rest of the line varies.
            s.line(&format!(
                "  {}",
                line.split_inclusive(':').next().unwrap_or_default()
            ));
        }
        s.note("Other bytes are the length of a frame, which is too long.");
        let mut a = s.open("a");
        a.send(&["<61626364> abcd"]);
        a.wait_for_close();
    });
}

#[test]
fn the_cons_reply_has_the_recorded_fields() {
    run(&Server::common(), "words_cons", |s| {
        let mut a = s.client("a");
        a.call(r#"create "/a" "" persistent"#);
        a.call(r#"exists "/a""#);
        let cons = s.word("cons");
        let id = format!("sid=0x{:x},", s.log.borrow().sessions[0].session_id);
        let line = cons
            .lines()
            .find(|line| line.contains(&id))
            .unwrap_or_default();
        let parts: Vec<&str> = line.split(['[', ']', '(', ')', ',']).collect();
        s.line(&format!("{:?}", parts[0].split(':').next().unwrap()));
        // This is 0 while the server processes the connection, which may last a moment longer than
        // the reply takes.
        assert!(["0", "1"].contains(&parts[1]), "{line}");
        for part in &parts[2..] {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let fixed = ["recved", "lop", "to", "lcxid"].contains(&key);
            s.line(&format!("{key}={}", if fixed { value } else { "…" }));
        }
    });
}
