//! Tables of all commands: one style, fitted to the terminal.
//!
//! Rule: a table that is wider than the terminal is split into several below each other, each with
//! the columns that say what a row is about. Two tables about the same rows, of which the second
//! may lack some, are one where the terminal has room for both. Output that is no terminal is not
//! split, so that its rows are whole.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// Columns between two columns of a table.
const GAP: usize = 2;
/// Columns of output that is no terminal, as far as tables are joined.
const DEFAULT_WIDTH: usize = 100;
/// The most columns, from the left, that are repeated where a table is split.
const KEY_COLUMNS: usize = 2;

/// A table: headings, and rows of text.
#[derive(Debug, Clone)]
pub struct Grid {
    headings: Vec<String>,
    /// The first columns that are text; the others are right-aligned numbers.
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Creates a table with these column headings. The first `words` columns are text, the others
    /// right-aligned numbers.
    pub fn new(headings: &[&str], words: usize) -> Self {
        Self {
            headings: headings.iter().map(|&heading| heading.to_owned()).collect(),
            words,
            rows: Vec::new(),
        }
    }

    /// Appends the cells of a row; missing ones are empty.
    pub fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.headings.len(), String::new());
        self.rows.push(row);
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table for the terminal.
    pub fn trim_fmt(&self) -> String {
        self.fitted(terminal_width().unwrap_or(usize::MAX))
    }

    /// Formats the table for a terminal of `width` columns: split if it is wider.
    pub fn fitted(&self, width: usize) -> String {
        let widths: Vec<usize> = (0..self.headings.len()).map(|column| self.width(column)).collect();
        let of = |columns: &[usize]| columns.iter().map(|&column| widths[column] + GAP).sum::<usize>();
        let keys: Vec<usize> = (0..self.words.min(KEY_COLUMNS)).collect();
        let mut parts = vec![keys.clone()];
        for (column, own) in widths.iter().enumerate().skip(keys.len()) {
            let part = parts.last_mut().expect("there is one");
            // The line below the headings is a column longer than the cells.
            if of(part) + own >= width && part.len() > keys.len() {
                parts.push([keys.as_slice(), &[column]].concat());
            } else {
                part.push(column);
            }
        }
        parts.iter().map(|columns| self.formatted(columns)).collect::<Vec<_>>().join("\n\n")
    }

    /// Formats two tables: as one if they are about the same rows and fit beside each other, else
    /// the second below the first.
    pub fn with(self, other: &Grid) -> String {
        let width = terminal_width();
        self.fitted_with(other, width.unwrap_or(usize::MAX), width.unwrap_or(DEFAULT_WIDTH))
    }

    /// Formats two tables for a terminal of `width` columns; they are joined up to `joined_width`.
    pub fn fitted_with(self, other: &Grid, width: usize, joined_width: usize) -> String {
        let joined = self.joined(other).filter(|both| both.total_width() <= joined_width);
        joined.map_or_else(
            || {
                let parts = [&self, other].into_iter().filter(|part| !part.is_empty());
                parts.map(|part| part.fitted(width)).collect::<Vec<_>>().join("\n\n")
            },
            |both| both.fitted(width),
        )
    }

    /// Returns the columns of both, if the rows of the other, by its text columns, are all here and
    /// in the same order. Rows that it lacks have dashes.
    fn joined(&self, other: &Grid) -> Option<Grid> {
        let index = |heading: &String| self.headings.iter().position(|own| own == heading);
        let keys: Vec<usize> = other.headings[..other.words].iter().map(index).collect::<Option<_>>()?;
        let is_same =
            |own: &[String], row: &[String]| keys.iter().zip(row).all(|(&column, cell)| own[column] == *cell);
        let mut both = self.clone();
        both.headings.extend(other.headings[other.words..].iter().cloned());
        let mut rest = other.rows.iter().peekable();
        for row in &mut both.rows {
            match rest.next_if(|more| is_same(row, more)) {
                Some(more) => row.extend(more[other.words..].iter().cloned()),
                None => row.resize(both.headings.len(), "–".to_owned()),
            }
        }
        (rest.next().is_none() && !other.is_empty()).then_some(both)
    }

    fn total_width(&self) -> usize {
        (0..self.headings.len()).map(|column| self.width(column) + GAP).sum()
    }

    /// Columns of the terminal that a column of the table takes.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]).chain([&self.headings[column]]);
        cells.flat_map(|cell| cell.lines()).map(|line| line.chars().count()).max().unwrap_or(0)
    }

    fn formatted(&self, columns: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        table.set_header(columns.iter().map(|&column| &self.headings[column]));
        for (column, &number) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 1));
            if number >= self.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(columns.iter().map(|&column| &row[column]));
        }
        table.trim_fmt()
    }
}

/// The columns of the terminal; `None` if the output is none.
fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout)).flatten();
    size.map(|(width, _)| usize::from(width.0).max(40))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(headings: &[&str], words: usize, rows: &[&[&str]]) -> Grid {
        let mut grid = Grid::new(headings, words);
        rows.iter().for_each(|row| grid.add_row(row.iter().copied()));
        grid
    }

    #[test]
    fn a_table_is_split_where_it_does_not_fit() {
        let rows: &[&[&str]] = &[&["a", "3", "1,000", "20"], &["bb", "4", "7", "3,000,000"]];
        let grid = grid(&["Port", "Queue", "Sent\nframes", "Dropped"], 2, rows);
        insta::assert_snapshot!(format!("{}\n\n=== 24 columns\n{}", grid.fitted(80), grid.fitted(24)));
        assert_eq!(grid.fitted(31), grid.fitted(80), "with the line below the headings");
        assert!(grid.fitted(1).lines().count() > 8, "a column each");
    }

    #[test]
    fn tables_with_the_same_rows_are_joined_where_they_fit() {
        let cells = grid(
            &["Port", "State", "Queue", "Held"],
            3,
            &[&["a", "open", "3", "17"], &["a", "paused", "4", "0"]],
        );
        let counts = grid(&["Port", "Queue", "Sent"], 2, &[&["a", "3", "1,000"], &["a", "4", "2"]]);
        insta::assert_snapshot!(cells.clone().fitted_with(&counts, 200, 200));
        assert_eq!(
            cells.clone().fitted_with(&counts, 20, 20),
            format!("{}\n\n{}", cells.fitted(20), counts.fitted(20))
        );
        let others = grid(&["Port", "Queue", "Sent"], 2, &[&["a", "3", "1,000"], &["b", "4", "2"]]);
        assert!(cells.fitted_with(&others, 200, 200).contains("\n\n"), "other rows");
    }
}
