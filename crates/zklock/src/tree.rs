//! `zklock tree`: prints the locks below a node.
//!
//! Many directories are read concurrently, starting with the ones that are printed next. The lines
//! of a directory that is read early wait for their turn to be printed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use curator_recipes::client::{CuratorClient, Error as ClientError};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::arguments::Tree;
use crate::contended::{Found, LockContenders, among};
use crate::contender::{Kind, LEASES, LOCKS};
use crate::failure::{Code, Failure};
use crate::list::{json_of_lock, line};
use crate::print::{print, print_message};

/// The maximum number of directories that are read concurrently.
const AT_ONCE: usize = 64;
/// The maximum number of directories of locks that wait to be printed. A directory that is printed
/// before all of them is read even beyond this number.
const MOST_READ: usize = 1_000;
/// The most unreadable nodes that are named.
const MOST_NAMED: usize = 10;

/// Prints a line for each lock below a node, and the nodes that this client is not permitted to
/// read. Returns the exit code: whether there are locks, or [`Code::NoConnection`] if only
/// unreadable nodes can have locks.
pub(crate) async fn tree(tree: &Tree, client: &CuratorClient) -> Result<u8, Failure> {
    let mut search = Search::at(&tree.root);
    let mut reading = FuturesUnordered::new();
    let mut unreadable = BTreeSet::<String>::new();
    let mut has_any = false;
    loop {
        while reading.len() < AT_ONCE
            && let Some(path) = search.start()
        {
            reading.push(async { (visit(client, &path).await, path) });
        }
        let Some((visited, path)) = reading.next().await else {
            break;
        };
        match visited? {
            Some(Visited {
                found:
                    Found {
                        locks,
                        unreadable: hidden,
                    },
                below,
            }) => {
                unreadable.extend(hidden);
                has_any |= !locks.is_empty();
                let lines: Result<String, Failure> = locks
                    .iter()
                    .map(|lock| {
                        if tree.json {
                            json_of_lock(lock)
                        } else {
                            Ok(line(lock))
                        }
                    })
                    .collect();
                search.finish(path, lines?, below);
            }
            None => {
                unreadable.insert(path.clone());
                search.finish(path, String::new(), Vec::new());
            }
        }
        while let Some(lines) = search.take() {
            print(&lines)?;
        }
    }
    for path in unreadable.iter().take(MOST_NAMED) {
        print_message(format_args!(
            "no permission to read {path}: locks below it are not shown"
        ));
    }
    if unreadable.len() > MOST_NAMED {
        print_message(format_args!(
            "no permission to read {} more nodes",
            unreadable.len() - MOST_NAMED
        ));
    }
    let is_complete = unreadable.is_empty();
    if !has_any && !tree.json {
        let part = if is_complete {
            ""
        } else {
            " among the nodes that this client may read"
        };
        print(&format!("{}: no locks{part}\n", tree.root))?;
    }
    Ok(match (has_any, is_complete) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => Code::NoConnection as u8,
    })
}

/// The locks and the children of a directory.
struct Visited {
    found: Found,
    /// The paths of the children that may have locks below them.
    below: Vec<String>,
}

/// Reads a directory; `None` if this client is not permitted to. A directory that was deleted is
/// empty.
async fn visit(client: &CuratorClient, path: &str) -> Result<Option<Visited>, Failure> {
    let names = match client.get_children(path).await {
        Err(ClientError::NoNode { .. }) => Vec::new(),
        Err(ClientError::NoAuth { .. }) => return Ok(None),
        names => names?,
    };
    let found = among(client, path, &names).await?;
    let is_semaphore = found.locks.iter().any(|lock| lock.kind == Kind::Semaphore);
    let contenders: HashSet<_> = found
        .locks
        .iter()
        .flat_map(LockContenders::leaves)
        .collect();
    let directory = path.trim_end_matches('/');
    let below = names
        .iter()
        .filter(|name| !(is_semaphore && [LEASES, LOCKS].contains(&name.as_str())));
    let below = below
        .map(|name| format!("{directory}/{name}"))
        .filter(|path| !contenders.contains(path.as_str()));
    let below = below.collect();
    Ok(Some(Visited { found, below }))
}

