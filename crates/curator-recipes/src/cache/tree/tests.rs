//! Applies the replies of a server that changes at random and loses events, and compares the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::reads::{Batch, Batches, Wanted, operations, want, want_all};
use super::*;

pub(in crate::cache) fn path(text: &str) -> ZPath {
    ZPath::on_server(text).unwrap()
}

pub(in crate::cache) fn tree() -> Tree {
    Tree::new(
        &Arc::new(Scope {
            root: path("/r"),
            max_depth: usize::MAX,
            shows_root: true,
            filter: None,
        }),
        true,
        None,
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct Node {
    pub(in crate::cache) created: i64,
    pub(in crate::cache) changed: i64,
    children_changed: i64,
    version: i32,
    /// The times of the creation and of the last change.
    times: (i64, i64),
}

/// A server's nodes below `/r`. The data of a node is the time of its last change.
#[derive(Default)]
pub(in crate::cache) struct Server {
    pub(in crate::cache) nodes: BTreeMap<String, Node>,
    pub(in crate::cache) zxid: i64,
    time: i64,
    backup: (BTreeMap<String, Node>, i64),
    /// The path of each event, and whether the node was created or deleted.
    pub(in crate::cache) events: Vec<(String, bool)>,
    /// The nodes that the client may not read. Changes of the set cause no event.
    unreadable: BTreeSet<String>,
    /// Whether the server sends events for unreadable nodes, as old servers do.
    reports_unreadable: bool,
}

impl Server {
    fn report(&mut self, path: &str, is_structural: bool) {
        if self.reports_unreadable || !self.unreadable.contains(path) {
            self.events.push((path.to_owned(), is_structural));
        }
    }

    /// Whether the client can read the node and all nodes above it.
    fn is_shown(&self, path: &str) -> bool {
        !self
            .unreadable
            .iter()
            .any(|node| path == node || path.starts_with(&format!("{node}/")))
    }

    fn has_children(&self, path: &str) -> bool {
        self.nodes.keys().any(|other| {
            other
                .rsplit_once('/')
                .is_some_and(|(parent, _)| parent == path)
        })
    }

    fn touch_parent(&mut self, path: &str) {
        let zxid = self.zxid;
        if let Some(parent) = path
            .rsplit_once('/')
            .and_then(|(parent, _)| self.nodes.get_mut(parent))
        {
            parent.children_changed = zxid;
        }
    }

    pub(in crate::cache) fn create(&mut self, path: &str) {
        let parent = path
            .rsplit_once('/')
            .map(|(parent, _)| parent)
            .unwrap_or_default();
        if self.nodes.contains_key(path) || !(path == "/r" || self.nodes.contains_key(parent)) {
            return;
        }
        self.zxid += 1;
        self.time += 1;
        let zxid = self.zxid;
        let times = (self.time, self.time);
        self.nodes.insert(
            path.to_owned(),
            Node {
                created: zxid,
                changed: zxid,
                children_changed: zxid,
                version: 0,
                times,
            },
        );
        self.touch_parent(path);
        self.report(path, true);
    }

    pub(in crate::cache) fn delete(&mut self, path: &str) {
        if !self.has_children(path) && self.nodes.remove(path).is_some() {
            self.zxid += 1;
            self.touch_parent(path);
            self.report(path, true);
            self.unreadable.remove(path);
        }
    }

    pub(in crate::cache) fn set(&mut self, path: &str) {
        if let Some(node) = self.nodes.get_mut(path) {
            self.zxid += 1;
            self.time += 1;
            node.changed = self.zxid;
            node.version += 1;
            node.times.1 = self.time;
            self.report(path, false);
        }
    }

    pub(in crate::cache) fn read(&self, path: &ZPath) -> Found {
        let Some(node) = self.nodes.get(path.as_str()) else {
            return Found::NoNode;
        };
        if self.unreadable.contains(path.as_str()) {
            return Found::Denied;
        }
        let data = node.times.1.to_string();
        let mut stat = Stat::default();
        (stat.ctime, stat.mtime) = node.times;
        stat.czxid = node.created;
        stat.mzxid = node.changed;
        stat.pzxid = node.children_changed;
        stat.version = node.version;
        stat.num_children = self.list(path).len() as i32;
        stat.data_length = data.len() as i32;
        Found::Node(data.into_bytes(), stat)
    }

    pub(in crate::cache) fn list(&self, path: &ZPath) -> Vec<String> {
        self.nodes
            .keys()
            .filter_map(|other| other.rsplit_once('/'))
            .filter(|(parent, _)| *parent == path.as_str())
            .map(|(_, name)| name.to_owned())
            .collect()
    }
}

/// A cache that has one request in flight, and reads everything whenever a test requests it.
struct Client {
    tree: Tree,
    scan: Wanted,
    changed: Wanted,
    replayed: BTreeMap<String, (i64, i64)>,
    latest: BTreeMap<String, (i64, i64)>,
    /// Whether nodes may be deleted and created unchanged, or become older: the permission to read
    /// them changes, or a backup is restored.
    goes_back: bool,
}

impl Client {
    fn new() -> Self {
        let mut client = Self {
            tree: tree(),
            scan: Wanted::new(),
            changed: Wanted::new(),
            replayed: BTreeMap::new(),
            latest: BTreeMap::new(),
            goes_back: false,
        };
        client.rescan();
        client
    }

    fn overflow(&mut self) {
        self.changed.clear();
        self.rescan();
    }

    fn rescan(&mut self) {
        want_all(&mut self.scan, &self.tree);
    }

    /// Reads the first `count` wanted nodes, all at one moment.
    fn read(&mut self, server: &mut Server, count: usize) {
        self.read_before(server, count, |_| {});
    }

    /// Like `read`, but the server changes after it has made the replies, and the events of that
    /// change arrive together with them.
    fn read_before(&mut self, server: &mut Server, count: usize, change: impl FnOnce(&mut Server)) {
        if self.scan.is_empty() {
            self.scan = std::mem::take(&mut self.changed);
        }
        let mut wanted = std::mem::take(&mut self.scan);
        let replies: Vec<_> = (0..count.min(wanted.len()))
            .filter_map(|_| wanted.pop_first())
            .map(|(path, listing)| (server.read(&path), server.list(&path), path, listing))
            .collect();
        change(server);
        for (text, is_structural) in server.events.drain(..) {
            let path = path(&text);
            let parent = path
                .parent()
                .filter(|parent| is_structural && self.tree.scope.contains(parent));
            for node in parent.into_iter().chain([path]) {
                let (node, listing) = self.tree.after_change(node);
                want(&mut self.changed, node, listing);
            }
        }
        let batch: Batch = replies
            .iter()
            .map(|(_, _, path, listing)| (path.clone(), *listing))
            .collect();
        for (found, names, path, listing) in replies {
            match self.tree.found(&path, found, listing, &batch) {
                Next::List => want(&mut wanted, path.clone(), Listing::Now),
                Next::ListParent => {
                    if let Some(parent) = path.parent() {
                        want(&mut wanted, parent, Listing::Now);
                    }
                }
                Next::ParentFirst => {
                    for node in path.parent().into_iter().chain([path.clone()]) {
                        want(&mut wanted, node, Listing::IfChanged.min(listing));
                    }
                }
                Next::Nothing => {}
            }
            if listing == Listing::Now {
                for child in self.tree.listed(&path, &names) {
                    want(&mut wanted, child, Listing::IfNew);
                }
            }
        }
        self.scan = wanted;
        self.check_denied(server);
        self.replay();
    }

    /// Checks that `denied` has exactly the unreadable nodes of the tree, and that nothing is kept
    /// below them.
    fn check_denied(&self, server: &Server) {
        for (path, entry) in &self.tree.nodes {
            let denied = self.tree.denied.at_or_above(path);
            assert_eq!(denied, entry.is_none().then_some(path), "{path}");
        }
        for text in server.nodes.keys() {
            let denied = self.tree.denied.at_or_above(&path(text));
            assert!(
                denied.is_none_or(|node| self.tree.nodes.get(node) == Some(&None)),
                "{denied:?}"
            );
        }
    }

    /// Checks that each event is consistent with the earlier ones.
    fn replay(&mut self) {
        for event in std::mem::take(&mut self.tree.events) {
            let state_of = |node: &CachedNode| {
                (
                    node.path().as_str().to_owned(),
                    (node.stat().czxid, node.stat().mzxid),
                )
            };
            let (path, after) = match event {
                CacheEvent::Created(node) => {
                    let (path, after) = state_of(&node);
                    let parent = path
                        .rsplit_once('/')
                        .map(|(parent, _)| parent.to_owned())
                        .unwrap_or_default();
                    assert!(
                        path == "/r" || self.replayed.contains_key(&parent),
                        "{path} was created before its parent"
                    );
                    assert_eq!(self.replayed.insert(path.clone(), after), None, "{path}");
                    assert!(
                        self.latest
                            .get(&path)
                            .is_none_or(|before: &(i64, i64)| before.0 < after.0 || self.goes_back),
                        "{path} was created twice"
                    );
                    (path, after)
                }
                CacheEvent::Changed { old, new } => {
                    let (path, after) = state_of(&new);
                    assert_eq!(
                        old.stat().czxid,
                        new.stat().czxid,
                        "{path}: the new node is not the old one"
                    );
                    assert_eq!(
                        self.replayed.insert(path.clone(), after),
                        Some(state_of(&old).1),
                        "{path}"
                    );
                    (path, after)
                }
                CacheEvent::Deleted(node) => {
                    let (path, before) = state_of(&node);
                    assert_eq!(self.replayed.remove(&path), Some(before), "{path}");
                    let below = format!("{path}/");
                    assert!(
                        !self.replayed.keys().any(|other| other.starts_with(&below)),
                        "{path} was deleted before its child"
                    );
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let before = self.latest.insert(path.clone(), after);
            let is_in_order = before.is_none_or(|before| before <= after);
            assert!(
                is_in_order || self.goes_back,
                "{path}: {after:?} after {before:?}"
            );
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Set(usize),
    Delete(usize),
    /// Deletes the node and creates it again.
    Replace(usize),
    /// Deletes the node with its descendants, and creates them again.
    Rebuild(usize),
    Read(usize),
    /// Like `Read`, but this node is created or written after the server has made the replies.
    ReadBefore(usize, usize),
    /// Withdraws the permission to read the node, or grants it again.
    Permit(usize),
    /// Makes a backup.
    Backup,
    /// Restores the last backup. Later transactions have the same numbers as the lost ones.
    Restore,
    /// Breaks the connection: undelivered events are lost.
    Cut,
    /// Simulates too many changes to record.
    Overflow,
}

pub(in crate::cache) const PATHS: [&str; 11] = [
    "/r",
    "/r/a",
    "/r/b",
    "/r/a/x",
    "/r/a/y",
    "/r/b/x",
    "/r/a/x/1",
    "/r/a/x/2",
    "/r/b/x/1",
    "/r/b/x/1/z",
    "/r/a/z",
];
/// The indices in `PATHS` of a deep tree.
const DEEP: Range<usize> = 0..10;
/// The indices of one directory and its children, which can replace each other after a restore.
const DIRECTORY: usize = 1;
const CHILDREN: [usize; 3] = [3, 4, 10];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => DEEP.prop_map(Step::Create),
        2 => DEEP.prop_map(Step::Set),
        3 => DEEP.prop_map(Step::Delete),
        2 => DEEP.prop_map(Step::Replace),
        2 => DEEP.prop_map(Step::Rebuild),
        6 => (1_usize..8).prop_map(Step::Read),
        2 => (1_usize..8, DEEP).prop_map(|(count, node)| Step::ReadBefore(count, node)),
        1 => Just(Step::Cut),
        1 => Just(Step::Overflow),
    ]
}

fn step_with_permissions() -> impl Strategy<Value = Step> {
    prop_oneof![6 => step(), 1 => DEEP.prop_map(Step::Permit)]
}

fn step_with_backups() -> impl Strategy<Value = Step> {
    prop_oneof![9 => step(), 1 => Just(Step::Backup), 1 => Just(Step::Restore)]
}

/// Mostly reads of one or two nodes, so that changes come between a listing and the reads of its
/// names.
fn step_in_directory() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => select(&CHILDREN[..]).prop_map(Step::Create),
        2 => select(&CHILDREN[..]).prop_map(Step::Delete),
        1 => select(&CHILDREN[..]).prop_map(Step::Replace),
        8 => (1_usize..3).prop_map(Step::Read),
        1 => Just(Step::Cut),
        1 => Just(Step::Overflow),
        1 => Just(Step::Backup),
        2 => Just(Step::Restore),
    ]
}

/// Changes the server, and reads what the client wants.
fn run(steps: Vec<Step>, server: &mut Server, client: &mut Client) {
    for step in steps {
        match step {
            Step::Create(node) => server.create(PATHS[node]),
            Step::Set(node) => server.set(PATHS[node]),
            Step::Delete(node) => server.delete(PATHS[node]),
            Step::Replace(node) => {
                server.delete(PATHS[node]);
                server.create(PATHS[node]);
            }
            Step::Rebuild(node) => {
                let is_below = |path: &String| {
                    path == PATHS[node] || path.starts_with(&format!("{}/", PATHS[node]))
                };
                let below: Vec<_> = server
                    .nodes
                    .keys()
                    .filter(|path| is_below(path))
                    .cloned()
                    .collect();
                below.iter().rev().for_each(|path| server.delete(path));
                below.iter().for_each(|path| server.create(path));
            }
            Step::Read(count) => client.read(server, count),
            Step::ReadBefore(count, node) => client.read_before(server, count, |server| {
                server.create(PATHS[node]);
                server.set(PATHS[node]);
            }),
            Step::Permit(node) => {
                let node = PATHS[node].to_owned();
                if server.nodes.contains_key(&node) && !server.unreadable.remove(&node) {
                    server.unreadable.insert(node);
                }
            }
            Step::Cut => {
                server.events.clear();
                client.rescan();
            }
            Step::Backup => server.backup = (server.nodes.clone(), server.zxid),
            Step::Restore => {
                (server.nodes, server.zxid) = server.backup.clone();
                server.events.clear();
                client.rescan();
            }
            Step::Overflow => client.overflow(),
        }
    }
}

/// Reads until nothing is wanted. Returns whether that took at most 50 rounds.
fn settles(server: &mut Server, client: &mut Client) -> bool {
    (0..50).any(|_| {
        client.read(server, usize::MAX);
        client.scan.is_empty() && client.changed.is_empty() && server.events.is_empty()
    })
}

/// Checks that the client has exactly the nodes that it may read, and that its events replay to the
/// same nodes.
fn check_equal(server: &Server, client: Client) -> Result<(), TestCaseError> {
    let expected: Vec<_> = server
        .nodes
        .iter()
        .filter(|(path, _)| server.is_shown(path))
        .map(|(path, node)| {
            (
                path.clone(),
                node.created,
                node.changed,
                node.children_changed,
                node.times.1.to_string().into_bytes(),
            )
        })
        .collect();
    let mut found: Vec<_> = client
        .tree
        .nodes
        .values()
        .filter_map(Option::as_ref)
        .map(|node| {
            let stat = node.stat();
            (
                node.path().to_string(),
                stat.czxid,
                stat.mzxid,
                stat.pzxid,
                node.data().to_vec(),
            )
        })
        .collect();
    found.sort();
    prop_assert_eq!(&found, &expected);
    let bytes: usize = found.iter().map(|node| node.4.len()).sum();
    prop_assert_eq!(client.tree.bytes, bytes);
    prop_assert!(client.tree.put_off.is_empty());
    let replayed: Vec<_> = client
        .replayed
        .into_iter()
        .map(|(path, (created, changed))| (path, created, changed))
        .collect();
    let shown: Vec<_> = expected
        .into_iter()
        .map(|node| (node.0, node.1, node.2))
        .collect();
    prop_assert_eq!(replayed, shown);
    Ok(())
}

/// Runs steps with changes of permissions, and reads until nothing is wanted.
fn settled(steps: Vec<Step>, reports_unreadable: bool) -> Result<(Server, Client), TestCaseError> {
    let mut server = Server {
        reports_unreadable,
        ..Server::default()
    };
    let mut client = Client::new();
    client.goes_back = true;
    run(steps, &mut server, &mut client);
    prop_assert!(
        settles(&mut server, &mut client),
        "the client never stops reading"
    );
    Ok((server, client))
}

proptest! {
    #[test]
    fn the_tree_converges_to_the_server_and_its_events_replay_to_the_same_nodes(steps in proptest::collection::vec(step(), 1..120)) {
        let mut server = Server::default();
        let mut client = Client::new();
        run(steps, &mut server, &mut client);
        prop_assert!(settles(&mut server, &mut client), "the client never stops reading");
        check_equal(&server, client)?;
    }

    #[test]
    fn reading_ends_while_permissions_change_and_a_full_read_finds_the_readable_nodes(
        steps in proptest::collection::vec(step_with_permissions(), 1..120),
        reports_unreadable: bool,
    ) {
        let (mut server, mut client) = settled(steps, reports_unreadable)?;
        client.rescan();
        prop_assert!(settles(&mut server, &mut client), "the client never stops reading");
        check_equal(&server, client)?;
    }

    #[test]
    fn once_all_nodes_are_readable_an_event_of_each_suffices_to_find_them(
        steps in proptest::collection::vec(step_with_permissions(), 1..60),
        reports_unreadable: bool,
    ) {
        let (mut server, mut client) = settled(steps, reports_unreadable)?;
        server.unreadable.clear();
        PATHS.iter().for_each(|node| server.report(node, true));
        prop_assert!(settles(&mut server, &mut client), "the client never stops reading");
        check_equal(&server, client)?;
    }

    #[test]
    fn a_node_created_while_its_readable_parent_is_still_recorded_as_denied_is_found(
        steps in proptest::collection::vec(step_with_permissions(), 1..60),
        reports_unreadable: bool,
        created in 1..DEEP.end,
    ) {
        let (mut server, mut client) = settled(steps, reports_unreadable)?;
        // After an event for each node, the client reads all of them again, which it now may.
        server.unreadable.clear();
        PATHS.iter().for_each(|node| server.report(node, true));
        client.read(&mut server, 0);
        client.read_before(&mut server, usize::MAX, |server| server.create(PATHS[created]));
        prop_assert!(settles(&mut server, &mut client), "the client never stops reading");
        check_equal(&server, client)?;
    }
}

proptest! {
    #[test]
    fn the_tree_converges_to_a_server_that_is_restored_from_a_backup(
        steps in proptest::collection::vec(step_with_backups(), 1..120),
    ) {
        check_steps(steps)?;
    }

    #[test]
    fn a_directory_converges_to_that_of_a_server_that_is_restored_from_a_backup(
        steps in proptest::collection::vec(step_in_directory(), 1..20),
    ) {
        check_steps([vec![Step::Create(0), Step::Create(DIRECTORY), Step::Read(1), Step::Backup], steps].concat())?;
    }
}

/// Runs the steps, and checks the nodes that the client then has.
fn check_steps(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut server = Server::default();
    let mut client = Client::new();
    client.goes_back = true;
    run(steps, &mut server, &mut client);
    prop_assert!(
        settles(&mut server, &mut client),
        "the client never stops reading"
    );
    check_equal(&server, client)
}

/// The parent was listed with the child, and not read after its deletion, so a restored parent
/// looks unchanged.
#[test]
fn a_restored_child_is_found_although_its_deletion_is_forgotten() {
    let listed = [
        Step::Create(0),
        Step::Create(2),
        Step::Create(5),
        Step::Backup,
        Step::Read(1),
        Step::Read(1),
        Step::Read(1),
    ];
    let deleted_before_it_is_read = [Step::Delete(5)];
    let deleted_once_read = [Step::Read(1), Step::Read(2), Step::Delete(5)];
    for lost in [&deleted_before_it_is_read[..], &deleted_once_read] {
        check_steps(
            [
                &listed,
                lost,
                &[Step::Read(1), Step::Restore, Step::Overflow],
            ]
            .concat(),
        )
        .unwrap();
    }
}

/// The new child has the transaction id of the lost one, and the parent has as many children as
/// before.
#[test]
fn a_child_created_after_a_restore_is_found_although_the_lost_one_was_listed_and_not_read() {
    let lost = [
        Step::Create(0),
        Step::Create(1),
        Step::Backup,
        Step::Create(3),
    ];
    let listed = [Step::Read(1), Step::Read(1), Step::Read(1)];
    let restored = [Step::Restore, Step::Create(4), Step::Cut];
    check_steps([&lost[..], &listed, &restored].concat()).unwrap();
    // The lost child is created again, after the parent was read.
    check_steps(
        [
            &lost[..],
            &listed,
            &restored,
            &[Step::Read(2), Step::Create(3)],
        ]
        .concat(),
    )
    .unwrap();
}

/// Otherwise, the child and the parent would be read again forever.
#[test]
fn a_child_waits_only_once_for_a_parent_that_does_not_exist() {
    let mut tree = tree();
    let mut server = Server::default();
    for node in ["/r", "/r/a", "/r/a/x"] {
        server.create(node);
    }
    tree.found(&path("/r"), server.read(&path("/r")), Listing::IfNew, &[]);
    let child = || server.read(&path("/r/a/x"));
    assert_eq!(
        tree.found(&path("/r/a/x"), child(), Listing::IfNew, &[]),
        Next::ParentFirst
    );
    tree.found(&path("/r/a"), Found::NoNode, Listing::IfNew, &[]);
    assert_eq!(
        tree.found(&path("/r/a/x"), child(), Listing::IfNew, &[]),
        Next::Nothing
    );
    assert_eq!((tree.nodes.size(), tree.put_off.len()), (1, 0));
}

/// Loads a directory of nodes with these lengths of data. Returns the bytes of data in each reply.
fn load(batches: &mut Batches, lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut tree = tree();
    let mut wanted = Wanted::new();
    let mut replies = Vec::new();
    tree.found(
        &path("/r"),
        Found::Node(Vec::new(), Stat::default()),
        Listing::IfNew,
        &[],
    );
    batches.learn(1, 0);
    let lengths: BTreeMap<_, _> = lengths
        .enumerate()
        .map(|(leaf, bytes)| (leaf_path(leaf), bytes))
        .collect();
    lengths
        .keys()
        .for_each(|leaf| want(&mut wanted, leaf.clone(), Listing::IfNew));
    while !wanted.is_empty() {
        let batch = batches.take(&mut wanted, &tree, 1 << 20, 0);
        let bytes = batch.iter().map(|(leaf, _)| lengths[leaf]).sum();
        batches.learn(batch.len(), bytes);
        replies.push(bytes);
    }
    replies
}

fn leaf_path(leaf: usize) -> ZPath {
    path(&format!("/r/leaf-{leaf:05}"))
}

const LIMIT: usize = 4 << 20;
const LARGE: usize = 1_000_000;

#[test]
fn at_most_two_replies_exceed_the_limit_when_large_nodes_follow_small_ones() {
    for small in [1, 10, 100, 1_000, 10_000] {
        let mut lengths = vec![100; small];
        lengths.resize(small + 1_000, LARGE);
        let replies = load(&mut Batches::new(), lengths.into_iter());
        let large: Vec<_> = replies.iter().filter(|reply| **reply > LIMIT).collect();
        let most = LARGE * 290.min(2 * small + 15);
        // The second, if any, follows a reply with nodes of both kinds.
        assert!(
            large.len() <= 2 && large.iter().all(|reply| **reply <= most),
            "{small}: {large:?}"
        );
    }
}

#[test]
fn ten_thousand_small_unread_nodes_need_fewer_than_45_requests() {
    let replies = load(&mut Batches::new(), std::iter::repeat_n(100, 10_000));
    assert!(replies.len() < 45, "{}", replies.len());
}

#[test]
fn failures_reduce_requests_to_single_nodes_and_replies_restore_them() {
    let mut tree = tree();
    let mut batches = Batches::new();
    let mut wanted = Wanted::new();
    load(&mut batches, std::iter::repeat_n(100, 2_000));
    let first = |batches: &Batches, tree: &Tree, wanted: &mut Wanted| {
        (0..600).for_each(|leaf| want(wanted, leaf_path(leaf), Listing::IfNew));
        batches.take(wanted, tree, 1 << 20, 0).len()
    };
    assert_eq!(first(&batches, &tree, &mut wanted), 290);
    for unread in [145, 72, 36, 18, 9, 4, 2, 1, 1] {
        batches.fail();
        assert_eq!(first(&batches, &tree, &mut wanted), unread);
    }
    // The same holds for nodes that were small when they were last read.
    tree.found(
        &path("/r"),
        Found::Node(Vec::new(), Stat::default()),
        Listing::IfNew,
        &[],
    );
    for leaf in 0..600 {
        tree.found(
            &leaf_path(leaf),
            Found::Node(Vec::new(), Stat::default()),
            Listing::IfNew,
            &[],
        );
    }
    assert_eq!(first(&batches, &tree, &mut wanted), 1);
    for known in [9, 17, 25] {
        batches.learn(0, 0);
        assert_eq!(first(&batches, &tree, &mut wanted), known);
    }
}

#[test]
fn batches_bound_the_size_of_requests_and_replies() {
    let mut tree = tree();
    let mut batches = Batches::new();
    let mut wanted = Wanted::new();
    tree.found(
        &path("/r"),
        Found::Node(Vec::new(), Stat::default()),
        Listing::IfNew,
        &[],
    );
    let sizes =
        |leaves: usize, wanted: &mut Wanted, batches: &Batches, tree: &Tree, max_request| {
            (0..leaves).for_each(|leaf| want(wanted, leaf_path(leaf), Listing::IfNew));
            let mut sizes = Vec::new();
            while !wanted.is_empty() {
                let batch = batches.take(wanted, tree, max_request, 0);
                assert_eq!(operations(&batch).len(), batch.len());
                sizes.push(batch.len());
            }
            sizes
        };
    // The length of unread nodes is unknown.
    assert_eq!(
        sizes(40, &mut wanted, &batches, &tree, 1 << 20),
        [15, 15, 10]
    );
    for twice in [29, 57, 113, 224, 290, 290] {
        let batch = sizes(1_000, &mut wanted, &batches, &tree, 1 << 20)[0];
        batches.learn(batch, batch * 100);
        assert_eq!(
            sizes(1_000, &mut wanted, &batches, &tree, 1 << 20)[0],
            twice
        );
    }
    // A batch has at least one node, however small the request.
    assert_eq!(sizes(3, &mut wanted, &batches, &tree, 100), [1, 1, 1]);
    // The estimate increases immediately.
    batches.learn(1, 1 << 20);
    assert_eq!(
        sizes(10, &mut wanted, &batches, &tree, 1 << 20),
        [3, 3, 3, 1]
    );
    // While a request is in flight, the next has only known nodes.
    for leaf in 0..1_200 {
        tree.found(
            &leaf_path(leaf),
            Found::Node(Vec::new(), Stat::default()),
            Listing::IfNew,
            &[],
        );
    }
    (1_190..1_220).for_each(|leaf| want(&mut wanted, leaf_path(leaf), Listing::IfNew));
    let batch_sizes =
        [1, 1, 0].map(|in_flight| batches.take(&mut wanted, &tree, 1 << 20, in_flight).len());
    assert_eq!(batch_sizes, [10, 0, 3]);
    assert_eq!(wanted.len(), 17);
    wanted.clear();
    assert_eq!(
        sizes(1_200, &mut wanted, &batches, &tree, 1 << 20),
        [512, 512, 176]
    );
    // For known nodes, the stats have the lengths.
    let mut stat = Stat::default();
    stat.mzxid = 1;
    stat.data_length = 1 << 20;
    for leaf in 0..4 {
        tree.found(
            &leaf_path(leaf),
            Found::Node(Vec::new(), stat),
            Listing::IfNew,
            &[],
        );
    }
    assert_eq!(sizes(4, &mut wanted, &batches, &tree, 1 << 20), [3, 1]);
}
