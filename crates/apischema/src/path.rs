//! Where in an object a walk is. Paths are linked on the stack and become text only when something is wrong there.

use std::fmt::{self, Write as _};

/// A step from a value to one inside it.
#[derive(Clone, Copy, Debug)]
enum Segment<'a> {
    /// A named field.
    Field(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An element of a list.
    Index(usize),
}

/// The way from the root of an object to a value in it.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    last: Option<(&'a Path<'a>, Segment<'a>)>,
}

/// What Kubernetes calls the path of the root.
pub(crate) const ROOT_NAME: &str = "<nil>";

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path { last: None };

    /// A field of the object itself.
    pub const fn root(name: &'a str) -> Path<'a> {
        Path { last: Some((&Path::ROOT, Segment::Field(name))) }
    }

    /// A named field of the value.
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { last: Some((self, Segment::Field(name))) }
    }

    /// A key of the value, which is a map.
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { last: Some((self, Segment::Key(key))) }
    }

    /// An element of the value, which is a list.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path { last: Some((self, Segment::Index(index))) }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.last.is_none()
    }

    /// As a field's path in a Status: `spec.ports[0]`, `metadata.labels[a/b]`, and `<nil>` for the root.
    pub(crate) fn to_field_path(self) -> String {
        if self.is_root() {
            return ROOT_NAME.to_owned();
        }
        self.render(|text, segment| match segment {
            Segment::Field(name) => push_field(text, name),
            Segment::Key(key) => {
                let _ = write!(text, "[{key}]");
            }
            Segment::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
        })
    }

    /// As messages of OpenAPI validation have it: `spec.ports[0]`, `spec.map.key`, and nothing for the root.
    pub(crate) fn to_openapi_path(self) -> String {
        self.render(|text, segment| match segment {
            Segment::Field(name) => push_field(text, name),
            Segment::Key(key) => {
                let _ = write!(text, ".{key}");
            }
            Segment::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
        })
    }

    /// As warnings about unknown fields have it: `spec.ports[0].foo`, `spec.map.key`.
    pub(crate) fn to_dotted(self) -> String {
        self.render(|text, segment| match segment {
            Segment::Field(name) | Segment::Key(name) => push_field(text, name),
            Segment::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
        })
    }

    fn render(self, push: impl Fn(&mut String, Segment<'_>)) -> String {
        let mut segments = Vec::new();
        let mut path = &self;
        while let Some((parent, segment)) = path.last {
            segments.push(segment);
            path = parent;
        }
        let mut text = String::new();
        segments.into_iter().rev().for_each(|segment| push(&mut text, segment));
        text
    }
}

/// As a field's path in a Status.
impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_field_path())
    }
}

/// Appends the name of a field, after a point unless it is the first.
fn push_field(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_gets_its_way_of_writing() {
        let spec = Path::ROOT.field("spec");
        let map = spec.field("map");
        let key = map.key("a/b");
        let item = key.index(3);
        let path = item.field("x");
        assert_eq!(path.to_field_path(), "spec.map[a/b][3].x");
        assert_eq!(path.to_openapi_path(), "spec.map.a/b[3].x");
        assert_eq!(path.to_dotted(), "spec.map.a/b[3].x");
        assert_eq!(Path::root("spec").field("map").key("a/b").to_string(), "spec.map[a/b]");
        assert_eq!(Path::ROOT.to_field_path(), "<nil>");
        assert_eq!(Path::ROOT.key("k").to_openapi_path(), ".k");
    }
}
