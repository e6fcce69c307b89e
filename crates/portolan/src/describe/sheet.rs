//! What is said about one thing: a title, fields, sections.

use comfy_table::{ContentArrangement, Table};

use crate::output::{plain, table, trimmed, wrap};

/// What is said about one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    title: String,
    fields: Vec<(&'static str, String)>,
    sections: Vec<(String, Section)>,
}

#[derive(Clone, Debug)]
enum Section {
    Lines(Vec<String>),
    Table(Box<Table>),
}

impl Sheet {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A field; left out if there is nothing to say.
    pub(crate) fn field(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.fields.push((name, value));
        }
    }

    /// A section of lines.
    pub(crate) fn lines(&mut self, title: impl Into<String>, lines: impl IntoIterator<Item = String>) {
        let lines = lines.into_iter().map(|line| plain(&line)).collect();
        self.sections.push((title.into(), Section::Lines(lines)));
    }

    /// A section with a table.
    pub(crate) fn table<const N: usize>(
        &mut self,
        title: impl Into<String>,
        columns: [&'static str; N],
        rows: Vec<[String; N]>,
    ) {
        let mut table = table(columns);
        for row in rows {
            table.add_row(row.map(|cell| if cell.is_empty() { "-".to_owned() } else { plain(&cell) }));
        }
        self.sections.push((title.into(), Section::Table(Box::new(table))));
    }

    /// All of it, in lines that fit.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let mut text = format!("{}\n", plain(&self.title));
        let longest = self.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default() + 1;
        for (name, value) in &self.fields {
            let name = format!("{name}:");
            text += &wrap(&format!("  {name:longest$}  {}", plain(value)), width, longest + 4);
            text += "\n";
        }
        for (title, section) in &self.sections {
            text += &format!("\n{title}:\n");
            let lines = match section {
                Section::Lines(lines) => {
                    lines.iter().map(|line| wrap(&format!("  {line}"), width, 4)).collect()
                }
                Section::Table(table) => fitting(table, width),
            };
            for line in lines {
                text += line.trim_end();
                text += "\n";
            }
        }
        text
    }
}

/// The lines of a table whose cells are broken where it would not fit.
fn fitting(table: &Table, width: Option<usize>) -> Vec<String> {
    const INDENT: usize = 2;
    let mut table = table.clone();
    if let Some(width) = width.and_then(|width| u16::try_from(width - INDENT).ok()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    trimmed(&table).lines().map(|line| format!("  {line}")).collect()
}
