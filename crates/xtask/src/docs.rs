//! Writes the generated parts of pages: the tables of files, features, costs and results, and the
//! list of decisions.

use std::fs;
use std::path::{Path, PathBuf};

use curator_results::faults::Results;
use serde::de::DeserializeOwned;

use crate::costs::TABLES;
use crate::files::{files, read};

/// The start of a generated part, which contains its name. The part ends with `END`.
const BEGIN: &str = "<!-- cargo xtask docs: ";
const END: &str = "<!-- end -->";

/// Regenerates the generated parts of all pages.
pub(crate) fn write() -> Result<(), String> {
    let mut changed = 0;
    for path in pages()? {
        let page = read(&path)?;
        let written = rewritten(&page, &crate::workspace())
            .map_err(|e| format!("{}: {e}", path.display()))?;
        if written != page {
            fs::write(&path, written)
                .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
            crate::print_line(&format!("{} has changed", path.display()));
            changed += 1;
        }
    }
    if changed == 0 {
        crate::print_line("the pages are up to date");
    }
    Ok(())
}

/// The pages that may contain generated parts.
fn pages() -> Result<Vec<PathBuf>, String> {
    let mut paths = files(&crate::workspace().join("docs"))?;
    paths.push(crate::workspace().join("README.md"));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(paths)
}

fn rewritten(page: &str, workspace: &Path) -> Result<String, String> {
    let mut parts = page.split(BEGIN);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let no_end = || format!("a generated part has no `-->` or no `{END}`");
        let (name, rest) = part.split_once(" -->").ok_or_else(no_end)?;
        let (_, after) = rest.split_once(END).ok_or_else(no_end)?;
        let table = match name.split_once(' ') {
            Some(("costs", table)) => costs(table)?,
            Some(("files", folder)) => sources(&workspace.join(folder))?,
            Some(("bench", file)) => {
                curator_results::bench::markdown(&parsed(&workspace.join(file))?)
            }
            Some(("faults", names)) => {
                faults(&parsed(&workspace.join("docs/faults/results.json"))?, names)?
            }
            Some(("features", package)) => {
                features(&read(&workspace.join(package).join("Cargo.toml"))?)?
            }
            None if name == "decisions" => decisions(&workspace.join("docs/adr"))?,
            _ => {
                return Err(format!(
                    "unknown part {name:?}: expected `bench <file>`, `costs <table>`, `decisions`, `faults <section> <table>`, \
                     `features <package>` or `files <folder>`"
                ));
            }
        };
        written += &format!("{BEGIN}{name} -->\n\n{table}\n{END}{after}");
    }
    Ok(written)
}

/// A table of the published runs under faults. `names` are its section and its name, such as `locks
/// recovery`.
fn faults(results: &Results, names: &str) -> Result<String, String> {
    let (section, table) = names.split_once(' ').unwrap_or((names, ""));
    let summary = results
        .get(section)
        .ok_or_else(|| format!("results.json has no section {section:?}"))?;
    let tables = summary.tables();
    let known: Vec<_> = tables.iter().map(|(name, _)| *name).collect();
    tables
        .iter()
        .find(|(name, _)| *name == table)
        .map(|(_, table)| table.markdown())
        .ok_or_else(|| {
            format!(
                "unknown table {table:?}: expected one of {}",
                known.join(", ")
            )
        })
}

fn parsed<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    serde_json::from_str(&read(path)?).map_err(|e| format!("cannot parse {}: {e}", path.display()))
}

