//! Readers and writers in one queue.

use super::*;

fn write_name(number: i32) -> String {
    format!("_c_00000000-0000-0000-0000-000000000002-__WRIT__{number:010}")
}

/// A reader with this number, behind one writer for each of these, with its watches still to be placed.
fn reader_behind(writers: &[i32], number: i32) -> (Play, OwnNode, Step) {
    let mut play = Play::driven_by(ReadLockInternalsDriver);
    let name = format!("{}{number:010}", ReadLockInternalsDriver.node_prefix(&ID));
    let node = OwnNode { name: name.clone(), czxid: czxid(number) };
    let list = writers.iter().copied().map(write_name).chain([name]).collect();
    let step = play.answers([Answer::Created(node.clone()), Answer::Children(list)]);
    (play, node, step)
}

#[test]
fn a_reader_behind_one_writer_owns_when_it_goes() {
    let (mut play, reader, step) = reader_behind(&[4], 5);
    let ahead = Request::WatchAhead { name: write_name(4) };
    assert_eq!(step, now([ahead, Request::WatchOwn { name: reader.name.clone() }]));
    assert_eq!(play.answers([node(4), node(5)]), Step::Wait);
    let gone = Event::AheadDeleted { queue: 0, name: write_name(4) };
    assert_eq!(play.event(gone), won([reader]));
    assert_eq!(play.requests, 4);
}

#[test]
fn a_reader_behind_several_writers_watches_the_nearest_only_and_is_woken_once() {
    for writers in [&[3, 4][..], &[2, 3, 4], &[0, 1, 2, 3, 4]] {
        let (mut play, reader, step) = reader_behind(writers, 5);
        assert_eq!(step, now([Request::WatchAhead { name: write_name(4) }]));
        assert_eq!(play.answers([node(4)]), Step::Wait);
        // The others have gone before: nobody was told.
        assert_eq!(play.event(Event::AheadDeleted { queue: 0, name: write_name(4) }), now(LIST));
        assert_eq!(play.answers([Answer::Children(vec![reader.name.clone()])]), won([reader]));
        assert_eq!(play.requests, 4, "behind {writers:?}");
    }
}

#[test]
fn a_reader_whose_nearest_writer_gives_up_waits_for_the_next() {
    let (mut play, reader, _) = reader_behind(&[2, 3, 4], 5);
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    let list = |writers: &[i32]| {
        Answer::Children(writers.iter().copied().map(write_name).chain([reader.name.clone()]).collect())
    };
    assert_eq!(play.answers([list(&[2, 3])]), now([Request::WatchAhead { name: write_name(3) }]));
    assert_eq!(play.answers([node(3)]), Step::Wait);
    assert_eq!(play.event(Event::AheadDeleted { queue: 0, name: write_name(3) }), now(LIST));
    // Now there is one, and its deletion is ownership.
    let ahead = Request::WatchAhead { name: write_name(2) };
    assert_eq!(play.answers([list(&[2])]), now([ahead, Request::WatchOwn { name: reader.name.clone() }]));
    assert_eq!(play.answers([node(2), node(5)]), Step::Wait);
    assert_eq!(play.event(Event::AheadDeleted { queue: 0, name: write_name(2) }), won([reader]));
}

#[test]
fn a_writer_before_whom_a_write_lock_becomes_a_read_lock_goes_on_waiting() {
    let mut play = Play::driven_by(WriteLockInternalsDriver);
    let own = OwnNode { name: format!("{}0000000005", WriteLockInternalsDriver.node_prefix(&ID)), czxid: 1 };
    let read_name = downgraded_read_name(&Uuid::new_v4(), 4);
    let list = |others: &[&String]| Answer::Children(others.iter().copied().chain([&own.name]).cloned().collect());
    let created = Answer::Created(own.clone());
    let step = play.answers([created, list(&[&write_name(4)])]);
    assert_eq!(step, now([Request::WatchAhead { name: write_name(4) }]));
    assert_eq!(play.answers([node(4)]), Step::Wait);
    assert_eq!(play.event(Event::AheadDeleted { queue: 0, name: write_name(4) }), now(LIST));
    let ahead = Request::WatchAhead { name: read_name.clone() };
    assert_eq!(play.answers([list(&[&read_name])]), now([ahead]));
    assert_eq!(play.answers([node(4)]), Step::Wait);
    assert_eq!(play.event(Event::AheadDeleted { queue: 0, name: read_name }), now(LIST));
    assert_eq!(play.answers([list(&[])]), won([own.clone()]));
}
