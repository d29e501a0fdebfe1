//! One flight of requests: sent together, answered together.

use std::collections::VecDeque;

use curator_client::{
    Created, NodeSpec, ReadOperation, ReadResult, Request as Sent, Stat, TransactionOperation, TransactionResult,
    Watch, ZPath,
};

use super::contest::{Answer, Request};
use super::own_node::OwnWatch;
use super::shell::Shell;
use crate::error::Result;

type ClientError = curator_client::Error;
type ClientResult<T> = curator_client::Result<T>;

/// Requests that are on their way.
pub(crate) struct Flight {
    creates: Creates,
    /// In the order of the contest's requests.
    requests: Vec<(usize, Flying)>,
    lists: Lists,
}

/// The nodes of all queues, in one request.
enum Creates {
    None,
    One(Sent<Created>),
    Several(Sent<Vec<TransactionResult>>),
}

/// The lists of all queues, and what is read beside them, in one request.
enum Lists {
    None,
    One(Sent<Vec<String>>),
    Several { request: Sent<Vec<ClientResult<ReadResult>>>, lists: usize },
}

enum Flying {
    /// Its answer is in [`Flight::creates`].
    Create,
    /// Its answer is in [`Flight::lists`].
    List,
    CreateParents,
    Sync(Sent<()>),
    Inspect(Sent<(Vec<u8>, Stat)>),
    WatchAhead(String, Sent<(Vec<u8>, Stat, Watch)>),
    WatchOwn(Sent<(Vec<u8>, Stat, Watch)>),
}

impl Flight {
    /// Creates first and lists last, as a contest has them in each of its flights.
    pub(super) fn send(
        shell: &mut Shell<'_>,
        requests: Vec<(usize, Request)>,
        beside: Vec<ReadOperation>,
    ) -> Result<Self> {
        let creating = requests.iter().filter(|(_, request)| *request == Request::Create).map(|(queue, _)| *queue);
        let creates = send_creates(shell, creating.collect())?;
        let listing = requests.iter().filter(|(_, request)| *request == Request::List).map(|(queue, _)| *queue);
        let listing: Vec<_> = listing.collect();
        let requests = requests.into_iter().map(|(queue, request)| Ok((queue, send_one(shell, queue, request)?)));
        let requests = requests.collect::<Result<_>>()?;
        Ok(Self { creates, requests, lists: send_lists(shell, listing, beside)? })
    }

    /// All the answers, in the order of the requests, and what was read beside.
    ///
    /// # Errors
    ///
    /// What trying again cannot mend. The rest becomes [`Answer::Unknown`], and [`Shell::failure`] says why.
    pub(super) async fn answers(
        self,
        shell: &mut Shell<'_>,
    ) -> Result<(Vec<(usize, Answer)>, Option<Vec<ClientResult<ReadResult>>>)> {
        let Self { creates, requests, lists } = self;
        let creating = requests.iter().filter(|(_, flying)| matches!(flying, Flying::Create)).map(|(queue, _)| *queue);
        let mut created: VecDeque<_> = created(shell, creating.collect(), creates).await?.into();
        let mut answers = Vec::with_capacity(requests.len());
        let mut indexes_of_lists = Vec::new();
        for (queue, flying) in requests {
            let answer = match flying {
                Flying::Create => created.pop_front().unwrap_or(Answer::Unknown),
                Flying::List => {
                    indexes_of_lists.push(answers.len());
                    Answer::Unknown
                }
                flying => {
                    let answer = answer(shell, queue, flying).await;
                    known(shell, answer)?
                }
            };
            answers.push((queue, answer));
        }
        let (listed, beside) = listed(shell, lists).await?;
        for (index, answer) in indexes_of_lists.into_iter().zip(listed) {
            answers[index].1 = answer;
        }
        Ok((answers, beside))
    }
}

fn send_creates(shell: &mut Shell<'_>, queues: Vec<usize>) -> Result<Creates> {
    let node = |queue: usize| shell.nodes.get(queue).cloned().ok_or_else(|| shell.no_such_queue(queue));
    let nodes = queues.into_iter().map(node).collect::<Result<Vec<NodeSpec>>>()?;
    if !nodes.is_empty() {
        shell.contender.arm();
    }
    Ok(match &*nodes {
        [] => Creates::None,
        [node] => Creates::One(shell.session.create(node)),
        _ => {
            let operations = nodes.into_iter().map(TransactionOperation::Create).collect();
            Creates::Several(shell.session.transact(operations))
        }
    })
}

fn send_one(shell: &Shell<'_>, queue: usize, request: Request) -> Result<Flying> {
    let session = shell.session;
    Ok(match request {
        Request::Create => Flying::Create,
        Request::List => Flying::List,
        Request::CreateParents => Flying::CreateParents,
        Request::Sync => {
            Flying::Sync(session.sync(shell.internals.dirs().get(queue).ok_or_else(|| shell.no_such_queue(queue))?))
        }
        Request::Inspect { name } => Flying::Inspect(session.get_data(&shell.child(queue, &name)?)),
        Request::WatchAhead { name } => {
            let request = session.watch_data(&shell.child(queue, &name)?);
            Flying::WatchAhead(name, request)
        }
        Request::WatchOwn { name } => Flying::WatchOwn(session.watch_data(&shell.child(queue, &name)?)),
    })
}