/// Each source in the directory, with the first sentence of its documentation.
fn sources(folder: &Path) -> Result<String, String> {
    let paths = files(folder)?;
    let name = |path: &Path| {
        path.strip_prefix(folder)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    let mut names: Vec<_> = paths
        .iter()
        .map(|path| name(path))
        .filter(|name| is_source(name))
        .collect();
    // The `mod.rs` of a directory comes before the directory's other files.
    names.sort_by_key(|name| {
        name.trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .to_owned()
    });
    let mut table = "| File | What it does |\n|---|---|\n".to_owned();
    for name in names {
        let sentence = first_sentence(&read(&folder.join(&name))?);
        let sentence = sentence.ok_or_else(|| {
            format!(
                "{name} in {}: expected `//!` in the first line",
                folder.display()
            )
        })?;
        table += &format!("| `{name}` | {sentence} |\n");
    }
    Ok(table)
}

/// A table of the manifest's features, each with the comment above it.
fn features(manifest: &str) -> Result<String, String> {
    let section = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1);
    let mut table = "| Feature | What it adds |\n|---|---|\n".to_owned();
    let mut comment = String::new();
    let mut default = "";
    for line in section.take_while(|line| !line.starts_with('[')) {
        match (line.strip_prefix('#'), line.split_once(" = ")) {
            // An empty comment line ends the comment on the section.
            (Some(""), _) => comment.clear(),
            (Some(text), _) => comment += text,
            (None, Some(("default", list))) => default = list,
            (None, Some((name, _))) if comment.is_empty() => {
                return Err(format!("the feature {name}: expected a comment"));
            }
            (None, Some((name, _))) => {
                let by_default = if default.contains(&format!("\"{name}\"")) {
                    " (default)"
                } else {
                    ""
                };
                table += &format!(
                    "| `{name}`{by_default} |{} |\n",
                    std::mem::take(&mut comment)
                );
            }
            (None, None) => {}
        }
    }
    Ok(table)
}

/// A table of the requests of each operation, next to Curator's if they are known.
fn costs(table: &str) -> Result<String, String> {
    let found = TABLES.iter().find(|(name, _)| *name == table);
    let (_, rows) = found.ok_or_else(|| format!("costs.rs has no table {table:?}"))?;
    let has_curator = rows.iter().any(|row| row.curator.is_some());
    let (head, line) = if has_curator {
        (" Curator 5.9: requests | round trips |", "---|---|")
    } else {
        Default::default()
    };
    let mut written =
        format!("| | What is sent | Requests | Round trips |{head}\n|---|---|---|---|{line}\n");
    for row in *rows {
        // `false` omits the requests that are sent only to old servers.
        let pipelines = row.pipelines(false);
        let requests: u64 = pipelines.iter().flatten().map(|(_, number)| number).sum();
        written += &format!(
            "| {} | {} | {requests} | {} |",
            row.name,
            row.sends,
            pipelines.len()
        );
        if let Some((requests, round_trips)) = row.curator {
            written += &format!(" {requests} | {round_trips} |");
        }
        written += "\n";
    }
    Ok(written)
}

/// Whether the file is a Rust source outside the tests.
fn is_source(name: &str) -> bool {
    name.ends_with(".rs")
        && !name
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
}

fn first_sentence(source: &str) -> Option<String> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//! "));
    let paragraph = lines.collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    Some(paragraph[..end].replace('|', "\\|")).filter(|sentence| !sentence.is_empty())
}

