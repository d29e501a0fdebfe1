//! Lists, names and secrets that are not there, and others that are only just right.

use crate::{
    jute::Writer,
    requests::{create, exists, raw, who_am_i},
    scenario::run,
};

const CREATE: i32 = 1;
const MULTI: i32 = 14;
const ADD_AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;
const SET_WATCHES_2: i32 = 105;

/// A create with an access list of one entry.
fn create_for(path: &str, scheme: Option<&str>, id: Option<&str>) -> Writer {
    let entry = Writer::default().string(path).buffer(Some(b"")).int(1).int(31);
    entry.buffer(scheme.map(str::as_bytes)).buffer(id.map(str::as_bytes)).int(0)
}

#[test]
fn lists_that_are_null() {
    run("null_lists", |s| {
        let mut a = s.client("a");
        let watches = Writer::default().long(0).int(-1).int(-1).int(-1);
        a.call(raw(SET_WATCHES, &watches.0, "with three lists that are null"));
        let watches = Writer::default().long(0).int(0).int(0).int(0).int(-1).int(0);
        a.call(raw(SET_WATCHES_2, &watches.0, "with no persistent list"));
        let without_list = Writer::default().string("/a").buffer(Some(b"")).int(-1).int(0);
        a.call(raw(CREATE, &without_list.0, "\"/a\" with no access list"));
        let part = Writer::default().int(CREATE).bool(false).int(-1).raw(&without_list.0);
        let multi = part.int(-1).bool(true).int(-1);
        a.call(raw(MULTI, &multi.0, "of that"));
        a.call(exists("/a"));
    });
}

#[test]
fn names_that_are_null() {
    run("null_names", |s| {
        let mut a = s.client("a");
        a.call(raw(CREATE, &create_for("/a", None, Some("x")).0, "\"/a\" for a scheme that is null"));
        a.call(raw(CREATE, &create_for("/a", Some("auth"), None).0, "\"/a\" for auth, and an id that is null"));
        let nobody = Writer::default().int(0).buffer(None).buffer(Some(b"a:b"));
        a.call(raw(ADD_AUTH, &nobody.0, "with a scheme that is null"));
        a.wait_for_close();
        let mut b = s.client("b");
        let secret = Writer::default().int(0).string("digest").buffer(None);
        b.call(raw(ADD_AUTH, &secret.0, "\"digest\" with a secret that is null"));
        b.wait_for_close();
    });
}

#[test]
fn addresses_with_zeros_in_front() {
    run("acl_addresses", |s| {
        let mut a = s.client("a");
        a.call(raw(CREATE, &create_for("/a", Some("ip"), Some("127.0.0.01")).0, "\"/a\" for ip:127.0.0.01"));
        a.call(exists("/a"));
        a.call(raw(CREATE, &create_for("/b", Some("ip"), Some("127.0.0")).0, "\"/b\" for ip:127.0.0"));
        a.call(raw(CREATE, &create_for("/b", Some("ip"), Some("127.0.0.256")).0, "\"/b\" for ip:127.0.0.256"));
        a.call(who_am_i());
        a.call(create("/b"));
    });
}
