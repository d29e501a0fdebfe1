//! Checks that tokio selects no order at random in the crates that run in a simulation: its random
//! numbers have no seed, but a simulation must repeat a run exactly.
//!
//! - `select!` without `biased` selects its first branch at random. The macros of `futures`,
//!   `select!` and `stream_select!`, always do.
//! - `tokio::sync::watch` wakes its receivers in a random order. The crates use
//!   `curator_client::source::watch` instead.
//!
//! Other code that cannot be repeated consists of methods and types, which Clippy finds: see
//! `clippy.toml`. With one thread, tokio makes no other random choice: `join!` rotates, and its
//! other channels and locks wake their waiters in order.

use proc_macro2::{TokenStream, TokenTree, TokenTree::*};

/// The directories of the code that runs in a simulation.
const FOLDERS: [&str; 8] = [
    "curator-client/src",
    "curator-discovery/src",
    "curator-protocol/src",
    "curator-recipes/src",
    "curator-simulation/src",
    "curator-test/src/embedded/processor",
    "curator-test/src/embedded/tree",
    "curator-test/src/simulation",
];

/// Re-exports tokio's channel for builds without a simulation.
const SOURCE: &str = "curator-client/src/source.rs";

/// The beginning of each piece of code that selects an order at random.
fn drawn(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let is_word = |token: &TokenTree, name: &str| matches!(token, Ident(word) if word == name);
    let mut found = Vec::new();
    let mut rest = &tokens[..];
    while let [token, next @ ..] = rest {
        rest = next;
        match (token, next) {
            (Ident(name), [Punct(_), Group(branches), ..])
                if name == "select" || name == "stream_select" =>
            {
                let branches = branches.stream();
                if !branches
                    .clone()
                    .into_iter()
                    .next()
                    .is_some_and(|first| is_word(&first, "biased"))
                {
                    found.push(format!(
                        "{name}! {}",
                        branches.to_string().chars().take(60).collect::<String>()
                    ));
                }
            }
            (Ident(name), [Punct(_), Punct(_), Group(names), ..])
                if name == "sync"
                    && names
                        .stream()
                        .into_iter()
                        .any(|name| is_word(&name, "watch")) =>
            {
                found.push("sync::{watch}".to_owned());
            }
            (Ident(name), [Punct(_), Punct(_), item, ..])
                if name == "sync" && (is_word(item, "watch") || item.to_string() == "*") =>
            {
                found.push(format!("sync::{item}"));
            }
            (Group(group), _) => found.extend(drawn(group.stream())),
            _ => {}
        }
    }
    found
}

#[test]
fn no_order_is_drawn_by_tokio() {
    for folder in FOLDERS {
        for (file, text) in
            crate::layers::sources_of(&crate::workspace().join("crates").join(folder))
        {
            let file = format!("{folder}/{file}");
            assert!(
                file == SOURCE || drawn(text.parse().unwrap()).is_empty(),
                "{file}: {:?}",
                drawn(text.parse().unwrap())
            );
        }
    }
}

#[test]
fn an_order_that_is_drawn_is_found() {
    let found = |text: &str| drawn(text.parse().unwrap()).join("; ");
    assert_eq!(
        found("fn f() { tokio::select! { biased; a = b => select! { c = d => {} } } }"),
        "select! c = d => { }"
    );
    assert_eq!(
        found("futures_util::stream_select!(a, b)"),
        "stream_select! a , b"
    );
    assert_eq!(
        found("use tokio::sync::{mpsc, watch}; use tokio::sync::watch::Sender;"),
        "sync::{watch}; sync::watch"
    );
    assert_eq!(found("use tokio::sync::*;"), "sync::*");
    assert_eq!(
        found(
            "/// select! { a = b => {} }\nuse crate::source::watch; use std::sync::{Arc, Mutex};"
        ),
        ""
    );
}
