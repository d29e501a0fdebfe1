//! Who a client is.

use super::access::{BOB, CLEANER};
use crate::{
    op::{ADMIN, ALL, READ, acl, open},
    requests::{auth, close_session, create, exists, get_acl, get_data, set_acl, set_data, who_am_i},
    scenario::run,
};

#[test]
fn identities_are_added() {
    run("auth", |s| {
        let (mut a, session) = s.session("a", 30_000);
        a.call(who_am_i());
        s.note("The reply to auth has zxid 0. A name is told, a password is not.");
        a.call(auth("digest", "bob:builder"));
        a.call(who_am_i());
        s.note("The scheme auth stands for it, whatever its id. The address is no identity in this sense.");
        a.call(create("/a").acl(vec![acl("auth", "", ALL)]));
        a.call(get_acl("/a"));
        a.call(create("/b").acl(vec![acl("auth", "ignored", READ), acl("world", "anyone", ADMIN)]));
        a.call(get_acl("/b"));
        s.note("Two identities; one that is added twice is there once.");
        a.call(auth("digest", "eve:apple"));
        a.call(auth("digest", "bob:builder"));
        a.call(who_am_i());
        s.note("The scheme auth stands for all of them.");
        a.call(create("/both").acl(vec![acl("auth", "", ALL)]));
        let mut eve = s.client("eve");
        eve.call(auth("digest", "eve:apple"));
        eve.call(get_data("/both"));
        s.note("An identity belongs to the connection, not to the session.");
        let mut b = s.resume("b", &session);
        b.call(who_am_i());
        b.call(get_data("/a"));
        b.call(auth("digest", "bob:builder"));
        b.call(get_data("/a"));
    });
}

#[test]
fn what_is_no_identity() {
    run("auth_failed", |s| {
        s.note("An unknown scheme: told so, and the connection is closed.");
        let mut a = s.client("a");
        a.call(auth("unknown", "bob:builder"));
        a.wait_for_close();
        s.note("world and auth are no schemes to add.");
        for scheme in ["world", "auth", "", "Digest"] {
            let mut a = s.client("a");
            a.call(auth(scheme, "anyone"));
            a.wait_for_close();
        }
        s.note("ip says who one is anyway.");
        let mut b = s.client("b");
        b.call(auth("ip", "10.0.0.1"));
        b.call(who_am_i());
        s.note("digest takes any text.");
        for (index, id) in ["nocolon", "", "a:b:c", ":", "bob:"].iter().enumerate() {
            let mut c = s.client("c");
            c.call(auth("digest", id));
            c.call(who_am_i());
            c.call(create(&format!("/{index}")).acl(vec![acl("auth", "", ALL)]));
            c.call(get_acl(&format!("/{index}")));
        }
    });
}

#[test]
fn a_digest_is_hidden() {
    run("acl_masked", |s| {
        let mut a = s.client("a");
        a.call(create("/n"));
        s.note("Who may read but not administrate sees names only.");
        let digests = [acl("digest", BOB, ALL), acl("digest", CLEANER, ALL)];
        a.call(set_acl("/n", &[&digests[..], &[acl("world", "anyone", READ)]].concat()));
        a.call(get_acl("/n"));
        s.note("Who may administrate sees all.");
        a.call(auth("digest", "bob:builder"));
        a.call(get_acl("/n"));
        a.call(set_acl("/n", &[&digests[..], &[acl("world", "anyone", ADMIN)]].concat()));
        s.note("Even without the permission to read.");
        let mut b = s.client("b");
        b.call(get_acl("/n"));
        s.note("With neither, nothing.");
        a.call(set_acl("/n", &digests));
        b.call(get_acl("/n"));
        b.call(exists("/n"));
    });
}

#[test]
fn schemes_of_a_list() {
    run("acl_schemes", |s| {
        let mut a = s.client("a");
        for (id, permissions) in [
            ("127.0.0.1", ALL),
            ("127.0.0.0/8", ALL),
            ("127.0.0.1/32", ALL),
            ("10.0.0.0/8", ALL),
            ("0.0.0.0/0", ALL),
            ("127.0.0.2", ALL),
        ] {
            s.note(&format!("ip:{id}"));
            a.call(create("/a").acl(vec![acl("ip", id, permissions), acl("digest", CLEANER, ALL)]));
            a.call(get_data("/a"));
            a.call(set_data("/a", "x"));
            a.call(crate::requests::delete("/a"));
        }
        s.note("A digest is compared as a whole.");
        a.call(create("/a").acl(vec![acl("digest", BOB, ALL)]));
        a.call(auth("digest", "bob:wrong"));
        a.call(get_data("/a"));
        a.call(auth("digest", "bob:builder"));
        a.call(get_data("/a"));
        a.call(set_acl("/a", &open()));
        a.call(close_session());
    });
}
