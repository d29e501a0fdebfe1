//! Checks that the modules of a crate are layered: imports point downwards, without cycles.
//!
//! A module of the table is a file of the crate's root, or a whole directory: no module of a
//! directory is listed separately, which would hide a cycle between two directories.
//!
//! Every path that begins with `crate`, `super`, `self` or a module of the file counts as an
//! import, anywhere in the file; re-exports are followed to the module that defines the name.
//! Imports in tests and in documentation do not count. Method calls do not count either, because
//! they do not contain a module: an `impl` block in another file than its type, such as
//! `contest::wait` of `contest::entry`, is treated as part of the type.
//!
//! Inside a module of the table, sibling files and directories may import each other, but not in a
//! cycle. A file and the files in its directory (`ledger.rs` and `ledger/refused.rs`) are one
//! module, whose imports of each other are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files::{files, read};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree::*};

/// The modules of a crate, in layers from the top down. Modules of one layer may import each other,
/// but not in a cycle.
type Layers<'a> = &'a [&'a [&'a str]];

/// The crates whose layers are checked.
const CRATES: &[(&str, Layers<'static>)] = &[
    (
        "curator-client",
        &[
            &["client"],
            &["janitor", "node"],
            &[
                "journal",
                "session",
                "session_lease",
                "sessions",
                "supervisor",
            ],
            &["link", "retrier"],
            &["wire"],
            &["zk"],
            &["pass"],
            &["diagnosis"],
            &["closing"],
            &[
                "acl",
                "codec",
                "connect_string",
                "ensemble",
                "error",
                "failure_log",
                "meter",
                "operation",
                "options",
                "path",
                "process",
                "retry_policy",
                "runtime",
                "sasl",
                "server_operations",
                "state",
                "time",
                "tls",
                "transport",
            ],
            &["source", "text"],
            &["simulation"],
        ],
    ),
    (
        "curator-discovery",
        &[
            &["balance", "discovery", "provider"],
            &["cache", "registration"],
            &["found"],
            &["instance"],
            &["payload"],
            &["error", "uri_spec"],
            &["coercion"],
            &["debug", "service_type"],
        ],
    ),
    ("curator-protocol", &[&["contest"], &["driver"], &["queue"]]),
    (
        "curator-recipes",
        &[
            &["shards"],
            &["leader", "atomic"],
            &["lock"],
            &["group", "typed"],
            &["cache"],
            &["engine"],
            &["config", "persistent", "shared"],
            &["task"],
            &["fencing", "wait"],
            &["error"],
            &["changes", "codec", "owner"],
        ],
    ),
    (
        "curator-simulation",
        &[
            &["planted", "search", "simulated"],
            &["schedule"],
            &["workload"],
            &["life"],
            &["checks"],
            &["world"],
            &["servers"],
            &["memory", "mutex"],
        ],
    ),
    (
        "curator-test",
        &[
            &["server"],
            &["proxy", "simulation"],
            &["embedded", "real", "traffic"],
            &[
                "certificates",
                "close_session",
                "four_letter",
                "ports",
                "reconfig",
            ],
            &["error"],
            &[
                "dialect",
                "distribution",
                "server_kind",
                "settings",
                "wait",
                "wire",
            ],
        ],
    ),
    (
        "zklock",
        &[
            &["run"],
            &["run_guarded"],
            &["tree", "waiting"],
            &["list", "lock", "remove"],
            &["arguments", "doctor"],
            &["settings"],
            &["guardian", "signals", "tls_files"],
            &[
                "command",
                "config_file",
                "connection_log",
                "contended",
                "terminal",
            ],
            &["contender", "group", "stopping"],
            &["print"],
            &["failure", "processes", "time"],
        ],
    ),
];

/// The known violations: a crate, the import without which the crate would have none, and the
/// reason.
const EXCEPTIONS: &[(&str, (&str, &str), &str)] = &[];

/// The imports of a crate. Modules and names are paths from its root, such as `a::b`.
#[derive(Default)]
struct Source {
    /// The paths that each file names, by the module of the file.
    named: BTreeMap<String, BTreeSet<String>>,
    /// The origins of the names that a module imports with `use`.
    used: BTreeMap<String, String>,
    /// The modules that are compiled only for tests.
    tests: BTreeSet<String>,
}

impl Source {
    fn of(files: &[(String, String)]) -> Self {
        let mut source = Self::default();
        let module = |file: &str| -> Vec<_> {
            file.trim_end_matches(".rs")
                .split('/')
                .filter(|part| !matches!(*part, "lib" | "main" | "mod"))
                .map(str::to_owned)
                .collect()
        };
        source.named = files
            .iter()
            .map(|(file, _)| (module(file).join("::"), BTreeSet::new()))
            .collect();
        for (file, text) in files {
            source.read(text.parse().unwrap(), &module(file), &[], false);
        }
        source
            .named
            .retain(|module, _| !source.tests.iter().any(|test| is_in(module, test)));
        source
    }

    /// Reads tokens of `module`. Inside the braces of a `use`, `prefix` is the path before the
    /// braces.
    fn read(
        &mut self,
        tokens: TokenStream,
        module: &[String],
        prefix: &[String],
        mut in_use: bool,
    ) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut tokens = &tokens[..];
        while let [token, rest @ ..] = tokens {
            tokens = rest;
            match (token, rest) {
                (Punct(hash), [Group(attribute), item @ ..]) if hash.as_char() == '#' => {
                    tokens = item;
                    let attribute = attribute.stream().to_string();
                    if attribute.starts_with("cfg")
                        && attribute.contains("test")
                        && !attribute.contains("not")
                    {
                        let is_body = |token: &_| matches!(token, Group(group) if group.delimiter() == Delimiter::Brace);
                        let end = item
                            .iter()
                            .position(|token| is_body(token) || token.to_string() == ";")
                            .unwrap_or(item.len());
                        if let [.., Ident(_), Ident(name)] = &item[..end] {
                            self.tests
                                .insert([module, &[name.to_string()]].concat().join("::"));
                        }
                        tokens = item.get(end + 1..).unwrap_or_default();
                    }
                }
                (Ident(word), [Group(_), rest @ ..]) if word == "pub" => tokens = rest,
                (Ident(word), [_, rest @ ..]) if word == "as" => tokens = rest,
                (Ident(word), [Ident(_), ..]) if word == "use" => in_use = true,
                (Ident(word), _) => {
                    let mut path = [prefix, &[word.to_string()]].concat();
                    while let [Punct(colon), Punct(_), next, rest @ ..] = tokens
                        && (colon.as_char(), colon.spacing()) == (':', Spacing::Joint)
                    {
                        tokens = rest;
                        match next {
                            Ident(word) => path.push(word.to_string()),
                            Group(group) => self.read(
                                group.stream(),
                                module,
                                &std::mem::take(&mut path),
                                in_use,
                            ),
                            _ => {}
                        }
                    }
                    self.name(&path, module, in_use);
                }
                (Group(group), _) => self.read(group.stream(), module, prefix, in_use),
                (Punct(punct), _) => in_use &= punct.as_char() != ';',
                (Literal(_), _) => {}
            }
        }
    }

    /// Records that `module` names `path`.
    fn name(&mut self, path: &[String], module: &[String], in_use: bool) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let origin = match path.first().map(String::as_str) {
            Some("crate") => path[1..].join("::"),
            Some("self") => [module, &path[1..]].concat().join("::"),
            Some("super") => [&module[..module.len() - ups], &path[ups..]]
                .concat()
                .join("::"),
            Some(first)
                if path.len() > 1
                    && self
                        .named
                        .contains_key(&[module, &[first.to_owned()]].concat().join("::")) =>
            {
                [module, path].concat().join("::")
            }
            _ => return,
        };
        if in_use {
            self.used.insert(
                [module, &path[path.len() - 1..]].concat().join("::"),
                origin.clone(),
            );
        }
        self.named
            .entry(module.join("::"))
            .or_default()
            .insert(origin);
    }

    /// The path that `path` refers to, with every `use` on the way resolved.
    fn origin(&self, path: &str) -> String {
        let used = self
            .used
            .iter()
            .find(|(name, origin)| is_in(path, name) && !is_in(origin, name));
        used.map_or_else(
            || path.to_owned(),
            |(name, origin)| self.origin(&path.replacen(name, origin, 1)),
        )
    }

    /// The violations of the layering, except for the `exceptions`.
    fn check(&self, layers: Layers<'_>, exceptions: &[(&str, &str)]) -> Vec<String> {
        let table = layers.iter().enumerate();
        let table: Vec<_> = table
            .flat_map(|(depth, layer)| layer.iter().map(move |module| (*module, depth)))
            .collect();
        let layer_of = |path: &str| {
            table
                .iter()
                .filter(|(module, _)| is_in(path, module))
                .copied()
                .max_by_key(|(module, _)| module.len())
        };
        let mut problems: Vec<_> = table
            .iter()
            .filter(|(module, _)| !self.named.contains_key(*module))
            .map(|(module, _)| format!("the module {module} does not exist"))
            .collect();
        let mut arrows = BTreeSet::new();
        let mut unlisted = BTreeSet::new();
        let mut excepted = BTreeSet::new();
        // The root of the crate is skipped, because it only re-exports.
        for (file, named) in self.named.iter().filter(|(file, _)| !file.is_empty()) {
            for name in named {
                let origin = self.origin(name);
                let (Some((from, depth)), Some((to, below))) = (layer_of(file), layer_of(&origin))
                else {
                    unlisted.insert(match layer_of(file) {
                        None => format!("{file} is in no layer"),
                        Some(_) => format!("{origin}, named by {file}, is in no layer"),
                    });
                    continue;
                };
                if exceptions.contains(&(from, to)) {
                    excepted.insert((from, to));
                    continue;
                }
                if below < depth {
                    problems.push(format!("{file} imports {to}, which is in a higher layer"));
                }
                let arrow = if from == to {
                    self.siblings(file, &origin)
                } else {
                    Some((from, to))
                };
                arrows.extend(arrow);
            }
        }
        // Repeatedly removes the imports by modules that are not imported, and the imports of
        // modules that import nothing. The remaining imports are in cycles.
        let mut all = BTreeSet::new();
        while all.len() != arrows.len() {
            all.clone_from(&arrows);
            arrows.retain(|(from, to)| {
                all.iter().any(|all| all.1 == *from) && all.iter().any(|all| all.0 == *to)
            });
        }
        problems.extend(
            arrows
                .iter()
                .map(|(from, to)| format!("{from} imports {to}, in a cycle")),
        );
        problems.extend(unlisted);
        problems.extend(
            exceptions
                .iter()
                .filter(|exception| !excepted.contains(*exception))
                .map(|(from, to)| format!("{from} does not import {to}, which is excepted")),
        );
        problems
    }

    /// The siblings that contain `file` and `origin`, if these are in different files or
    /// directories of one directory.
    fn siblings<'a>(&'a self, file: &'a str, origin: &str) -> Option<(&'a str, &'a str)> {
        let other = self
            .named
            .keys()
            .filter(|module| is_in(origin, module))
            .max_by_key(|module| module.len())?;
        let shared: usize = file
            .split("::")
            .zip(other.split("::"))
            .take_while(|(a, b)| a == b)
            .map(|(part, _)| part.len() + "::".len())
            .sum();
        let first = |path: &'a str| {
            let end = path
                .get(shared..)?
                .find("::")
                .map_or(path.len(), |length| shared + length);
            Some(&path[..end])
        };
        Some((first(file)?, first(other)?))
    }
}

fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The sources below a directory, with their paths relative to it.
pub(crate) fn sources_of(folder: &Path) -> Vec<(String, String)> {
    let name = |path: &Path| {
        path.strip_prefix(folder)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    files(folder)
        .unwrap()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| (name(&path), read(&path).unwrap()))
        .collect()
}

#[test]
fn every_published_crate_has_layers() {
    for name in crate::package::PUBLISHED {
        assert!(
            CRATES.iter().any(|(layered, _)| *layered == name),
            "{name} is missing in crates/xtask/src/layers.rs"
        );
    }
}

#[test]
fn a_table_has_whole_folders_only() {
    for (name, layers) in CRATES {
        for module in layers.iter().copied().flatten() {
            assert!(
                !module.contains("::"),
                "{name}: {module} is a part of a folder, and would hide its cycles"
            );
        }
    }
}

#[test]
fn imports_follow_the_layers_and_have_no_cycles() {
    for (name, layers) in CRATES {
        let files = sources_of(&crate::workspace().join("crates").join(name).join("src"));
        let exceptions: Vec<_> = EXCEPTIONS
            .iter()
            .filter(|(crate_name, ..)| crate_name == name)
            .map(|(_, import, _)| *import)
            .collect();
        assert_eq!(
            Source::of(&files).check(layers, &exceptions),
            [""; 0],
            "{name}: see the table in crates/xtask/src/layers.rs"
        );
    }
}

