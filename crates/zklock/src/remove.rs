//! `zklock revoke` asks the holders to release a lock; `zklock break` deletes a holder's node.

use std::io::{self, IsTerminal as _, Write as _};

use curator_recipes::client::{CuratorClient, Error as ClientError};
use curator_recipes::revoke as ask;

use crate::arguments::Break;
use crate::contended::{LockContenders, Node, NodeStat, read};
use crate::failure::{Code, Failure};
use crate::print::{PATH, print, printable};
use crate::time::text;

/// The nodes of all holders of the locks at a path. An error if there is no holder.
async fn holders(client: &CuratorClient, path: &str) -> Result<Vec<Node>, Failure> {
    let found = read(client, path).await?;
    found.print_unreadable()?;
    let holders: Vec<_> = found
        .locks
        .iter()
        .flat_map(LockContenders::holders)
        .cloned()
        .collect();
    let none = || Failure::new(Code::NotAcquired, format!("{path}: no client holds it"));
    if holders.is_empty() {
        Err(none())
    } else {
        Ok(holders)
    }
}

/// Requests the lock from all holders, and does not wait until they release it.
pub(crate) async fn revoke(path: &str, client: &CuratorClient) -> Result<u8, Failure> {
    for node in holders(client, path).await? {
        match ask(client, &client.resolve(&node.path)?).await {
            Err(curator_recipes::Error::Client(ClientError::NoNode { .. })) => {}
            asked => {
                asked?;
                print(&format!(
                    "asked {} to release {}\n",
                    node.contender,
                    printable(&node.path, PATH)
                ))?;
            }
        }
    }
    Ok(0)
}

/// Deletes the node of the holder with the token of `--if-token`.
pub(crate) async fn break_lock(arguments: &Break, client: &CuratorClient) -> Result<u8, Failure> {
    let Break {
        path,
        if_token,
        yes,
    } = arguments;
    let holders = holders(client, path).await?;
    let seen = || {
        holders
            .iter()
            .filter_map(|node| Some((node, node.stat.as_ref()?)))
    };
    if seen().next().is_none() {
        let message = format!(
            "{path}: not broken, as this client is not permitted to read the holder's token"
        );
        return Err(Failure::new(Code::NoConnection, message));
    }
    let Some((node, stat)) = seen().find(|(_, stat)| stat.token == *if_token) else {
        let tokens: Vec<_> = seen().map(|(_, stat)| stat.token.to_string()).collect();
        let tokens = tokens.join(", ");
        let message = format!(
            "{path}: the holder has token {tokens}, not {if_token}: the lock has changed hands, and is not broken"
        );
        return Err(Failure::new(Code::NotAcquired, message));
    };
    if !yes && !is_confirmed(path, node, stat)? {
        return Err(Failure::new(
            Code::NotAcquired,
            format!("{path}: not broken"),
        ));
    }
    match client
        .delete()
        .with_version(stat.version)
        .for_path(&node.path)
        .await
    {
        Err(ClientError::NoNode { .. }) => {
            return Err(Failure::new(
                Code::NotAcquired,
                format!("{path}: its holder has released it meanwhile"),
            ));
        }
        Err(ClientError::BadVersion { .. }) => {
            return Err(Failure::here(format!(
                "{path}: the node has changed meanwhile; check it again with `zklock ls`"
            )));
        }
        deleted => deleted?,
    }
    print(&format!(
        "broke {}: deleted {}\n",
        printable(path, PATH),
        printable(&node.path, PATH)
    ))?;
    Ok(0)
}

/// Asks for confirmation on the terminal.
fn is_confirmed(path: &str, node: &Node, stat: &NodeStat) -> Result<bool, Failure> {
    let failed = |error: io::Error| Failure::here(format!("cannot ask for confirmation: {error}"));
    if !io::stdin().is_terminal() {
        return Err(Failure::here(format!(
            "{path}: not broken, as there is no terminal for the confirmation; pass --yes"
        )));
    }
    let path = printable(path, PATH);
    let age = text(stat.age());
    let question = format!(
        "{} holds {path}; its node is {age} old (session {}).\n\
         zklock does not stop the holder: it may continue its work until it detects the loss, while the next holder starts.\n\
         Only stores that check tokens refuse its late writes. `zklock revoke` requests a release instead.\n\
         Break the lock? [y/N] ",
        node.contender, stat.session
    );
    io::stderr()
        .write_all(question.as_bytes())
        .map_err(failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(is_yes(&answer))
}

/// Whether an answer to `[y/N]` is yes.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"]
        .iter()
        .any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_is_accepted_in_upper_and_lower_case_and_everything_else_is_no() {
        assert_eq!(["y\n", "Y\n", "yes", " YES\n"].map(is_yes), [true; 4]);
        assert_eq!(["\n", "", "n\n", "ye\n", "y es\n"].map(is_yes), [false; 5]);
    }
}
