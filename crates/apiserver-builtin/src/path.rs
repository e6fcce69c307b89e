//! Where in an object a check is. Paths are linked on the stack and become text only when something is wrong there.

use std::fmt::{self, Write as _};

/// The way from the root of an object to a value in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub(super) const fn root(name: &'a str) -> Path<'a> {
        Path { parent: None, segment: Segment::Field(name) }
    }

    pub(super) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Field(name) }
    }

    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Key(key) }
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }
}

/// As in a Status: `spec.ports[0]`, `metadata.labels[a/b]`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.segment {
            Segment::Field(name) => {
                if self.parent.is_some() {
                    formatter.write_char('.')?;
                }
                formatter.write_str(name)
            }
            Segment::Key(key) => write!(formatter, "[{key}]"),
            Segment::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_clients_know_it() {
        let spec = Path::root("spec");
        assert_eq!(spec.field("ports").index(3).field("name").to_string(), "spec.ports[3].name");
        assert_eq!(spec.field("selector").key("a/b").to_string(), "spec.selector[a/b]");
    }
}
