//! A table in Markdown.

/// Rows of cells below a header. The first column is aligned to the left. The others are aligned to
/// the right, unless the table is made by [`of_words`](Self::of_words).
#[derive(Debug)]
pub struct Table {
    /// Whether all columns but the first contain numbers.
    numbers: bool,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this header, and no rows.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self {
            numbers: true,
            rows: vec![head.iter().map(ToString::to_string).collect()],
        }
    }

    /// A table with these rows. Each cell is given with the header of its column.
    #[must_use]
    pub fn of_cells(rows: impl IntoIterator<Item = Vec<(&'static str, String)>>) -> Self {
        let mut table = Self {
            numbers: true,
            rows: Vec::new(),
        };
        for row in rows {
            let (head, cells): (Vec<_>, Vec<_>) = row.into_iter().unzip();
            if table.rows.is_empty() {
                table.row(head.into_iter().map(str::to_owned));
            }
            table.row(cells);
        }
        table
    }

    /// A table with this header, no rows, and all columns aligned to the left.
    #[must_use]
    pub fn of_words(head: &[&str]) -> Self {
        Self {
            numbers: false,
            ..Self::new(head)
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Removes the column with this header if all its cells have this text.
    #[must_use]
    pub fn without(mut self, head: &str, cell: &str) -> Self {
        let column = self
            .rows
            .first()
            .and_then(|row| row.iter().position(|known| known == head));
        if let Some(column) =
            column.filter(|column| self.rows.iter().skip(1).all(|row| row[*column] == cell))
        {
            for row in &mut self.rows {
                row.remove(column);
            }
        }
        self
    }

    /// The table in Markdown, as in the pages of this project.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut lines = self.rows.iter().map(|row| {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        });
        let head: String = lines.by_ref().take(1).collect();
        let columns = self.rows.first().map_or(0, Vec::len);
        let column = if self.numbers { "|---:" } else { "|---" };
        let line = "|---".to_owned() + &column.repeat(columns.saturating_sub(1)) + "|\n";
        head + &line + &lines.collect::<String>()
    }
}
