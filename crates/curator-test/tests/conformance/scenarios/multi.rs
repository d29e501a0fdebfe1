//! Several writes in one request.

use curator_test::TestingServer;

use crate::{
    op::{CONTAINER, EPHEMERAL, SEQUENTIAL},
    requests::{
        check, create, create_container, create_ttl, create2, delete, exists, get_children, get_children2, get_data,
        get_ephemerals, multi, set_data,
    },
    scenario::{run, run_on},
    server::Server,
};

#[test]
fn all_or_nothing() {
    run("multi", |s| {
        let mut a = s.client("a");
        s.note("One zxid for all.");
        a.call(multi(&[create("/a").data("x"), create2("/a/b"), set_data("/a", "y"), check("/a", 1), delete("/a/b")]));
        a.call(exists("/a"));
        s.note("One fails: those before it say ok, those after it RuntimeInconsistency, and nothing is done.");
        a.call(multi(&[create("/b"), delete("/missing"), create("/c"), create("/d")]));
        a.call(exists("/b"));
        s.note("Empty.");
        a.call(multi(&[]));
    });
}

#[test]
fn each_part_sees_those_before_it() {
    run("multi_in_turn", |s| {
        let mut a = s.client("a");
        s.note("Created and deleted again.");
        a.call(multi(&[create("/a"), delete("/a"), create("/a").data("second")]));
        a.call(get_data("/a"));
        s.note("A version that changes on the way.");
        a.call(multi(&[
            check("/a", 0),
            set_data("/a", "x").version(0),
            check("/a", 1),
            set_data("/a", "y").version(1),
        ]));
        a.call(multi(&[set_data("/a", "z"), check("/a", 2)]));
        a.call(get_data("/a"));
        s.note("A parent that gets children, and loses them.");
        a.call(multi(&[create("/a/b"), delete("/a")]));
        a.call(multi(&[create("/a/b"), create("/a/b/c"), delete("/a/b/c"), delete("/a/b"), delete("/a")]));
        a.call(exists("/a"));
        s.note("The same node twice.");
        a.call(multi(&[create("/a"), create("/a")]));
        a.call(exists("/a"));
    });
}

#[test]
fn modes_of_create() {
    run_on(&Server::with(TestingServer::builder()), "multi_create_modes", |s| {
        let mut a = s.client("a");
        s.note("In a multi, the flag decides what a request is: that of containers, and those of a time to live.");
        for flags in 0..=6 {
            a.call(multi(&[create(&format!("/create{flags}-")).flags(flags)]));
            a.call(multi(&[create2(&format!("/create2{flags}-")).flags(flags)]));
            a.call(multi(&[create_container(&format!("/container{flags}-")).flags(flags)]));
            a.call(multi(&[create_ttl(&format!("/ttl{flags}-"), 100_000).flags(flags)]));
        }
        s.note("No time to live where none belongs.");
        for flags in [0, 1, 4] {
            a.call(multi(&[create_ttl(&format!("/none{flags}-"), -1).flags(flags)]));
        }
        a.call(get_children("/"));
        a.call(get_ephemerals("/"));
    });
}

#[test]
fn every_way_to_create() {
    run("multi_create", |s| {
        let mut a = s.client("a");
        a.call(multi(&[
            create("/p"),
            create("/p/s-").flags(SEQUENTIAL),
            create2("/p/s-").flags(SEQUENTIAL),
            create("/p/e").flags(EPHEMERAL),
            create2("/p/c4").flags(CONTAINER),
            create_container("/p/c"),
            create_ttl("/p/t", 100_000),
        ]));
        a.call(get_children2("/p"));
        s.note("Without success, numbers are not used up.");
        a.call(multi(&[create("/p/s-").flags(SEQUENTIAL), create("/p/s-").flags(SEQUENTIAL), delete("/missing")]));
        a.call(create("/p/s-").flags(SEQUENTIAL));
        a.call(multi(&[create("/p/e/x")]));
        a.call(multi(&[create_ttl("/p/t2", -1)]));
        a.call(multi(&[create_container("/p/c2").flags(7)]));
        s.note("After a failed multi in the same write, too.");
        a.pipeline(&[
            create("/p/s-").flags(SEQUENTIAL),
            multi(&[create("/p/s-").flags(SEQUENTIAL), delete("/missing")]),
            create("/p/s-").flags(SEQUENTIAL),
            multi(&[create("/p/s-").flags(SEQUENTIAL), delete("/p/e")]),
            create("/p/s-").flags(SEQUENTIAL),
        ]);
    });
}
