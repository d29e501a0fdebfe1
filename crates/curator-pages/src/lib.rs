//! Compiles the code on the pages as users paste it.

/// Compiles the unchanged code of the README at the top of the repository. The other pages are
/// included in the documentation of the packages, and are tested with it.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the code of all pages in spawned tasks, and in functions that return the error of the
/// locks: see `build.rs`.
#[cfg(test)]
#[allow(
    warnings,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "the code is written for readers of a page"
)]
mod pages {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}

#[cfg(test)]
mod testing_sample {
    use std::panic::catch_unwind;

    use super::pages::late_write;

    /// The sample of a failure on the page, with `..` in place of omitted lines.
    fn sample() -> impl Iterator<Item = &'static str> {
        let page = include_str!("../../../docs/testing.md");
        let (_, sample) = page.split_once("```text\n").unwrap();
        sample.lines().take_while(|line| *line != "```")
    }

    /// If this fails, replace the sample on the page by lines of the printed text.
    #[test]
    fn the_page_shows_what_the_search_prints() {
        let text = catch_unwind(late_write::no_write_is_late)
            .unwrap_err()
            .downcast::<String>()
            .unwrap();
        let (text, command) = text.split_once("\n  CURATOR_SEED=").unwrap();
        let seed = command.split_once(' ').unwrap().0;
        let text = format!(
            "{text}\n  CURATOR_SEED={seed} cargo test -p orders no_write_is_late -- --exact"
        );
        println!("{text}");
        let mut lines = text.lines();
        let mut skips = false;
        for shown in sample() {
            if shown == ".." {
                skips = true;
            } else {
                assert!(
                    lines
                        .by_ref()
                        .take(if skips { usize::MAX } else { 1 })
                        .any(|line| line == shown),
                    "not printed: {shown}"
                );
                skips = false;
            }
        }
        assert_eq!(lines.next(), None);
    }
}