#[test]
fn an_import_from_a_higher_layer_is_found() {
    let check = |low: &str| {
        let files = [
            (
                "lib.rs",
                "mod top; mod low; mod side; pub use crate::top::inner::Top;",
            ),
            (
                "top/mod.rs",
                "//! [`crate::low::x`]\nuse crate::{low::{self, Low}, side::*}; fn f() { m!(crate::low::x) }",
            ),
            (
                "top/inner.rs",
                "use super::super::side; pub(crate) struct Top;",
            ),
            ("low.rs", low),
            ("side.rs", "#[cfg(test)] mod tests;"),
            ("side/tests.rs", "use crate::top::Top;"),
        ];
        Source::of(&files.map(|(file, text)| (file.to_owned(), text.to_owned())))
            .check(&[&["top"], &["low", "side"]], &[])
            .join("; ")
    };
    assert_eq!(
        check("#[cfg(test)] mod tests { use crate::top; } // crate::top"),
        ""
    );
    let up = "low imports top, which is in a higher layer; low imports top, in a cycle; top imports low, in a cycle";
    for planted in [
        "use crate::top;",
        "use super::{top::Top as T};",
        "fn f(_: crate::Top) {}",
        "m!(B<super::Top>);",
    ] {
        assert_eq!(check(planted), up, "{planted}");
    }
    assert_eq!(
        check("use crate::side; use self::x; use crate::lost;"),
        "lost, named by low, is in no layer"
    );
}