/// A table of the decisions in order, with their titles.
fn decisions(folder: &Path) -> Result<String, String> {
    let mut table = "| | |\n|---|---|\n".to_owned();
    for path in files(folder)? {
        let text = read(&path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let title = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# ")?.split_once(": "));
        let (number, title) = title
            .ok_or_else(|| format!("{file}: expected `# <number>: <title>` in the first line"))?;
        table += &format!("| [{number}](adr/{file}) | {title} |\n");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Operation;

    #[test]
    fn the_generated_parts_of_the_pages_are_up_to_date() {
        for path in pages().unwrap() {
            let page = read(&path).unwrap();
            let written = rewritten(&page, &crate::workspace());
            assert!(
                written.unwrap() == page,
                "{} is not up to date: cargo xtask docs",
                path.display()
            );
        }
    }

    #[test]
    fn every_documented_cost_is_named_by_a_test() {
        // rustfmt ends a tuple on several lines with a comma.
        let without_blanks = |text: &str| {
            text.split_whitespace()
                .collect::<String>()
                .replace(",)", ")")
        };
        let tests = files(&crate::workspace().join("crates/curator-recipes/tests/server")).unwrap();
        let tests: String = tests
            .iter()
            .map(|test| without_blanks(&read(test).unwrap()))
            .collect();
        for (table, rows) in TABLES {
            for row in *rows {
                let named = format!("({table:?}, {:?})", row.name);
                assert!(
                    tests.contains(&without_blanks(&named)),
                    "no test names {named}"
                );
            }
        }
    }

    #[test]
    fn every_table_of_costs_is_on_a_page() {
        let texts: String = pages()
            .unwrap()
            .iter()
            .map(|path| read(path).unwrap())
            .collect();
        for (table, _) in TABLES {
            let part = format!("{BEGIN}costs {table} -->");
            assert!(texts.contains(&part), "no page contains {part}");
        }
    }

    #[test]
    fn a_cost_is_counted_from_the_requests_that_are_sent() {
        // Three pipelines of requests, separated by `; `, and an event. The pipeline in brackets is
        // sent only to old servers, which `true` stands for below. `Operation::sends` describes
        // this notation.
        let row = Operation {
            name: "a",
            sends: "create, 4 looks at it; the event; list; (look)",
            curator: None,
        };
        let [first, list, look] = [
            vec![("create", 1), ("look", 4)],
            vec![("list", 1)],
            vec![("look", 1)],
        ];
        assert_eq!(row.pipelines(false), [first.clone(), list.clone()]);
        assert_eq!(row.pipelines(true), [first, list, look]);
        let mutex = "| mutex | create, list; delete | 3 | 2 | 3 | 3 |\n";
        assert!(costs("cycles").unwrap().contains(mutex));
        assert!(
            costs("mutex")
                .unwrap()
                .contains("| re-entry | nothing | 0 | 0 |\n")
        );
        costs("no").unwrap_err();
    }

    #[test]
    fn a_feature_is_described_by_the_comment_above_it() {
        let manifest = "[package]\n[features]\ndefault = [\"a\"]\n# Of all.\n#\n# one\n# thing\na = []\n# two\nb = [\"c/b\"]\n\n[lints]\n";
        let table = features(manifest).unwrap();
        assert!(
            table.ends_with("|---|---|\n| `a` (default) | one thing |\n| `b` | two |\n"),
            "{table}"
        );
        features("[features]\na = []\n").unwrap_err();
    }

    #[test]
    fn only_the_text_between_the_marks_of_a_part_is_rewritten() {
        let decisions = format!("a\n{BEGIN}decisions -->the old text{END}\nb");
        let written = rewritten(&decisions, &crate::workspace()).unwrap();
        assert!(
            written.starts_with(&format!("a\n{BEGIN}decisions -->\n\n| | |\n")),
            "{written}"
        );
        assert!(
            written.ends_with(&format!(" |\n\n{END}\nb")) && !written.contains("the old text"),
            "{written}"
        );
        assert!(written.contains("| [0022](adr/0022-"), "{written}");
        rewritten(&format!("{BEGIN}decisions -->"), &crate::workspace()).unwrap_err();
        for bad in [
            "tests",
            "files no",
            "bench no.json",
            "faults no runs",
            "faults locks",
            "faults locks no",
        ] {
            rewritten(&format!("{BEGIN}{bad} -->{END}"), &crate::workspace()).unwrap_err();
        }
    }

    #[test]
    fn a_file_is_described_by_the_first_sentence_of_its_docs() {
        let sentence = |source| first_sentence(source);
        assert_eq!(
            sentence("//! One | two,\n//! three. Four.\n//!\n//! Five.\n").unwrap(),
            "One \\| two, three."
        );
        assert_eq!(sentence("//! One\n//!\n//! two.").unwrap(), "One");
        assert_eq!(sentence("use std::fmt;\n//! One."), None);
        assert!(
            is_source("a/mod.rs")
                && !is_source("a/tests/b.rs")
                && !is_source("a/tests.rs")
                && !is_source("a.md")
        );
    }
}
