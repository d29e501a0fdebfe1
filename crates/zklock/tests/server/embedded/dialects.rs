//! The table of recipes and servers in `docs/servers.md`: each recipe works on each dialect, or is
//! refused.
//!
//! `SERVERS_WRITE=1 cargo test -p zklock --test server dialects` writes the table.

use std::fmt::Write as _;
use std::path::Path;

use curator_test::{Dialect, EmbeddedServer};
use futures_util::{StreamExt as _, stream};

use crate::certified::{Certified, certified, certify};

/// The environment variable that makes the test write the table.
const WRITE: &str = "SERVERS_WRITE";
const BEGIN: &str = "<!-- zklock doctor --certify -->\n";
const END: &str = "<!-- end -->";
/// The default, and the other one.
const TRANSPORTS: [&str; 2] = ["zookeeper-client", "native"];
/// How many servers are certified at a time.
const AT_A_TIME: usize = 3;

#[tokio::test]
async fn the_table_of_servers_is_what_certify_prints_on_each_dialect() {
    let runs: Vec<_> = stream::iter(Dialect::ALL)
        .map(runs)
        .buffered(AT_A_TIME)
        .collect()
        .await;
    let faults: Vec<_> = runs.iter().flatten().flat_map(Run::faults).collect();
    let written = page_part(runs);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/servers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{written}\n{END}{after}");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        page == expected || std::env::var_os(WRITE).is_some(),
        "docs/servers.md is not up to date, run this test with {WRITE}=1: expected\n{written}"
    );
}

/// A run on a dialect.
struct Run {
    dialect: Dialect,
    /// `None` if there is no difference between the transports.
    transport: Option<&'static str>,
    /// The verdicts, or the refusal of the client.
    verdicts: Result<Certified, String>,
}

/// The runs on a dialect: one for each transport, or only one if both print the same.
async fn runs(dialect: Dialect) -> Vec<Run> {
    let server = EmbeddedServer::builder().dialect(dialect).start().unwrap();
    let mut runs = Vec::new();
    for transport in TRANSPORTS {
        let mut run = certify(&server.connect_string(), "--session-timeout 10s");
        let (printed, certified) = certified(run.env("ZKLOCK_TRANSPORT", transport)).await;
        let verdicts = match printed.code {
            Some(123) => Err(without_names(
                printed.error.trim().trim_start_matches("zklock: "),
            )),
            code => {
                let has_fault = printed.out.contains("fault: ");
                assert_eq!(code, Some(i32::from(has_fault)), "{printed:?}");
                Ok(certified.map(without_names))
            }
        };
        runs.push(Run {
            dialect,
            transport: Some(transport),
            verdicts,
        });
    }
    if runs[0].verdicts == runs[1].verdicts {
        runs.pop();
        runs[0].transport = None;
    }
    runs
}

impl Run {
    fn faults(&self) -> impl Iterator<Item = String> {
        let verdicts = self.verdicts.iter();
        let verdicts = verdicts.flat_map(|all| all.operations.iter().chain(&all.recipes));
        verdicts
            .filter(|(_, verdict)| verdict.starts_with("fault: "))
            .map(|(name, verdict)| {
                let transport = self.transport.unwrap_or("both transports");
                format!("{}, {transport}: {name}: {verdict}", self.dialect)
            })
    }
}

