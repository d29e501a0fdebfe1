//! What is a path.

use curator_test::TestingServer;

use crate::{
    jute::Writer,
    op::{Op, SEQUENTIAL, open},
    requests::{
        check, create, delete, exists, get_acl, get_all_children_number, get_children, get_data, multi, raw, set_acl,
        set_data, sync,
    },
    scenario::{run, run_on},
    server::Server,
};

#[test]
fn paths_of_new_nodes() {
    // The root's own counter is seen, so nobody may have been there.
    run_on(&Server::with(TestingServer::builder()), "path_create", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        let long = format!("/{}", "x".repeat(10_000));
        for path in [
            "",
            "a",
            "a/b",
            "//",
            "//a",
            "/a//b",
            "/a/",
            "/.",
            "/..",
            "/a/.",
            "/a/..",
            "/a/./b",
            "/a/../b",
            "/...",
            "/a/.b",
            "/a/b.",
            "/a/b..c",
            "/a b",
            "/ ",
            "/a/\u{0}",
            "/a\u{0}b",
            "/\u{1}",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{a0}",
            "/\t",
            "/\n",
            "/ä",
            "/日本",
            "/😀",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{f900}",
            "/\u{fff0}",
            "/\u{feff}",
            "/\u{fffd}",
            "/%2e",
            "/\\",
            &long,
        ] {
            a.call(create(path));
        }
        s.note("With a number behind it a path is looked at twice, without and with it.");
        for path in ["", "a", "/a/", "/a//", "/a/.", "/.", "/..", "//", "/"] {
            a.call(create(path).flags(SEQUENTIAL));
        }
        a.call(get_children("/a"));
    });
}

#[test]
fn paths_of_other_requests() {
    // So is the root's stat.
    run_on(&Server::with(TestingServer::builder()), "path_other", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        for path in ["", "a", "/a/", "//a", "/a/../a", "/a\u{0}", "/a//"] {
            s.note(&format!("{path:?}"));
            let ops: [Op; 10] = [
                exists(path),
                get_data(path),
                get_children(path),
                get_acl(path),
                get_all_children_number(path),
                sync(path),
                set_data(path, "x"),
                set_acl(path, &open()),
                delete(path),
                multi(&[check(path, -1)]),
            ];
            for op in ops {
                a.call(op);
            }
        }
    });
}

#[test]
fn a_path_that_is_null() {
    run("path_null", |s| {
        let mut a = s.client("a");
        for (code, rest) in [
            (3, Writer::default().bool(false)),
            (4, Writer::default().bool(false)),
            (8, Writer::default().bool(false)),
            (12, Writer::default().bool(false)),
            (6, Writer::default()),
            (104, Writer::default()),
            (9, Writer::default()),
            (103, Writer::default()),
            (1, Writer::default().buffer(None).int(0).int(0)),
            (2, Writer::default().int(-1)),
            (5, Writer::default().buffer(None).int(-1)),
            (7, Writer::default().int(0).int(-1)),
            (106, Writer::default().int(0)),
            (17, Writer::default().int(3)),
        ] {
            a.call(raw(code, &Writer::default().buffer(None).raw(&rest.0).0, "with a null path"));
        }
        a.settle();
    });
}
