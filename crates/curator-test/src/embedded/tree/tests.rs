use super::*;
use crate::embedded::codec::{Create, CreateKind, OperationResult, Stat, Write};

const SESSION: i64 = 7;

fn context(zxid: i64) -> Context<'static> {
    Context { session_id: SESSION, identities: &[], zxid, time: 1000 + zxid }
}

fn create_of(kind: CreateKind, path: &str, flags: i32, ttl: i64) -> Write {
    Write::Create(Create { kind, path: path.to_owned(), data: Some(b"x".to_vec()), acl: Some(acl::open()), flags, ttl })
}

fn create(path: &str, flags: i32) -> Write {
    create_of(CreateKind::Create, path, flags, -1)
}

fn delete(path: &str) -> Write {
    Write::Delete { path: path.to_owned(), version: -1 }
}

fn set(path: &str, version: i32) -> Write {
    Write::SetData { path: path.to_owned(), data: None, version }
}

fn tree() -> DataTree {
    DataTree::new(true)
}

fn apply(tree: &mut DataTree, zxid: i64, write: &Write) -> Result<OperationResult, Code> {
    tree.apply(write, &context(zxid)).map(|applied| applied.result)
}

fn created(tree: &mut DataTree, zxid: i64, path: &str, flags: i32) -> String {
    match apply(tree, zxid, &create(path, flags)) {
        Ok(OperationResult::Create(path)) => path,
        other => panic!("{other:?}"),
    }
}

fn stat(tree: &DataTree, path: &str) -> Stat {
    tree.exists(path, &[]).unwrap()
}

#[test]
fn sequence_numbers_count_all_children_ever() {
    let mut tree = tree();
    created(&mut tree, 1, "/a", 0);
    assert_eq!(created(&mut tree, 2, "/a/n-", 2), "/a/n-0000000000");
    apply(&mut tree, 3, &delete("/a/n-0000000000")).unwrap();
    created(&mut tree, 4, "/a/other", 0);
    assert_eq!(created(&mut tree, 5, "/a/", 3), "/a/0000000002");
    let stat = stat(&tree, "/a");
    assert_eq!((stat.cversion, stat.num_children, stat.pzxid, stat.mzxid), (4, 2, 5, 1));
}

#[test]
fn a_session_takes_its_nodes_along() {
    let mut tree = tree();
    created(&mut tree, 1, "/e", 1);
    assert_eq!(stat(&tree, "/e").ephemeral_owner, SESSION);
    assert_eq!(apply(&mut tree, 2, &create("/e/child", 0)), Err(Code::NoChildrenForEphemerals));
    assert_eq!(tree.ephemerals_of(SESSION), ["/e"]);
    let events = tree.kill_session(SESSION, 3);
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.path.as_str())).collect();
    assert_eq!(kinds, [(EventKind::NodeDeleted, "/e"), (EventKind::NodeChildrenChanged, "/")]);
    assert_eq!((tree.ephemeral_count(), stat(&tree, "/").pzxid), (0, 3));
    assert_eq!(tree.exists("/e", &[]), Err(Code::NoNode));
}

#[test]
fn versions_are_compared() {
    let mut tree = tree();
    created(&mut tree, 1, "/a", 0);
    assert_eq!(apply(&mut tree, 2, &set("/a", 1)), Err(Code::BadVersion));
    apply(&mut tree, 3, &set("/a", 0)).unwrap();
    assert_eq!((stat(&tree, "/a").version, stat(&tree, "/a").mzxid), (1, 3));
    assert_eq!(tree.data("/a", &[]).unwrap().0, None);
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let mut tree = tree();
    created(&mut tree, 1, "/a", 0);
    created(&mut tree, 2, "/b", 1);
    let before = format!("{tree:?}");
    let writes = [create("/a/n-", 2), delete("/b"), set("/a", 0), delete("/none"), create("/c", 0)];
    let (results, events) = tree.apply_all(&writes, &context(3));
    let error = |code| OperationResult::Error(Some(code));
    let undone = || OperationResult::Error(None);
    let expected = [undone(), undone(), undone(), error(Code::NoNode), error(Code::RuntimeInconsistency)];
    assert_eq!(results, expected);
    assert_eq!(events, []);
    assert_eq!(format!("{tree:?}"), before);

    let (results, events) = tree.apply_all(&writes[..3], &context(4));
    assert!(matches!(results[..], [OperationResult::Create(_), OperationResult::Delete, OperationResult::SetData(_)]));
    assert_eq!(events.len(), 5);
    assert_eq!(stat(&tree, "/a/n-0000000000").czxid, 4);
}

