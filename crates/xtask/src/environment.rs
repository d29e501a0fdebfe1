//! Prepares the other clients for the bench, and prints their locations.

use crate::{clients::Client, prepare};

/// Prepares ZooKeeper and the named clients. Prints the environment variables with the clients' locations, one
/// `NAME=value` per line.
pub(crate) fn run(names: &[String]) -> Result<(), String> {
    // All names are checked before anything is installed.
    let clients = names.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
    prepare::prepare()?;
    for client in clients {
        for (variable, value) in client.prepare()?.variables {
            println!("{variable}={}", value.to_string_lossy());
        }
    }
    Ok(())
}

fn named(name: &str) -> Result<Client, String> {
    let known = || Client::ALL.map(Client::name).join(", ");
    let client = Client::ALL.into_iter().find(|client| client.name() == name);
    client.ok_or_else(|| format!("`{name}` is not a client that can be prepared; give some of {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_client_is_refused_with_the_names_of_the_known_ones() {
        let refused = run(&["kazoo".to_owned(), "etcd".to_owned()]).unwrap_err();
        assert!(refused.contains("`etcd` is not a client") && refused.contains("curator, go, kazoo"), "{refused}");
        assert_eq!(named("go"), Ok(Client::Go));
    }
}
