//! Expressions as trees.

use regex::Regex;

use super::functions::Implementation;

/// A part of an expression, and where in the text it is.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) offset: usize,
    /// How many nodes there are from here down to the deepest.
    pub(super) depth: usize,
    pub(super) kind: Kind,
    /// Of its type, what matters for its cost; known once the expression is checked.
    pub(super) shape: Shape,
}

/// What costs depend on of a type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Of one size: numbers, booleans, times.
    Scalar,
    /// Strings and bytes.
    Text,
    List(Box<Shape>),
    Map,
    Object,
    Optional(Box<Shape>),
    /// One of Kubernetes' own types.
    Opaque,
    Dyn,
}

impl Shape {
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Shape::Scalar => true,
            Shape::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }
}

impl Node {
    pub(super) fn new(offset: usize, kind: Kind) -> Node {
        Node { offset, depth: kind.depth() + 1, kind, shape: Shape::Dyn }
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Literal),
    /// A variable. Its place is known once the expression is checked.
    Variable {
        name: String,
        slot: usize,
    },
    /// The name of a type, where a variable could stand.
    TypeName(&'static str),
    /// A field of an object or a key of a map.
    Select(Box<Select>),
    /// A function, a method or an operator.
    Call(Box<Call>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `condition ? then : otherwise`
    Choice(Box<[Node; 3]>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    Comprehension(Box<Comprehension>),
    /// `value.optMap(x, …)`: evaluates only for an optional that has a value.
    OptionalMap(Box<OptionalMap>),
}

impl Kind {
    fn depth(&self) -> usize {
        let deepest =
            |nodes: &mut dyn Iterator<Item = &Node>| nodes.map(|node| node.depth).max().unwrap_or(0);
        match self {
            Kind::Literal(_) | Kind::Variable { .. } | Kind::TypeName(_) => 0,
            Kind::Select(select) => select.operand.depth,
            Kind::Call(call) => deepest(&mut call.target.iter().chain(&call.arguments)),
            Kind::And(nodes) | Kind::Or(nodes) => deepest(&mut nodes.iter()),
            Kind::Choice(nodes) => deepest(&mut nodes.iter()),
            Kind::List(elements) => deepest(&mut elements.iter().map(|element| &element.value)),
            Kind::Map(entries) => deepest(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            Kind::Comprehension(inner) => {
                deepest(&mut [&inner.range, &inner.body].into_iter().chain(&inner.filter))
            }
            Kind::OptionalMap(inner) => deepest(&mut [&inner.operand, &inner.body].into_iter()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Node,
    pub(super) field: String,
    /// The property's own name, if the written one is escaped.
    pub(super) unescaped: Option<String>,
    pub(super) mode: SelectMode,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SelectMode {
    /// `a.b`
    Value,
    /// `has(a.b)`
    Presence,
    /// `a.?b`
    Optional,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: String,
    /// What stands before the dot, if it is a method.
    pub(super) target: Option<Node>,
    pub(super) arguments: Vec<Node>,
    /// Known once the expression is checked.
    pub(super) implementation: Option<Implementation>,
    /// A pattern that is a literal, compiled.
    pub(super) regex: Option<Regex>,
}

/// An element of a list; an optional one is left out if it has no value.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// An entry of a map; an optional one is left out if it has no value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// Something done for every element of a list or key of a map.
#[derive(Debug)]
pub(super) struct Comprehension {
    pub(super) range: Node,
    /// One variable, or two: index and element of a list, key and value of a map.
    pub(super) variables: Vec<String>,
    pub(super) kind: ComprehensionKind,
    /// What has to hold for an element to count, for those kinds that choose.
    pub(super) filter: Option<Node>,
    /// What is asked or made of each element.
    pub(super) body: Node,
    /// Where the first variable is, once checked.
    pub(super) slot: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ComprehensionKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`.
    List,
    /// Keeps the elements themselves.
    Filter,
    /// `transformMap`: a map with the same keys.
    Map,
}

#[derive(Debug)]
pub(super) struct OptionalMap {
    pub(super) operand: Node,
    pub(super) variable: String,
    pub(super) body: Node,
    /// Whether the body is optional already.
    pub(super) flat: bool,
    pub(super) slot: usize,
}