#[test]
fn a_transaction_sees_its_own_changes() {
    let mut tree = tree();
    let check = Write::Check { path: "/a".to_owned(), version: 1 };
    let writes = [create("/a", 0), set("/a", 0), check, delete("/a"), create("/a", 0)];
    let (results, _) = tree.apply_all(&writes, &context(1));
    assert_eq!(results[2..], [OperationResult::Check, OperationResult::Delete, OperationResult::Create("/a".into())]);
}

#[test]
fn containers_and_ttl_nodes_come_to_an_end() {
    let mut tree = tree();
    apply(&mut tree, 1, &create_of(CreateKind::Container, "/c", 4, -1)).unwrap();
    apply(&mut tree, 2, &create_of(CreateKind::Ttl, "/t", 5, 100)).unwrap();
    assert_eq!(tree.over(1102), Vec::<String>::new());
    created(&mut tree, 3, "/c/child", 0);
    assert_eq!(tree.over(1103), ["/t"]);
    apply(&mut tree, 4, &delete("/c/child")).unwrap();
    assert_eq!(tree.over(1103), ["/c", "/t"]);
    apply(&mut tree, 5, &Write::DeleteContainer { path: "/c".to_owned() }).unwrap();
    assert_eq!(tree.over(1102), Vec::<String>::new());
}

#[test]
fn lifetimes_are_checked() {
    let mut tree = tree();
    for (kind, flags, ttl) in [
        (CreateKind::Ttl, 5, 0),
        (CreateKind::Ttl, 5, -1),
        (CreateKind::Ttl, 5, 1 << 40),
        (CreateKind::Ttl, 0, -1),
        (CreateKind::Create, 5, -1),
        (CreateKind::Create, 7, -1),
        (CreateKind::Create, -1, -1),
    ] {
        assert_eq!(
            apply(&mut tree, 1, &create_of(kind, "/a", flags, ttl)),
            Err(Code::BadArguments),
            "{kind:?} {flags}"
        );
    }
    let mut plain = DataTree::new(false);
    assert_eq!(apply(&mut plain, 1, &create_of(CreateKind::Ttl, "/a", 5, 1)), Err(Code::Unimplemented));
}

#[test]
fn the_servers_own_nodes_are_there_and_stay() {
    let mut tree = tree();
    assert_eq!(tree.children("", &[]).unwrap().0, ["zookeeper"]);
    assert_eq!(tree.all_children_number("/", &[]), Ok(3));
    assert_eq!(tree.all_children_number("/zookeeper", &[]), Ok(2));
    assert_eq!(apply(&mut tree, 1, &delete("/zookeeper/quota")), Err(Code::BadArguments));
    assert_eq!(apply(&mut tree, 1, &set("/zookeeper/config", -1)), Err(Code::NoAuth));
    assert_eq!(tree.node_count(), 5);
}

#[test]
fn the_counter_stays_at_its_end_and_only_a_transaction_goes_on() {
    let mut tree = tree();
    created(&mut tree, 1, "/a", 0);
    tree.set_creates("/a", i32::MAX - 1).unwrap();
    assert_eq!(created(&mut tree, 2, "/a/n-", 2), "/a/n-2147483646");
    for name in ["x-", "y-"] {
        assert_eq!(created(&mut tree, 3, &format!("/a/{name}"), 2), format!("/a/{name}2147483647"));
    }
    assert_eq!(apply(&mut tree, 4, &create("/a/x-", 2)), Err(Code::NodeExists));
    // What the counter does not see, the time of the last change does not see either.
    assert_eq!((stat(&tree, "/a").pzxid, stat(&tree, "/a").cversion), (2, -5));
    let writes = [create("/a/z-", 2), create("/a/z-", 2), create("/a/z-", 2)];
    for zxid in [5, 6] {
        let names = ["2147483647", "-2147483648", "-2147483647"].map(|number| format!("/a/z-{number}"));
        let (results, _) = tree.apply_all(&writes, &context(zxid));
        assert_eq!(results, names.clone().map(OperationResult::Create));
        let deletes = names.map(|name| delete(&name));
        assert_eq!(tree.apply_all(&deletes, &context(zxid)).0, [const { OperationResult::Delete }; 3]);
    }
    assert_eq!(tree.set_creates("/none", 0), Err(Code::NoNode));
}

#[test]
fn a_node_that_a_transaction_makes_anew_counts_from_zero() {
    let mut tree = tree();
    created(&mut tree, 1, "/a", 0);
    tree.set_creates("/a", 5).unwrap();
    let writes = [create("/a/n-", 2), delete("/a/n-0000000005"), delete("/a"), create("/a", 0), create("/a/n-", 2)];
    let (results, _) = tree.apply_all(&writes, &context(2));
    assert_eq!(results.last(), Some(&OperationResult::Create("/a/n-0000000000".to_owned())));
}
