//! Checks that the pages for operators contain each error and each warning.

use std::fs;

use crate::layers::sources_of;
use crate::workspace;

/// How many characters of a message a page must contain.
const LONG: usize = 45;

/// The message of each call of `warn!` or `error!`, up to its first placeholder and to [`LONG`]
/// characters.
fn warnings(source: &str) -> Vec<&str> {
    let calls = source
        .match_indices("tracing::warn!(")
        .chain(source.match_indices("tracing::error!("));
    calls
        .filter_map(|(at, _)| {
            let text = source[at..].split(");").next()?.split('"').nth(1)?;
            let text = text.split('{').next()?.trim_end();
            Some(
                text.char_indices()
                    .nth(LONG)
                    .map_or(text, |(end, _)| &text[..end]),
            )
        })
        .collect()
}

/// The variants of `pub enum Error` in a source.
fn variants(source: &str) -> Vec<&str> {
    source
        .split("pub enum Error {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .map(|line| {
            line.split(|letter: char| !letter.is_ascii_alphanumeric())
                .next()
                .unwrap_or_default()
        })
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(workspace().join(file)).unwrap()
}

#[test]
fn the_runbook_names_each_error() {
    let runbook = read("docs/operations/runbook.md");
    let client = read("crates/curator-client/src/error.rs");
    let recipes = read("crates/curator-recipes/src/error.rs");
    let all = [variants(&client), variants(&recipes)].concat();
    assert!(all.len() > 50, "{all:?}");
    let missing: Vec<_> = all
        .into_iter()
        .filter(|name| *name != "Client" && !runbook.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_production_page_contains_each_log_warning() {
    let page = read("docs/production.md");
    let mut found = 0;
    let sources =
        ["client", "recipes", "discovery"].map(|package| format!("crates/curator-{package}/src"));
    for (file, source) in sources
        .iter()
        .flat_map(|folder| sources_of(&workspace().join(folder)))
    {
        for message in warnings(&source) {
            found += 1;
            assert!(
                page.contains(message),
                "{message:?} of {file} is not in docs/production.md"
            );
        }
    }
    assert!(found > 15, "{found}");
}
