//! Columns of text for people.

use std::fmt::Display;

/// The widest a cell gets; the rest is cut, except in the last column.
const CELL: usize = 60;

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|&name| name.to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        let last = cells.len().saturating_sub(1);
        let cell = |(index, text): (usize, String)| {
            let text = one_line(&text);
            if index == last { text } else { cut(&text, CELL) }
        };
        self.rows.push(cells.into_iter().enumerate().map(cell).collect());
    }

    /// The lines, columns aligned, numbers to the right.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows[0].len();
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let is_number: Vec<bool> = (0..columns).map(|column| self.is_number(column)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().enumerate().map(|(column, cell)| match is_number[column] {
                true => format!("{cell:>width$}", width = widths[column]),
                false => format!("{cell:<width$}", width = widths[column]),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn is_number(&self, column: usize) -> bool {
        let is_number = |row: &Vec<String>| row[column].starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let fits = |row: &Vec<String>| row[column].len() < 12;
        self.rows.len() > 1 && self.rows[1..].iter().all(|row| is_number(row) && fits(row))
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Texts of tasks may hold anything; a terminal must not obey it.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// `1 task`, `2 tasks`.
pub fn plural<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    format!("{count} {noun}{}", if count == N::from(1) { "" } else { "s" })
}

/// `90` seconds as `1m30s`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_right() {
        let mut table = Table::new(&["NAME", "COUNT", "TEXT"]);
        table.row(vec!["a".into(), "5".into(), "x\ny\u{1b}[2J".into()]);
        table.row(vec!["longer".into(), "1234567".into(), "z".into()]);
        assert_eq!(
            table.lines(),
            ["NAME      COUNT  TEXT", "a             5  x y [2J", "longer  1234567  z",]
        );
    }

    #[test]
    fn ages_have_two_units() {
        assert_eq!([5, 90, 3_700, 200_000].map(age), ["5s", "1m30s", "1h1m", "2d7h"]);
    }
}