/// The order of a search: each node before its children, and children by name.
#[derive(Default)]
struct Search {
    waiting: BTreeSet<Place>,
    reading: BTreeSet<Place>,
    /// The lines of directories that are not printed yet.
    read: BTreeMap<Place, String>,
}

impl Search {
    fn at(root: &str) -> Self {
        Self {
            waiting: BTreeSet::from([Place(root.to_owned())]),
            ..Self::default()
        }
    }

    /// The directory to read next; `None` if there is none, or if enough directories wait for their
    /// turn to be printed.
    fn start(&mut self) -> Option<String> {
        let next = self.waiting.first()?;
        if self.read.len() >= MOST_READ
            && self
                .read
                .first_key_value()
                .is_some_and(|(read, _)| read < next)
        {
            return None;
        }
        let next = self.waiting.pop_first()?;
        self.reading.insert(next.clone());
        Some(next.0)
    }

    /// Records the lines and the children of a directory that was read.
    fn finish(&mut self, path: String, lines: String, below: Vec<String>) {
        let place = Place(path);
        self.reading.remove(&place);
        self.waiting.extend(below.into_iter().map(Place));
        if !lines.is_empty() {
            self.read.insert(place, lines);
        }
    }

    /// The lines to print next, if all directories before them were read.
    fn take(&mut self) -> Option<String> {
        let (next, _) = self.read.first_key_value()?;
        let unread = self
            .waiting
            .first()
            .into_iter()
            .chain(self.reading.first())
            .min();
        if unread.is_some_and(|unread| unread < next) {
            return None;
        }
        self.read.pop_first().map(|(_, lines)| lines)
    }
}

/// A path, in the order of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place(String);

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split('/').cmp(other.0.split('/'))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(search: &mut Search, path: &str, below: &[&str]) {
        search.finish(
            path.to_owned(),
            path.to_owned(),
            below.iter().map(|path| (*path).to_owned()).collect(),
        );
    }

    #[test]
    fn locks_are_printed_in_the_order_of_their_paths_whichever_is_read_first() {
        let mut search = Search::at("/");
        assert_eq!(search.start().as_deref(), Some("/"));
        assert_eq!(search.start(), None);
        finish(&mut search, "/", &["/a", "/a-b", "/c"]);
        assert_eq!(search.take().as_deref(), Some("/"));
        for path in ["/a", "/a-b", "/c"] {
            assert_eq!(search.start().as_deref(), Some(path));
        }
        finish(&mut search, "/c", &[]);
        finish(&mut search, "/a-b", &[]);
        assert_eq!(search.take(), None);
        finish(&mut search, "/a", &["/a/z"]);
        assert_eq!(
            (search.take().as_deref(), search.take()),
            (Some("/a"), None)
        );
        assert_eq!(search.start().as_deref(), Some("/a/z"));
        finish(&mut search, "/a/z", &[]);
        let rest: Vec<_> = std::iter::from_fn(|| search.take()).collect();
        assert_eq!(rest, ["/a/z", "/a-b", "/c"]);
    }

    #[test]
    fn what_is_read_early_is_bounded_but_the_next_directory_is_always_read() {
        let mut search = Search::at("/");
        search.start().unwrap();
        let paths: Vec<_> = (0..2 * MOST_READ)
            .map(|number| format!("/{number:05}"))
            .collect();
        search.finish("/".to_owned(), String::new(), paths.clone());
        let first = search.start().unwrap();
        for _ in 0..MOST_READ {
            let path = search.start().unwrap();
            finish(&mut search, &path, &[]);
        }
        assert_eq!((search.start(), search.take()), (None, None));
        search.finish(first, String::new(), vec!["/00000/below".to_owned()]);
        assert_eq!(search.start().as_deref(), Some("/00000/below"));
        assert_eq!((search.start(), search.take()), (None, None));
    }
}
