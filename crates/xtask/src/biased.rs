//! Checks that `select!` polls its branches in the order in which they are written: a simulation repeats a run exactly.
//!
//! Without `biased`, tokio draws the first branch by a random number that no seed determines. The other things that a
//! simulation cannot repeat are methods, which Clippy finds: `clippy.toml`.

use proc_macro2::{TokenStream, TokenTree::*};

/// The crates that run in a simulation.
const CRATES: [&str; 4] = ["curator-client", "curator-discovery", "curator-protocol", "curator-recipes"];

/// The starts of the macros `select` that do not begin with `biased`.
fn unbiased(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Group(group) = token else { continue };
        if let Some([Ident(name), Punct(_)]) = at.checked_sub(2).map(|start| &tokens[start..at])
            && name == "select"
            && !matches!(group.stream().into_iter().next(), Some(Ident(first)) if first == "biased")
        {
            found.push(group.to_string().chars().take(60).collect());
        }
        found.extend(unbiased(group.stream()));
    }
    found
}

#[test]
fn every_select_is_biased() {
    for name in CRATES {
        let mut files = Vec::new();
        crate::layers::read(&crate::workspace().join("crates").join(name).join("src"), "", &mut files);
        for (file, text) in files {
            assert_eq!(unbiased(text.parse().unwrap()), [""; 0], "{name}/src/{file}: without `biased;`");
        }
    }
}

#[test]
fn a_select_that_is_not_biased_is_found() {
    let inner = "select! { biased; a = b => {} }";
    let text = format!("fn f() {{ tokio::select! {{ x = y => {{ {inner} select! {{ c = d => {{}} }} }} }} }}");
    let found = unbiased(text.parse().unwrap());
    assert!(found.len() == 2 && found[0].starts_with("{ x = y") && found[1].starts_with("{ c = d"), "{found:?}");
}
