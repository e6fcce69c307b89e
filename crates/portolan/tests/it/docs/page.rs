//! The fenced blocks of a page of documentation.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    /// The file named by the comment `<!-- from: FILE -->` on the line before the fence.
    pub(crate) from: Option<String>,
    pub(crate) text: String,
}

/// The root of the source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that users read: README.md and everything in `docs/`.
pub(crate) fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = std::fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

pub(crate) fn blocks(page: &Path) -> Vec<Block> {
    parse(&std::fs::read_to_string(page).unwrap())
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut previous = "";
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let from = previous.strip_prefix("<!-- from: ").and_then(|rest| rest.strip_suffix(" -->"));
                open = Some(Block {
                    line: index + 1,
                    language: language.trim().to_owned(),
                    from: from.map(str::to_owned),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
        previous = line;
    }
    assert!(open.is_none(), "a fence is not closed: {open:?}");
    blocks
}

#[test]
fn blocks_have_their_language_text_and_source() {
    let text = "Hi\n\n```sh\nls\n```\n<!-- from: a/b.rs -->\n```rust\nfn a() {}\n\nfn b() {}\n```\n";
    let blocks = parse(text);
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].line, &*blocks[0].language, &*blocks[0].text), (3, "sh", "ls\n"));
    assert_eq!(blocks[1].from.as_deref(), Some("a/b.rs"));
    assert_eq!(blocks[1].text, "fn a() {}\n\nfn b() {}\n");
}