/// The verdict without the paths and addresses of this run.
fn without_names(verdict: &str) -> String {
    let words = verdict.split(' ').map(|word| {
        let stem = word.trim_end_matches([':', ',', ';', '"']);
        let end = &word[stem.len()..];
        if stem.contains("zklock-certify-") {
            format!("…{end}")
        } else if stem.contains("127.0.0.1:") {
            format!("the server{}", end.trim_matches('"'))
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The notes below the tables: what follows the first word of a verdict. Each has a number.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn cell(&mut self, verdict: &str) -> String {
        let limitation = verdict.strip_prefix("works, but ");
        let split = limitation.map(|note| ("works, but", note));
        let Some((kind, note)) = split.or_else(|| verdict.split_once(": ")) else {
            return verdict.to_owned();
        };
        let known = self.0.iter().position(|known| known == note);
        let number = known.unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        format!("{kind} ({})", number + 1)
    }
}

/// The tables and their notes, in Markdown.
fn page_part(runs: Vec<Vec<Run>>) -> String {
    let mut notes = Notes::default();
    let mut refusals: Vec<(String, Vec<Dialect>)> = Vec::new();
    let mut columns = Vec::new();
    for run in runs.into_iter().flatten() {
        match run.verdicts {
            Ok(verdicts) => columns.push((run.dialect, run.transport, verdicts)),
            Err(refusal) => {
                let transport = run.transport.unwrap_or("any transport");
                add(
                    &mut refusals,
                    format!("{transport}: {refusal}"),
                    run.dialect,
                );
            }
        }
    }
    let tables = [
        table("Operation", &columns, |all| &all.operations, &mut notes),
        table("Recipe", &columns, |all| &all.recipes, &mut notes),
    ];
    let mut part = tables.join("\n");
    for (number, note) in notes.0.iter().enumerate() {
        let begin = if number == 0 { "\n" } else { "" };
        writeln!(part, "{begin}{}. {note}", number + 1).unwrap();
    }
    for (refusal, dialects) in &refusals {
        writeln!(part, "\nNo client on {}, over {refusal}.", title(dialects)).unwrap();
    }
    part
}

/// Adds a dialect to those with the same key.
fn add<K: PartialEq>(groups: &mut Vec<(K, Vec<Dialect>)>, key: K, dialect: Dialect) {
    match groups.iter_mut().find(|(known, _)| *known == key) {
        Some((_, dialects)) => dialects.push(dialect),
        None => groups.push((key, vec![dialect])),
    }
}

/// A dialect, the transport if that makes a difference, and the verdicts.
type Column = (Dialect, Option<&'static str>, Certified);

/// A table with a row for each operation or recipe, and a column for the dialects that do not differ
/// in it.
fn table(
    head: &str,
    columns: &[Column],
    rows: fn(&Certified) -> &[(String, String)],
    notes: &mut Notes,
) -> String {
    let mut groups = Vec::new();
    for (dialect, transport, verdicts) in columns {
        let cells = rows(verdicts)
            .iter()
            .map(|(_, verdict)| notes.cell(verdict));
        let cells: Vec<_> = cells.collect();
        add(&mut groups, (*transport, cells), *dialect);
    }
    let heads = groups.iter().map(|((transport, _), dialects)| {
        let over = transport.map(|transport| format!(" (`{transport}`)"));
        title(dialects) + &over.unwrap_or_default()
    });
    let line = |name: &str, cells: &[String]| format!("| {name} | {} |\n", cells.join(" | "));
    let mut table = line(head, &heads.collect::<Vec<_>>());
    table += &format!("|---{}|\n", "|---".repeat(groups.len()));
    for (number, (name, _)) in rows(&columns[0].2).iter().enumerate() {
        let name = if head == "Recipe" {
            format!("`{name}`")
        } else {
            name.clone()
        };
        let cells = groups.iter().map(|((_, cells), _)| cells[number].clone());
        table += &line(&name, &cells.collect::<Vec<_>>());
    }
    table
}

/// The names of dialects, such as "ZooKeeper 3.8, 3.9".
fn title(dialects: &[Dialect]) -> String {
    let mut title = String::new();
    let mut last = "";
    for dialect in dialects {
        let (product, version) = dialect.name().rsplit_once(' ').unwrap();
        match (title.is_empty(), product == last) {
            (true, _) => title += dialect.name(),
            (false, true) => title += &format!(", {version}"),
            (false, false) => title += &format!(", {}", dialect.name()),
        }
        last = product;
    }
    title
}
