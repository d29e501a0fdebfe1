//! How long a request may be.

use crate::{
    requests::{create, exists, raw, set_data},
    scenario::run,
};

/// `jute.maxbuffer`, unless it is set.
const LIMIT: usize = 0xf_ffff;
/// What a `setData` of `/a` has besides its data: xid, type, path, the data's length, version.
const REST: usize = 4 + 4 + 4 + 2 + 4 + 4;

#[test]
fn a_frame_has_a_limit() {
    run("limit", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("A frame of just the limit.");
        a.call(set_data("/a", &"x".repeat(LIMIT - REST)));
        a.call(exists("/a"));
        s.note("A byte more: the connection is closed, and nothing is done.");
        a.call(set_data("/a", &"y".repeat(LIMIT - REST + 1)));
        let mut b = s.client("b");
        b.call(exists("/a"));
        s.note("The same of a kind of request that nobody knows, and of a read.");
        b.call(raw(3, &vec![0; LIMIT], "a megabyte of zeros"));
        b.wait_for_close();
    });
}
