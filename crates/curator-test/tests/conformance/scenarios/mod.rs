//! The scenarios. Most are the transcripts themselves; those in modules look at what no transcript has.

mod containers;
mod ephemerals;
mod expiry;
mod words;

use crate::{scenario::replay, server::Server};

/// A test for each transcript: what the clients do there is done again, on such a server.
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

transcripts! { Server::common() =>
    // Access lists, and what they forbid.
    fn lists_are_read_and_written: "acl";
    fn lists_that_are_none: "acl_invalid";
    fn permissions_of_each_request: "acl_permissions";
    fn a_version_or_a_missing_node_against_a_permission: "acl_precedence";
    fn addresses_with_zeros_in_front: "acl_addresses";
    // Who a client is.
    fn identities_are_added: "auth";
    fn what_is_no_identity: "auth_failed";
    fn a_digest_is_hidden: "acl_masked";
    fn schemes_of_a_list: "acl_schemes";
    // Creating nodes.
    fn create_answers_with_the_path: "create";
    fn modes_of_create: "create_modes";
    fn times_to_live: "create_ttl";
    fn ephemerals_have_no_children: "create_below_ephemeral";
    fn sequence_numbers: "create_sequential";
    // Reading, writing and deleting them.
    fn reads: "read";
    fn writes: "write";
    fn deletes: "delete";
    fn ephemerals_are_listed: "get_ephemerals";
    // Nodes that go with their session.
    fn ephemerals_go_with_their_session: "ephemerals";
    fn ephemerals_outlive_the_connection: "ephemerals_resume";
    fn requests_before_a_close_are_answered: "close_session";
    fn a_closed_session_is_gone: "resume_after_close";
    // The beginning of a connection.
    fn a_session_is_taken_up: "handshake_resume";
    fn a_client_shows_its_age_and_what_it_has_seen: "handshake_variants";
    fn requests_may_follow_at_once: "handshake_pipelined";
    fn a_connection_begins_with_a_handshake: "handshake_malformed";
    // Several requests in one.
    fn all_or_nothing: "multi";
    fn each_part_sees_those_before_it: "multi_in_turn";
    fn every_way_to_create: "multi_create";
    fn each_position_can_fail: "multi_positions";
    fn nothing_is_left_of_a_failure: "multi_undone";
    fn each_part_has_its_errors: "multi_errors";
    fn other_requests_have_no_place: "multi_forbidden";
    fn each_read_has_its_own_result: "multi_read";
    fn other_requests_have_no_place_among_reads: "multi_read_forbidden";
    // One-shot watches, and where events stand among replies.
    fn a_watch_fires_once: "watch_once";
    fn what_fires_which_watch: "watch_triggers";
    fn a_deleted_node_fires_each_connection_once: "watch_delete";
    fn watches_end_with_the_connection: "watch_connection";
    fn each_part_of_a_multi_fires: "watch_multi";
    fn a_closed_session_fires_for_its_ephemerals: "watch_close_session";
    fn who_may_not_read_gets_no_event: "watch_acl";
    fn events_stand_where_they_happened: "watch_order";
    fn others_see_the_event_before_the_new_state: "watch_order_of_others";
    // Watches that stay; watches that are asked for, taken off, and set again after a reconnect.
    fn a_persistent_watch_sees_a_node_and_its_children_come_and_go: "watch_persistent";
    fn a_recursive_watch_sees_all_nodes_below: "watch_recursive";
    fn watches_of_several_kinds_fire_once: "watch_kinds_together";
    fn other_modes_are_errors: "watch_modes";
    fn what_is_not_watched: "check_watches_none";
    fn which_kind_a_watch_is: "check_watches";
    fn a_watch_is_taken_off: "remove_watches";
    fn what_was_missed_fires_at_once: "set_watches";
    fn persistent_watches_are_set_again: "set_watches2";
    fn a_session_goes_on_elsewhere: "set_watches_resume";
    // Requests that a client should not send, such as nobody knows, and bytes that are none.
    fn requests_that_nobody_knows: "unknown_operations";
    fn a_check_is_part_of_a_multi: "check_outside_multi";
    fn requests_that_are_not_for_clients: "unusual_requests";
    fn a_change_of_the_ensemble: "reconfig";
    fn sasl_without_a_configuration: "sasl";
    fn xids_are_the_clients_own: "xids";
    fn a_path_that_is_null: "path_null";
    fn lists_that_are_null: "null_lists";
    fn names_that_are_null: "null_names";
    // `jute.maxbuffer`, unless it is set, is 0xf_ffff.
    fn a_frame_has_a_limit: "limit";
    fn frames_that_are_none: "malformed_frames";
    fn bodies_that_are_cut_short: "malformed_bodies";
    fn bodies_that_go_on: "malformed_long";
}

transcripts! { Server::own() =>
    // Nobody has been there: the root's stat and counter are those of the beginning.
    fn nodes_below_zookeeper: "system_nodes";
    fn paths_of_new_nodes: "path_create";
    fn paths_of_other_requests: "path_other";
    fn modes_of_create_in_a_multi: "multi_create_modes";
    // Sessions that soon expire would count in the next scenario's zxids.
    fn the_timeout_is_negotiated: "handshake_timeout";
    fn a_session_has_the_timeout_that_was_granted_last: "expiry_after_resume";
    fn a_session_without_a_connection_expires: "expiry_without_connection";
}

transcripts! { Server::with_create_counter("/a", i32::MAX - 1) =>
    fn the_last_number_is_given_again_and_again: "counter_end";
    fn a_transaction_goes_on_with_negative_numbers: "counter_end_multi";
    fn a_node_that_a_transaction_makes_anew_counts_from_zero: "counter_anew";
}

transcripts! { Server::with_create_counter("/a", -3) =>
    fn a_negative_counter_counts_up: "counter_negative";
}

transcripts! { containers::quick() =>
    fn an_empty_container_goes: "container";
    fn the_request_makes_the_container: "container_by_flag";
}

transcripts! { containers::without_ttl() =>
    fn times_to_live_can_be_turned_off: "ttl_disabled";
}
