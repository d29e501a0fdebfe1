//! Readers and writers in one queue.

use super::*;

fn write_name(number: i32) -> String {
    format!("_c_00000000-0000-0000-0000-000000000002-__WRIT__{number:010}")
}

fn ahead_of(name: &str) -> Request {
    Request::WatchAhead { name: name.to_owned() }
}

fn gone_of(name: &str) -> Event {
    Event::AheadDeleted { queue: 0, name: name.to_owned() }
}

/// A contender with this driver whose node has number 5, behind these others, with its watches still to be placed.
fn behind(driver: &'static dyn LockInternalsDriver, others: &[String]) -> (Play, OwnNode, Step) {
    let mut play = Play::new(Contest::new(ID, SESSION, 1), driver);
    let node = OwnNode { name: format!("{}0000000005", driver.node_prefix(&ID)), czxid: own(5).czxid };
    let list = others.iter().chain([&node.name]).cloned().collect();
    let step = play.answers([Answer::Created(node.clone()), Answer::Children(list)]);
    (play, node, step)
}

#[test]
fn a_reader_behind_one_writer_owns_when_it_goes() {
    let (mut play, reader, step) = behind(&ReadLockInternalsDriver, &[write_name(4)]);
    assert_eq!(step, now([ahead_of(&write_name(4)), Request::WatchOwn { name: reader.name.clone() }]));
    assert_eq!(play.answers([node(4), node(5)]), Step::Wait);
    assert_eq!(play.event(gone_of(&write_name(4))), won([reader]));
}

#[test]
fn a_reader_behind_several_writers_watches_the_nearest_only_and_is_woken_once() {
    for writers in [&[3, 4][..], &[2, 3, 4], &[0, 1, 2, 3, 4]] {
        let writers: Vec<_> = writers.iter().copied().map(write_name).collect();
        let (mut play, reader, step) = behind(&ReadLockInternalsDriver, &writers);
        assert_eq!(step, now([ahead_of(&write_name(4))]));
        assert_eq!(play.answers([node(4)]), Step::Wait);
        // The others have gone before: nobody was told.
        assert_eq!(play.event(gone_of(&write_name(4))), now(LIST));
        assert_eq!(play.answers([Answer::Children(vec![reader.name.clone()])]), won([reader]));
    }
}

#[test]
fn a_writer_before_whom_a_write_lock_becomes_a_read_lock_goes_on_waiting() {
    let (mut play, writer, step) = behind(&WriteLockInternalsDriver, &[write_name(4)]);
    assert_eq!(step, now([ahead_of(&write_name(4))]));
    assert_eq!(play.answers([node(4)]), Step::Wait);
    assert_eq!(play.event(gone_of(&write_name(4))), now(LIST));
    let read_name = downgraded_read_name(&Uuid::new_v4(), 4);
    let list = Answer::Children(vec![read_name.clone(), writer.name.clone()]);
    assert_eq!(play.answers([list]), now([ahead_of(&read_name)]));
    assert_eq!(play.answers([Answer::Missing]), now(LIST));
    assert_eq!(play.answers([Answer::Children(vec![writer.name.clone()])]), won([writer]));
}
