//! The nodes that every server has.

use curator_test::TestingServer;

use crate::{
    op::{EPHEMERAL, open},
    requests::{
        create, create2, delete, exists, get_acl, get_all_children_number, get_children, get_data, set_acl, set_data,
    },
    scenario::run_on,
    server::Server,
};

#[test]
fn nodes_below_zookeeper() {
    // Nobody has been there: the root's stat is that of the beginning.
    run_on(&Server::with(TestingServer::builder()), "system_nodes", |s| {
        let mut a = s.client("a");
        for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
            a.call(exists(path));
            a.call(get_acl(path));
            a.call(get_children(path));
        }
        a.call(get_data("/zookeeper"));
        a.call(get_data("/zookeeper/quota"));
        a.call(get_data("/zookeeper/config"));
        a.call(get_all_children_number("/zookeeper"));
        s.note("They stay.");
        a.call(delete("/zookeeper"));
        a.call(delete("/zookeeper/quota"));
        a.call(delete("/zookeeper/config"));
        s.note("New ones beside them, and writes.");
        a.call(create("/zookeeper/a"));
        a.call(create("/zookeeper/e").flags(EPHEMERAL));
        a.call(create2("/zookeeper"));
        a.call(create("/zookeeper/config/a"));
        a.call(set_data("/zookeeper/config", "x"));
        a.call(set_acl("/zookeeper/config", &open()));
        a.call(create("/zookeeper/quota/a"));
        a.call(delete("/zookeeper/quota/a"));
        a.call(delete("/zookeeper/a"));
        a.call(delete("/zookeeper/e"));
        s.note("The root.");
        a.call(get_all_children_number("/"));
        a.call(create("/a"));
        a.call(exists("/"));
        a.call(set_data("/", "x"));
        a.call(set_acl("/", &open()));
        a.call(delete("/"));
        a.call(exists("/"));
    });
}
