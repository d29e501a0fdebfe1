//! The end of the counter of creates.

use crate::{
    op::{EPHEMERAL_SEQUENTIAL, SEQUENTIAL},
    requests::{create, create2, delete, exists, get_children2, multi},
    scenario::run_on,
    server::Server,
};

#[test]
fn the_last_number_is_given_again_and_again() {
    run_on(&Server::with_create_counter("/a", i32::MAX - 1), "counter_end", |s| {
        let mut a = s.client("a");
        a.call(exists("/a"));
        a.call(create("/a/w-").flags(SEQUENTIAL));
        a.call(exists("/a"));
        s.note("The last number. It is not counted, and the parent's pzxid does not move.");
        a.call(create("/a/x-").flags(SEQUENTIAL));
        a.call(exists("/a"));
        a.call(create2("/a/y-").flags(EPHEMERAL_SEQUENTIAL));
        a.call(create("/a/plain"));
        a.call(create("/a/z-").flags(SEQUENTIAL));
        a.call(exists("/a"));
        s.note("Of names without another difference, the second is taken.");
        a.call(create("/a/x-").flags(SEQUENTIAL));
        s.note("A delete changes nothing about that.");
        a.call(delete("/a/x-2147483647"));
        a.call(create("/a/x-").flags(SEQUENTIAL));
        a.call(get_children2("/a"));
    });
}

#[test]
fn a_transaction_goes_on_with_negative_numbers() {
    run_on(&Server::with_create_counter("/a", i32::MAX - 1), "counter_end_multi", |s| {
        let mut a = s.client("a");
        let creates = |name: &str| vec![create(&format!("/a/{name}-")).flags(SEQUENTIAL); 4];
        a.call(multi(&creates("x")));
        a.call(exists("/a"));
        s.note("Each from the last number that is kept.");
        a.call(multi(&creates("y")));
        a.call(multi(&[create("/a/z-").flags(SEQUENTIAL), delete("/missing")]));
        a.call(create("/a/z-").flags(SEQUENTIAL));
        a.call(get_children2("/a"));
    });
}

#[test]
fn a_negative_counter_counts_up() {
    run_on(&Server::with_create_counter("/a", -3), "counter_negative", |s| {
        let mut a = s.client("a");
        for _ in 0..5 {
            a.call(create("/a/x-").flags(SEQUENTIAL));
        }
        a.call(exists("/a"));
    });
}
