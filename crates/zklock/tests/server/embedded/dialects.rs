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
    let columns: Vec<_> = stream::iter(Dialect::ALL)
        .map(Column::of)
        .buffered(AT_A_TIME)
        .collect()
        .await;
    let written = page_part(&columns);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/servers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{written}\n{END}{after}");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let faults: Vec<_> = columns.iter().flat_map(Column::faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        page == expected || std::env::var_os(WRITE).is_some(),
        "docs/servers.md is not up to date, run this test with {WRITE}=1: expected\n{written}"
    );
}

/// What `certify` prints on one dialect, over each transport.
struct Column {
    dialect: Dialect,
    /// The verdicts, or the refusal of the client.
    runs: Vec<Result<Certified, String>>,
}

impl Column {
    async fn of(dialect: Dialect) -> Self {
        let server = EmbeddedServer::builder().dialect(dialect).start().unwrap();
        let mut runs = Vec::new();
        for transport in TRANSPORTS {
            let mut run = certify(&server.connect_string(), "--session-timeout 10s");
            let (printed, certified) = certified(run.env("ZKLOCK_TRANSPORT", transport)).await;
            let has_fault = printed.out.contains("fault: ");
            runs.push(match printed.code {
                // The client is refused.
                Some(123) => Err(printed.error.trim().replace("zklock: ", "refused: ")),
                code => {
                    assert_eq!(code, Some(i32::from(has_fault)), "{printed:?}");
                    Ok(certified)
                }
            });
        }
        Self { dialect, runs }
    }

    fn faults(&self) -> impl Iterator<Item = String> {
        self.runs
            .iter()
            .zip(TRANSPORTS)
            .filter_map(|(run, transport)| Some((run.as_ref().ok()?, transport)))
            .flat_map(move |(run, transport)| {
                let all = run.operations.iter().chain(&run.recipes);
                let faults = all.filter(|(_, verdict)| verdict.starts_with("fault: "));
                faults.map(move |(name, verdict)| {
                    format!("{}, {transport}: {name}: {verdict}", self.dialect)
                })
            })
    }

    /// The cell of a row, by its number.
    fn cell(&self, rows: Rows, number: usize, notes: &mut Notes) -> String {
        let cells: Vec<_> = self
            .runs
            .iter()
            .map(|run| match run {
                Ok(run) => &rows(run)[number].1,
                Err(refusal) => refusal,
            })
            .map(|verdict| notes.cell(&without_names(verdict)))
            .collect();
        if cells[0] == cells[1] {
            return cells[0].clone();
        }
        let cells = cells.iter().zip(TRANSPORTS);
        let cells = cells.map(|(cell, transport)| format!("{transport}: {cell}"));
        cells.collect::<Vec<_>>().join("; ")
    }
}

/// Selects a table of the output.
type Rows = fn(&Certified) -> &[(String, String)];

/// The verdict without the paths and addresses of this run.
fn without_names(verdict: &str) -> String {
    let words = verdict.split(' ').map(|word| {
        let stem = word.trim_end_matches([':', ',', ';', '"']);
        let end = &word[stem.len()..];
        if stem.contains("zklock-certify-") {
            format!("…{end}")
        } else if stem.contains("127.0.0.1:") {
            format!("the server{end}")
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
fn page_part(columns: &[Column]) -> String {
    let mut notes = Notes::default();
    let tables = [
        table("Operation", columns, |run| &run.operations, &mut notes),
        table("Recipe", columns, |run| &run.recipes, &mut notes),
    ];
    let mut part = tables.join("\n");
    for (number, note) in notes.0.iter().enumerate() {
        let begin = if number == 0 { "\n" } else { "" };
        writeln!(part, "{begin}{}. {note}", number + 1).unwrap();
    }
    part
}

/// A table with a row for each operation or recipe, and a column for the dialects in a row that do
/// not differ in it.
fn table(head: &str, columns: &[Column], rows: Rows, notes: &mut Notes) -> String {
    let names: Vec<_> = rows(columns[0].runs[0].as_ref().unwrap())
        .iter()
        .map(|(name, _)| name)
        .collect();
    let mut groups: Vec<(Vec<Dialect>, Vec<String>)> = Vec::new();
    for column in columns {
        let cells: Vec<_> = (0..names.len())
            .map(|number| column.cell(rows, number, notes))
            .collect();
        match groups.last_mut() {
            Some((dialects, known)) if *known == cells => dialects.push(column.dialect),
            _ => groups.push((vec![column.dialect], cells)),
        }
    }
    let heads: Vec<_> = groups.iter().map(|(dialects, _)| title(dialects)).collect();
    let line = |name: &str, cells: &[String]| format!("| {name} | {} |\n", cells.join(" | "));
    let mut table = line(head, &heads) + "|---" + &"|---".repeat(heads.len()) + "|\n";
    for (number, name) in names.iter().enumerate() {
        let name = if head == "Recipe" {
            format!("`{name}`")
        } else {
            name.to_string()
        };
        let cells = groups.iter().map(|(_, cells)| cells[number].clone());
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
