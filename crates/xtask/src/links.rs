//! Checks that the links between pages lead to files and headings that exist.

use std::{fs, path::Path};

use crate::pages::pages;

/// The links on a page to files and headings, outside blocks of code.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("```").step_by(2).flat_map(|prose| {
        let inline = prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let defined = prose
            .lines()
            .filter(|line| line.starts_with('['))
            .filter_map(|line| line.split_once("]: "))
            .map(|(_, target)| target);
        inline.chain(defined).filter(|target| !target.contains(':'))
    })
}

/// Whether a heading of the page has this anchor.
fn has_heading(page: &str, anchor: &str) -> bool {
    page.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .eq(anchor.chars())
        })
}

/// Whether the file and the heading of `link` exist. `page` is the path of the page with the link,
/// `text` its text.
fn target_exists(page: &str, text: &str, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = crate::workspace()
        .join(page)
        .parent()
        .unwrap_or(Path::new(""))
        .join(file);
    let other = || fs::read_to_string(&file).unwrap_or_default();
    match (link.starts_with('#'), anchor) {
        (true, _) => has_heading(text, anchor),
        (false, "") => file.exists(),
        (false, _) => has_heading(&other(), anchor),
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut problems = Vec::new();
    for (page, text) in pages() {
        let broken = links(&text).filter(|link| !target_exists(&page, &text, link));
        problems.extend(broken.map(|link| format!("{page} links to {link}")));
    }
    assert_eq!(problems, [""; 0]);
}

/// The links on a page that do not resolve in the guide. rustdoc does not know the files of the
/// repository, so each link must use a label that the page's module defines. `module` is the source
/// of this module.
fn dead_in_guide(module: &str, page: &str) -> Vec<String> {
    let label = |line: &str| Some(line.strip_prefix('[')?.split_once("]: ")?.0.to_owned());
    let defined: Vec<_> = module
        .lines()
        .filter_map(|line| label(line.strip_prefix("/// ")?))
        .collect();
    let known: Vec<_> = page
        .lines()
        .filter(|line| label(line).is_some_and(|label| defined.contains(&label)))
        .filter_map(|line| Some(line.split_once("]: ")?.1))
        .collect();
    links(page)
        .filter(|link| !link.starts_with('#') && !known.contains(link))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_page_of_the_guide_has_dead_links() {
    let recipes = crate::workspace().join("crates/curator-recipes");
    let guide = fs::read_to_string(recipes.join("src/guide.rs")).unwrap();
    let mut problems = Vec::new();
    for module in guide.split("\npub mod ") {
        // A page may be included after its picture.
        let included = module.split("include_str!(\"../").skip(1);
        let Some(page) = included
            .filter_map(|rest| rest.split('"').next())
            .find(|file| file.ends_with(".md"))
        else {
            continue;
        };
        let text = fs::read_to_string(recipes.join(page)).unwrap();
        problems.extend(
            dead_in_guide(module, &text)
                .iter()
                .map(|link| format!("{page}: {link}")),
        );
    }
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_link_without_a_label_in_the_guide_is_found() {
    let module =
        "/// Text.\n///\n/// [a]: crate::guide::a\n#[doc = include_str!(\"../docs/x.md\")]";
    let page = "[A][a] [b](b.md) [c](#c) [d](https://d) [E][e]\n\n[a]: a.md\n[e]: e.md";
    assert_eq!(dead_in_guide(module, page), ["b.md", "e.md"]);
}

#[test]
fn a_broken_link_is_found() {
    let text = "# Two words, `a_b`\n[a](#two-words-a_b) [b](../README.md)\n```\n[c](no.md)\n```\n\
        [d]: #d\n[e]: https://e\n[f]: f.md\n[g]: ../README.md#features\n[h](../README.md#no)";
    let broken: Vec<_> = links(text)
        .filter(|link| !target_exists("docs/a.md", text, link))
        .collect();
    assert_eq!(broken, ["../README.md#no", "#d", "f.md"]);
}
