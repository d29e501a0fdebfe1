//! Collects the code on the documentation pages, so that the tests of this package compile it as
//! users paste it: in a spawned task, and in a function that returns the error type of a recipe.
//!
//! The documentation tests compile the same blocks unchanged, but do not run the tests in them.
//! Here, each `async fn` becomes a function whose future must be `Send` for all arguments that its
//! signature accepts.
//!
//! One page tests a service in simulated time, and shows how the test of a defective service fails.
//! That defective service is also compiled here.

use std::path::{Path, PathBuf};
use std::{env, fs};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut modules = String::new();
    for page in pages(&PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../.."))? {
        println!("cargo::rerun-if-changed={}", page.display());
        for (line, block) in blocks(&fs::read_to_string(&page)?) {
            let name = page
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .replace('-', "_");
            if block.contains(SIMULATED_TEST) {
                modules += &format!("pub mod late_write {{\n{}}}\n", with_late_write(&block)?);
            }
            let block = spawnable(&block)
                .map_err(|problem| format!("{}:{line}: {problem}", page.display()))?;
            let condition = if NEEDS_ALL_FEATURES.iter().any(|text| block.contains(text)) {
                "#[cfg(feature = \"full\")]\n"
            } else {
                ""
            };
            modules += &format!(
                "{condition}mod {}_{}_{line} {{\n{block}}}\n",
                name.to_lowercase(),
                modules.len()
            );
        }
    }
    fs::write(
        PathBuf::from(env::var("OUT_DIR")?).join("pages.rs"),
        modules,
    )?;
    Ok(())
}

/// A block that contains one of these texts is compiled only with the feature `full`.
const NEEDS_ALL_FEATURES: [&str; 2] = ["TlsOptions", "tonic::"];

fn pages(workspace: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut pages: Vec<_> = [
        "",
        "crates/curator-client",
        "crates/curator-discovery",
        "crates/curator-recipes",
        "crates/curator-test",
        "examples",
    ]
    .iter()
    .map(|package| workspace.join(package).join("README.md"))
    .collect();
    for folder in ["docs", "docs/locks"] {
        // Cargo runs this script again when a page is added to the directory.
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(folder).display()
        );
        for entry in fs::read_dir(workspace.join(folder))? {
            pages.push(entry?.path());
        }
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    Ok(pages)
}

/// The Rust blocks on a page, each with the line number of its opening fence.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((opening, number)) = lines.next() {
        if opening.trim_start().starts_with("```rust") {
            let block = lines
                .by_ref()
                .map(|(line, _)| line)
                .take_while(|line| line.trim() != "```");
            blocks.push((number, block.flat_map(|line| [line, "\n"]).collect()));
        }
    }
    blocks
}

/// The attribute before the `main` function of a program.
const MAIN: &str = "#[tokio::main]\n";
/// The lines before a `main` function that stands for a test. The body of a test is not spawned.
const TEST: &str = "// In a test: `#[tokio::test]`.\n#[tokio::main]\n";
/// The attribute before a test in simulated time. Such a test is run here, and itself spawns the
/// code that it tests.
const SIMULATED_TEST: &str = "#[tokio::test(start_paused = true)]\n";

/// Replaces each `async fn` of the block by a function that returns a future that is `Send`.
fn spawnable(block: &str) -> Result<String, Failure> {
    if block.contains(SIMULATED_TEST) {
        return Ok(block.to_owned());
    }
    if !block.contains("fn main()") && block.contains("Box<dyn") {
        return Err(
            "only a whole program may return `Box<dyn Error>`: return the error type of the recipe"
                .into(),
        );
    }
    let mut parts = block.split("async fn ");
    let mut spawnable = parts.next().unwrap_or_default().to_owned();
    for function in parts {
        if spawnable.ends_with(TEST) {
            spawnable += &format!("async fn {function}");
            continue;
        }
        spawnable.truncate(spawnable.trim_end_matches(MAIN).len());
        let (arguments, rest) = function
            .split_once(") -> ")
            .ok_or("a function has no return type")?;
        let (header, rest) = rest
            .split_once("{\n")
            .ok_or("the body of a function was not found")?;
        let (body, rest) = rest
            .split_once("\n}\n")
            .ok_or("the end of a function was not found")?;
        let (output, bounds) = header.split_once("\nwhere").unwrap_or((header, ""));
        let bounds = if bounds.is_empty() {
            String::new()
        } else {
            format!("where {bounds}")
        };
        spawnable += &format!(
            "fn {arguments}) -> impl Future<Output = {output}> + Send {bounds} {{ async move {{\n{body}\n}} }}\n{rest}"
        );
    }
    Ok(spawnable)
}

/// The service with a defect, a write without `guard.run(..)`, and its tests as functions.
fn with_late_write(block: &str) -> Result<String, Failure> {
    let guarded = "guard.run(ledger.write(guard.fencing_token(), id)).await?;";
    let unguarded = "ledger.write(guard.fencing_token(), id).await;";
    let test = "#[test]\nfn";
    if !block.contains(guarded) || !block.contains(test) {
        return Err("the write under the guard, or the search for a late one, is missing".into());
    }
    Ok(block
        .replace(guarded, unguarded)
        .replace(SIMULATED_TEST, "")
        .replace(test, "pub fn"))
}