#[test]
fn a_module_without_a_layer_is_named_once() {
    let files = [("low.rs", ""), ("new.rs", "use crate::low::{Low, x};")];
    let source = Source::of(&files.map(|(file, text)| (file.to_owned(), text.to_owned())));
    assert_eq!(source.check(&[&["low"]], &[]), ["new is in no layer"]);
}

#[test]
fn an_import_cycle_between_sibling_modules_is_found() {
    let check = |deep: &str| {
        let files = [
            ("top/mod.rs", "mod a; mod b; pub(crate) use b::B;"),
            ("top/a.rs", "mod part; use super::B; use part::Part;"),
            ("top/a/part.rs", "use super::A; use crate::top::Top;"),
            ("top/b/mod.rs", "mod deep;"),
            ("top/b/deep.rs", deep),
        ];
        Source::of(&files.map(|(file, text)| (file.to_owned(), text.to_owned())))
            .check(&[&["top"]], &[])
            .join("; ")
    };
    assert_eq!(
        check("use super::B; use crate::top::Top;"),
        "",
        "a file and its folder are one module"
    );
    assert_eq!(
        check("use crate::top::a::part::Part;"),
        "top::a imports top::b, in a cycle; top::b imports top::a, in a cycle"
    );
}

#[test]
fn a_cycle_of_two_folders_is_found_although_none_of_their_files_import_each_other() {
    let files = [
        ("server/mod.rs", "mod kind; mod builder;"),
        ("server/kind.rs", "pub(crate) struct Kind;"),
        ("server/builder.rs", "use crate::real::Process;"),
        (
            "real/mod.rs",
            "mod process; mod files; pub(crate) use process::Process;",
        ),
        ("real/process.rs", "pub(crate) struct Process;"),
        ("real/files.rs", "use crate::server::kind::Kind;"),
    ];
    let source = Source::of(&files.map(|(file, text)| (file.to_owned(), text.to_owned())));
    let cycle = [
        "real imports server, in a cycle",
        "server imports real, in a cycle",
    ];
    assert_eq!(source.check(&[&["server", "real"]], &[]), cycle);
    assert_eq!(
        source.check(&[&["server", "real"]], &[("real", "server")]),
        [""; 0]
    );
    assert_eq!(
        source.check(
            &[&["server"], &["real"]],
            &[("real", "server"), ("server", "none")]
        ),
        ["server does not import none, which is excepted"]
    );
}
