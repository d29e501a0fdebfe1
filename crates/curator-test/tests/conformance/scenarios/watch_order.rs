//! Where events stand among replies.

use crate::{
    requests::{create, delete, exists, get_children, get_data, multi_read, ping, set_data, sync},
    scenario::run,
};

#[test]
fn events_stand_where_they_happened() {
    run("watch_order", |s| {
        let mut a = s.client("a");
        a.call(create("/a"));
        s.note("Requests in one write: each is answered in turn, and an event stands before the reply to its write.");
        a.pipeline(&[
            exists("/a").watch(),
            set_data("/a", "1"),
            get_data("/a").watch(),
            set_data("/a", "2"),
            set_data("/a", "3"),
            exists("/a").watch(),
            get_children("/a").watch(),
            create("/a/b"),
            delete("/a/b"),
            delete("/a"),
            create("/a"),
            ping(),
        ]);
        s.note("A watch that a read sets misses nothing that comes after the read.");
        a.pipeline(&[set_data("/a", "4"), get_data("/a").watch(), set_data("/a", "5"), sync("/a"), get_data("/a")]);
    });
}

#[test]
fn others_see_the_event_before_the_new_state() {
    run("watch_order_of_others", |s| {
        let (mut a, mut b) = (s.client("a"), s.client("b"));
        b.call(create("/a").data("old"));
        a.call(get_data("/a").watch());
        b.call(set_data("/a", "new"));
        s.note("The reply would show the change, so the event comes before it.");
        a.call(get_data("/a"));
        s.note("Several watches: in the order in which they fire, not in which they were set.");
        for path in ["/3", "/1", "/2"] {
            a.call(exists(path).watch());
        }
        b.pipeline(&[create("/2"), create("/3"), create("/1")]);
        a.call(multi_read(&[get_data("/1"), get_data("/2"), get_data("/3")]));
    });
}