fn send_lists(shell: &Shell<'_>, queues: Vec<usize>, beside: Vec<ReadOperation>) -> Result<Lists> {
    let dir = |queue: usize| shell.internals.dirs().get(queue).ok_or_else(|| shell.no_such_queue(queue));
    let dirs = queues.into_iter().map(dir).collect::<Result<Vec<_>>>()?;
    Ok(match &*dirs {
        [] => Lists::None,
        [dir] if beside.is_empty() => Lists::One(shell.session.get_children(dir)),
        _ => {
            let lists = dirs.len();
            // What is read beside is read after the lists: so it is no older than they are.
            let reads = dirs.into_iter().cloned().map(ReadOperation::Children).chain(beside).collect();
            Lists::Several { request: shell.session.read_all(reads), lists }
        }
    })
}

async fn created(shell: &mut Shell<'_>, queues: Vec<usize>, creates: Creates) -> Result<Vec<Answer>> {
    let created = match creates {
        Creates::None => return Ok(Vec::new()),
        Creates::One(request) => request.await.map(|created| vec![created]),
        Creates::Several(request) => request.await.map(|results| results.into_iter().filter_map(made).collect()),
    };
    match created {
        Ok(created) => {
            let mut answers = Vec::with_capacity(created.len());
            for (queue, Created { path, stat, .. }) in queues.into_iter().zip(created) {
                answers.push(Answer::Created { name: path.name().to_owned(), czxid: stat.czxid });
                shell.contender.found(queue, vec![path]);
            }
            Ok(answers)
        }
        Err(error) => {
            let (failed, cause) = match &error {
                ClientError::TransactionFailed { index, cause } => (*index, &**cause),
                error => (0, error),
            };
            let answer = match cause {
                ClientError::NoNode { .. } => Answer::NoParent,
                ClientError::NodeExists { .. } => {
                    // The others need not know: the contest ends with this.
                    let mut answers = vec![Answer::Unknown; queues.len()];
                    answers.iter_mut().skip(failed).take(1).for_each(|answer| *answer = Answer::NameTaken);
                    return Ok(answers);
                }
                _ => known(shell, Err(error))?,
            };
            Ok(vec![answer; queues.len()])
        }
    }
}

fn made(result: TransactionResult) -> Option<Created> {
    match result {
        TransactionResult::Created(created) => Some(created),
        _ => None,
    }
}

async fn listed(shell: &mut Shell<'_>, lists: Lists) -> Result<(Vec<Answer>, Option<Vec<ClientResult<ReadResult>>>)> {
    Ok(match lists {
        Lists::None => (Vec::new(), None),
        Lists::One(request) => (vec![children(shell, request.await)?], None),
        Lists::Several { request, lists } => match request.await {
            Ok(mut results) => {
                let beside = results.split_off(lists.min(results.len()));
                let listed = results.into_iter().map(|result| children(shell, result.and_then(into_children)));
                (listed.collect::<Result<_>>()?, Some(beside))
            }
            Err(error) => (vec![known(shell, Err(error))?; lists], None),
        },
    })
}

fn into_children(result: ReadResult) -> ClientResult<Vec<String>> {
    match result {
        ReadResult::Children(children) => Ok(children),
        other => Err(ClientError::Unexpected {
            operation: "list",
            path: ZPath::root(),
            cause: format!("the answer is {other:?}"),
        }),
    }
}

fn children(shell: &mut Shell<'_>, listed: ClientResult<Vec<String>>) -> Result<Answer> {
    match listed {
        Err(ClientError::NoNode { .. }) => Ok(Answer::NoParent),
        listed => known(shell, listed.map(Answer::Children)),
    }
}

async fn answer(shell: &mut Shell<'_>, queue: usize, flying: Flying) -> ClientResult<Answer> {
    let found = match flying {
        // Answered elsewhere.
        Flying::Create | Flying::List => return Ok(Answer::Unknown),
        Flying::CreateParents => {
            let Some(dir) = shell.internals.dirs().get(queue) else { return Ok(Answer::Unknown) };
            return match shell.internals.client().ensure_containers(shell.session, dir).await {
                // The server has removed a container that was just made.
                Err(ClientError::NoNode { .. }) => Ok(Answer::NoParent),
                made => made.map(|()| Answer::ParentsReady),
            };
        }
        Flying::Sync(request) => request.await.map(|()| Answer::Synced),
        Flying::Inspect(request) => request.await.map(|(data, stat)| node(shell, queue, &data, &stat)),
        Flying::WatchAhead(name, request) => request.await.map(|(data, stat, watch)| {
            shell.watches.set_ahead(queue, name, watch);
            node(shell, queue, &data, &stat)
        }),
        Flying::WatchOwn(request) => request.await.map(|(data, stat, watch)| {
            shell.watches.set_own(queue, OwnWatch::new(&data, watch));
            node(shell, queue, &data, &stat)
        }),
    };
    match found {
        Err(ClientError::NoNode { .. }) => Ok(Answer::Missing),
        found => found,
    }
}

fn node(shell: &Shell<'_>, queue: usize, data: &[u8], stat: &Stat) -> Answer {
    Answer::Node {
        ephemeral_owner: stat.ephemeral_owner,
        czxid: stat.czxid,
        is_ours: shell.contender.matches_data(queue, data),
    }
}

/// An answer that is not known is tried for again, where that can help.
fn known(shell: &mut Shell<'_>, answer: ClientResult<Answer>) -> Result<Answer> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(error) if error.is_retryable() => {
            shell.failure = Some(error);
            Ok(Answer::Unknown)
        }
        Err(error) => Err(error.into()),
    }
}
