//! Several reads in one request.

use crate::{
    op::{READ, acl, open},
    requests::{create, delete, exists, get_children, get_children2, get_data, multi_read, set_acl, set_data},
    scenario::run,
};

#[test]
fn each_read_has_its_own_result() {
    run("multi_read", |s| {
        let mut a = s.client("a");
        a.call(create("/a").data("x"));
        a.call(create("/a/b").null());
        a.call(create("/a/c"));
        a.call(multi_read(&[get_data("/a"), get_children("/a"), get_data("/a/b"), get_children("/a/b")]));
        s.note("One fails, the others are answered.");
        a.call(multi_read(&[get_data("/missing"), get_data("/a"), get_children("/missing"), get_children("/a")]));
        a.call(set_acl("/a/c", &[acl("world", "anyone", READ ^ 31)]));
        a.call(multi_read(&[get_data("/a/c"), get_children("/a/c"), get_data("/a")]));
        a.call(set_acl("/a/c", &open()));
        s.note("Empty.");
        a.call(multi_read(&[]));
        s.note("With watches: they are set.");
        a.call(multi_read(&[get_data("/a").watch(), get_children("/a").watch()]));
        a.call(set_data("/a", "y"));
        a.call(create("/a/d"));
    });
}

#[test]
fn other_requests_have_no_place() {
    run("multi_read_forbidden", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        for op in [exists("/a"), get_children2("/a"), create("/b"), delete("/a"), multi_read(&[])] {
            s.line("");
            a.call(multi_read(&[get_data("/a"), op]));
        }
        s.note("Nothing was done.");
        a.call(exists("/a"));
        a.settle();
    });
}
