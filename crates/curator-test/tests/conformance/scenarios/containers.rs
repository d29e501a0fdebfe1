//! Nodes that the server deletes when nobody needs them.

use std::time::{Duration, Instant};

use curator_test::TestingServer;

use crate::{
    op::CONTAINER,
    requests::{create, create_container, create_ttl, create2, delete, exists, get_children, multi, set_data},
    scenario::run_on,
    server::Server,
};

/// As often as a busy machine can bear: a real server that is asked for a deletion once more before it has carried the first
/// one out counts another transaction.
fn quick() -> Server {
    Server::with(TestingServer::builder().container_check_interval(Duration::from_millis(400)))
}

#[test]
fn an_empty_container_goes() {
    run_on(&quick(), "container", |s| {
        let mut a = s.client("a");
        a.call(create_container("/new"));
        a.call(create_container("/c"));
        a.call(create("/c/a"));
        a.call(exists("/c").watch());
        a.call(get_children("/c").watch());
        s.note("With its last child it may go, and the server deletes it. That is a transaction.");
        a.call(delete("/c/a"));
        a.next();
        a.call(exists("/c"));
        s.note("A container that never had a child stays.");
        a.call(exists("/new"));
    });
}

#[test]
fn the_request_makes_the_container() {
    run_on(&quick(), "container_by_flag", |s| {
        let mut a = s.client("a");
        s.note("By itself, only createContainer makes one, whatever the flag.");
        a.call(create("/create").flags(CONTAINER));
        a.call(create2("/create2").flags(CONTAINER));
        a.call(create_container("/container").flags(0));
        s.note("In a multi, the flag does.");
        a.call(multi(&[create2("/multi").flags(CONTAINER), create_container("/multi_container")]));
        a.call(create_container("/last"));
        for path in ["/create", "/create2", "/container", "/multi", "/multi_container", "/last"] {
            a.call(create(&format!("{path}/a")));
        }
        s.note("Those that are none stay.");
        a.call(delete("/create/a"));
        a.call(delete("/create2/a"));
        s.note("Those that are go, one after the other. By then, the former have been looked at for sure.");
        for path in ["/container", "/multi", "/multi_container", "/last"] {
            a.call(exists(path).watch());
            a.call(delete(&format!("{path}/a")));
            a.next();
        }
        a.call(get_children("/"));
    });
}

#[test]
fn times_to_live_can_be_turned_off() {
    let server = Server::with(TestingServer::builder().property("extendedTypesEnabled", "false"));
    run_on(&server, "ttl_disabled", |s| {
        let mut a = s.client("a");
        a.call(create_ttl("/t", 1_000_000));
        a.call(create_ttl("/t", -1));
        a.call(multi(&[create_ttl("/t", 1_000_000)]));
        s.note("Containers are always there.");
        a.call(create_container("/c"));
    });
}

#[test]
fn a_write_lengthens_a_life() {
    run_on(&quick(), "ttl_renewed", |s| {
        let mut a = s.client("a");
        a.call(create_ttl("/renewed", 1_000));
        a.call(create_ttl("/other", 1_000));
        a.call(create_ttl("/clock", 500));
        a.call(exists("/other").watch());
        a.call(exists("/clock").watch());
        s.note("Half of it is over.");
        a.next();
        let written = Instant::now();
        a.call(set_data("/renewed", "x"));
        a.call(exists("/renewed").watch());
        s.note("So the other one goes first.");
        a.next();
        a.next();
        s.line(&format!("a whole life has passed since the write: {}", written.elapsed() >= Duration::from_secs(1)));
    });
}

#[test]
fn a_time_to_live_ends() {
    run_on(&quick(), "ttl", |s| {
        let mut a = s.client("a");
        a.call(create_ttl("/parent", 1_000));
        a.call(create("/parent/c"));
        let created = Instant::now();
        a.call(create_ttl("/t", 1_100));
        a.call(exists("/t").watch());
        s.note("It goes by itself, and not too early.");
        a.next();
        s.line(&format!("its time is over: {}", created.elapsed() >= Duration::from_millis(1_100)));
        s.note("One with children stays longer than it should, until they go.");
        a.call(exists("/parent").watch());
        a.call(delete("/parent/c"));
        a.next();
        a.call(exists("/parent"));
    });
}
