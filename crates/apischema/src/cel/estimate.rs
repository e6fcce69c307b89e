//! What an expression may cost at most, judged by what its schema allows.
//!
//! kube-apiserver refuses rules that could cost too much, so a CRD that works here must not be refused there. The numbers
//! are those of cel-go and of kube-apiserver's libraries; macros cost what the loops cost that they stand for there.

use crate::schema::{AdditionalProperties, Schema};

use super::ast::{
    Call, Comprehension, ComprehensionKind, Kind, Literal, Node, OptionalMap, SelectMode, Shape,
};
use super::escape::{escape, unescape};
use super::size::max_elements;

const TEXT: f64 = 0.1;
const REGEX: f64 = 0.25;
const LIST: u64 = 10;
const MAP: u64 = 30;

/// How much something is at least and at most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    fn fixed(size: u64) -> Size {
        Size { min: size, max: size }
    }

    fn union(self, other: Size) -> Size {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn plus(self, other: Size) -> Size {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Size) -> Size {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

/// The cost of going through so much at so much each.
fn scaled(size: u64, factor: f64) -> u64 {
    // Conversion of what is too large gives the largest.
    (size as f64 * factor).ceil() as u64
}

/// Where in the object a value is from, as far as kube-apiserver can tell.
#[derive(Clone, Copy)]
enum Origin<'s> {
    /// It was computed.
    Nowhere,
    /// It is from somewhere that has no schema.
    Lost,
    Value(&'s Schema),
    /// A key of a map.
    Key,
}

impl<'s> Origin<'s> {
    fn size(self) -> Option<Size> {
        match self {
            Origin::Nowhere | Origin::Lost => None,
            Origin::Value(schema) => Some(Size { min: 0, max: max_elements(schema) }),
            Origin::Key => Some(Size { min: 0, max: 0 }),
        }
    }

    fn field(self, name: &str, root: &'s Schema) -> Origin<'s> {
        match self {
            Origin::Nowhere => Origin::Value(root),
            Origin::Lost | Origin::Key => Origin::Lost,
            Origin::Value(schema) => {
                let property = unescape(name).filter(|property| escape(property).as_deref() == Some(name));
                let property = property.and_then(|property| schema.properties.get(&property));
                let visible = property.filter(|property| super::types::declared(property).is_some());
                visible.map_or(Origin::Lost, |property| Origin::Value(property))
            }
        }
    }

    /// An element of a list, or a value of a map. One of a list that was computed is taken for the whole: that is where
    /// kube-apiserver starts to look, and it has nowhere to go.
    fn element(self, root: &'s Schema) -> Origin<'s> {
        match self {
            Origin::Nowhere => Origin::Value(root),
            Origin::Lost | Origin::Key => Origin::Lost,
            Origin::Value(schema) => match (&schema.items, &schema.additional) {
                (Some(items), _) => Origin::Value(items),
                (None, AdditionalProperties::Of(values)) => Origin::Value(values),
                _ => Origin::Lost,
            },
        }
    }

    fn key(self, root: &'s Schema) -> Origin<'s> {
        match self {
            Origin::Nowhere => Origin::Value(root),
            Origin::Value(schema) if matches!(schema.additional, AdditionalProperties::Of(_)) => Origin::Key,
            _ => Origin::Lost,
        }
    }
}

/// What is known of a value that a list or a map was made of.
#[derive(Clone, Copy)]
struct Entries {
    key: Size,
    value: Size,
}

impl Entries {
    fn union(self, other: Entries) -> Entries {
        Entries { key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// What is known of a part of an expression.
#[derive(Clone, Copy)]
struct Estimate<'s> {
    cost: u64,
    /// Of the value; nothing if it could be anything.
    size: Option<Size>,
    entries: Option<Entries>,
    origin: Origin<'s>,
}

impl Estimate<'_> {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// The greatest cost of an expression about a value of a schema.
pub(super) fn max_cost(root: &Node, schema: &Schema) -> u64 {
    let this = Variable { origin: Origin::Value(schema), size: None };
    Estimator { root: schema, variables: vec![this, this] }.node(root).cost
}

#[derive(Clone, Copy)]
struct Variable<'s> {
    origin: Origin<'s>,
    size: Option<Size>,
}

struct Estimator<'s> {
    root: &'s Schema,
    /// By their slots.
    variables: Vec<Variable<'s>>,
}

impl<'s> Estimator<'s> {
    fn node(&mut self, node: &Node) -> Estimate<'s> {
        let mut estimate = self.kind(node);
        if estimate.size.is_none() {
            let scalar = node.shape.is_scalar().then_some(Size::fixed(1));
            estimate.size = estimate.origin.size().or(scalar);
        }
        estimate
    }

    fn kind(&mut self, node: &Node) -> Estimate<'s> {
        let plain = |cost| Estimate { cost, size: None, entries: None, origin: Origin::Nowhere };
        match &node.kind {
            Kind::Literal(literal) => {
                let size = match literal {
                    Literal::String(text) => text.chars().count() as u64,
                    Literal::Bytes(bytes) => bytes.len() as u64,
                    _ => 1,
                };
                Estimate { size: Some(Size::fixed(size)), ..plain(0) }
            }
            // The name of a type is looked up like a variable.
            Kind::TypeName(_) => Estimate { origin: Origin::Value(self.root), ..plain(1) },
            Kind::Variable { slot, .. } => {
                let Variable { origin, size } = self.variables[*slot];
                Estimate { origin, size: origin.size().or(size), ..plain(1) }
            }
            Kind::Select(select) => {
                let operand = self.node(&select.operand);
                let fields = matches!(select.operand.shape, Shape::Map | Shape::Object);
                match select.mode {
                    // Asking costs nothing.
                    SelectMode::Presence => plain(operand.cost),
                    SelectMode::Optional => plain(operand.cost.saturating_add(1)),
                    SelectMode::Value => {
                        let origin = operand.origin.field(&select.field, self.root);
                        Estimate { origin, ..plain(operand.cost.saturating_add(u64::from(fields))) }
                    }
                }
            }
            Kind::Call(call) => self.call(call, node),
            Kind::And(terms) | Kind::Or(terms) => {
                let [left, right] = &**terms;
                let cost = self.node(left).cost.saturating_add(self.node(right).cost);
                plain(cost)
            }
            Kind::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = self.node(condition).cost;
                let (then, otherwise) = (self.node(then), self.node(otherwise));
                let entries = then.entries.zip(otherwise.entries).map(|(a, b)| a.union(b));
                let cost = condition.saturating_add(then.cost.max(otherwise.cost));
                Estimate { size: Some(then.size().union(otherwise.size())), entries, ..plain(cost) }
            }
            Kind::List(elements) => {
                let mut cost = LIST;
                let mut value: Option<Size> = None;
                for element in elements {
                    let element = self.node(&element.value);
                    cost = cost.saturating_add(element.cost);
                    value = Some(value.map_or(element.size(), |value| value.union(element.size())));
                }
                let entries = Entries { key: Size::fixed(1), value: value.unwrap_or(Size::fixed(0)) };
                let size = Some(Size::fixed(elements.len() as u64));
                Estimate { size, entries: Some(entries), ..plain(cost) }
            }
            Kind::Map(entries) => {
                let mut cost = MAP;
                let mut sizes: Option<Entries> = None;
                for entry in entries {
                    let (key, value) = (self.node(&entry.key), self.node(&entry.value));
                    cost = cost.saturating_add(key.cost).saturating_add(value.cost);
                    let found = Entries { key: key.size(), value: value.size() };
                    sizes = Some(sizes.map_or(found, |sizes| sizes.union(found)));
                }
                let none = Entries { key: Size::fixed(0), value: Size::fixed(0) };
                let size = Some(Size::fixed(entries.len() as u64));
                Estimate { size, entries: Some(sizes.unwrap_or(none)), ..plain(cost) }
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::OptionalMap(optional) => self.optional_map(optional),
        }
    }

    fn bind(&mut self, slot: usize, variable: Variable<'s>) {
        self.variables.truncate(slot);
        self.variables.push(variable);
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Estimate<'s> {
        let Comprehension { range, variables, kind, filter, body, slot } = comprehension;
        let range_estimate = self.node(range);
        let is_map = range.shape == Shape::Map;
        let (entries, origin) = (range_estimate.entries, range_estimate.origin);
        let key = Variable { origin: origin.key(self.root), size: entries.map(|entries| entries.key) };
        let value =
            Variable { origin: origin.element(self.root), size: entries.map(|entries| entries.value) };
        match (variables.len(), is_map) {
            (1, true) => self.bind(*slot, key),
            (1, false) => self.bind(*slot, value),
            _ => {
                let index = Variable { origin: Origin::Lost, size: entries.map(|entries| entries.key) };
                self.bind(*slot, if is_map { key } else { index });
                self.bind(*slot + 1, value);
            }
        }
        let filter_cost = filter.as_ref().map_or(0, |filter| self.node(filter).cost);
        let body_estimate = self.node(body);
        let element = self.variables[*slot];
        self.variables.truncate(*slot);
        let element_size = element.origin.size().or(element.size);
        let body_cost = body_estimate.cost.saturating_add(filter_cost);
        // What is done once, and for each element, besides the body: asking whether to go on, joining, and the result.
        let (once, each) = match kind {
            ComprehensionKind::All => (1, 3),
            ComprehensionKind::Exists => (1, 4),
            ComprehensionKind::ExistsOne => (2, 2),
            ComprehensionKind::List => (LIST + 1, 2 + LIST),
            ComprehensionKind::Filter => (LIST + 1, 3 + LIST),
            ComprehensionKind::Map => (MAP + 1, 3),
        };
        let count = range_estimate.size();
        let loops = count.max.saturating_mul(body_cost.saturating_add(each));
        let cost = range_estimate.cost.saturating_add(once).saturating_add(loops);
        let made = |value: Option<Size>| {
            let value = value.unwrap_or(Size::UNKNOWN).union(Size::fixed(0));
            Some(Entries { key: Size::fixed(1), value })
        };
        let (size, entries) = match kind {
            ComprehensionKind::All | ComprehensionKind::Exists | ComprehensionKind::ExistsOne => {
                (Size::fixed(1), None)
            }
            ComprehensionKind::List | ComprehensionKind::Map => (count, made(body_estimate.size)),
            ComprehensionKind::Filter => (count, made(element_size)),
        };
        Estimate { cost, size: Some(size), entries, origin: Origin::Nowhere }
    }

    fn optional_map(&mut self, optional: &OptionalMap) -> Estimate<'s> {
        let OptionalMap { operand, body, slot, .. } = optional;
        let operand = self.node(operand);
        self.bind(*slot, Variable { origin: Origin::Nowhere, size: None });
        let body = self.node(body);
        self.variables.truncate(*slot);
        // Whether there is a value; and then a loop that runs never, the value, and what is made of it.
        let cost = operand.cost.saturating_mul(2).saturating_add(body.cost).saturating_add(3 + LIST);
        Estimate { cost, size: None, entries: None, origin: Origin::Nowhere }
    }

    fn call(&mut self, call: &Call, node: &Node) -> Estimate<'s> {
        let target = call.target.as_ref().map(|target| (self.node(target), &target.shape));
        let arguments: Vec<(Estimate<'s>, &Shape)> =
            call.arguments.iter().map(|argument| (self.node(argument), &argument.shape)).collect();
        let parts = target.iter().chain(&arguments);
        let parts = parts.fold(0_u64, |sum, (part, _)| sum.saturating_add(part.cost));
        let mut estimate = Estimate { cost: 0, size: None, entries: None, origin: Origin::Nowhere };
        let own = match &*call.function {
            "_[_]" => {
                estimate.size = arguments[0].0.entries.map(|entries| entries.value);
                estimate.origin = arguments[0].0.origin.element(self.root);
                1
            }
            "dyn" => {
                estimate = arguments[0].0;
                1
            }
            "_+_" => {
                let [(left, _), (right, _)] = arguments[..] else { return estimate };
                if !node.shape.is_scalar() {
                    estimate.size = Some(left.size().plus(right.size()));
                    estimate.entries = left.entries.zip(right.entries).map(|(a, b)| a.union(b));
                }
                match node.shape {
                    Shape::Text | Shape::Dyn => scaled(left.size().plus(right.size()).max, TEXT),
                    _ => 1,
                }
            }
            _ => {
                let (cost, size) = function_cost(call, target.as_ref(), &arguments);
                estimate.size = size;
                cost
            }
        };
        estimate.cost = parts.saturating_add(own);
        estimate
    }
}

/// What a function costs besides its arguments, and how large its result is.
fn function_cost(
    call: &Call,
    target: Option<&(Estimate<'_>, &Shape)>,
    arguments: &[(Estimate<'_>, &Shape)],
) -> (u64, Option<Size>) {
    let argument = |index: usize| arguments.get(index).map_or(Size::UNKNOWN, |(argument, _)| argument.size());
    let receiver = target.map_or(Size::UNKNOWN, |(target, _)| target.size());
    let traversed = |size: Size| scaled(size.max, TEXT);
    let searched = |text: Size, pattern: Size| {
        scaled(text.max.saturating_add(1), TEXT).saturating_mul(scaled(pattern.max, REGEX))
    };
    match (&*call.function, target) {
        ("_==_" | "_!=_", _) => {
            let cheap =
                matches!(arguments, [(_, Shape::Opaque), (_, Shape::Opaque)]) && call.function == "_==_";
            (if cheap { 1 } else { scaled(argument(0).max.min(argument(1).max), TEXT) }, None)
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", _) => match arguments {
            [(_, Shape::Text | Shape::Dyn), (_, Shape::Text | Shape::Dyn)] => {
                (scaled(argument(0).max.min(argument(1).max), TEXT), None)
            }
            _ => (1, None),
        },
        ("@in", _) => match arguments {
            [_, (_, Shape::Map)] => (1, None),
            _ => (argument(1).max, None),
        },
        ("bytes", _) => {
            let size = argument(0);
            (traversed(size), Some(Size { max: size.max.saturating_mul(4), ..size }))
        }
        ("strings.quote", _) => {
            let size = argument(0);
            (
                traversed(size),
                Some(Size { min: size.min + 2, max: size.max.saturating_mul(2).saturating_add(2) }),
            )
        }
        ("startsWith" | "endsWith", Some(_)) => (traversed(argument(0)), None),
        ("contains", Some(_)) => (traversed(receiver).saturating_mul(traversed(argument(0))), None),
        ("matches", Some(_)) => (searched(receiver, argument(0)), None),
        ("find" | "findAll", Some(_)) => (searched(receiver, argument(0)), Some(Size { min: 0, ..receiver })),
        ("format", Some(_)) => (traversed(receiver), None),
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some((list, shape))) => {
            match shape {
                Shape::List(element) => {
                    let size = element_size(list.origin);
                    let each =
                        if **element == Shape::Text { scaled(size.max, TEXT).saturating_add(1) } else { 1 };
                    (receiver.max.saturating_mul(each), None)
                }
                _ => (traversed(receiver), None),
            }
        }
        ("url", _) => (traversed(argument(0)), Some(argument(0))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(_)) => {
            (traversed(receiver), Some(receiver))
        }
        ("replace", Some(_)) => {
            (scaled(receiver.max, 2.0 * TEXT), Some(replaced(receiver, argument(0), argument(1))))
        }
        ("split", Some(_)) => {
            let parts = match call.arguments.get(1).map(|limit| &limit.kind) {
                Some(Kind::Literal(Literal::Int(limit))) => *limit as u64,
                _ => receiver.max,
            };
            (scaled(receiver.max, 2.0 * TEXT), Some(Size { min: 0, max: parts }))
        }
        ("join", Some((list, shape))) => {
            let element = match shape {
                Shape::List(_) => element_size(list.origin),
                _ => Size::fixed(0),
            };
            let mut size = receiver.times(element);
            if !arguments.is_empty() {
                let between =
                    Size { min: receiver.min.saturating_sub(1), max: receiver.max.saturating_sub(1) };
                size = size.plus(argument(0).times(between));
            }
            (traversed(size), Some(size))
        }
        ("sets.contains" | "sets.intersects", _) => {
            (argument(0).times(argument(1)).max.saturating_add(1), None)
        }
        ("sets.equivalent", _) => {
            (argument(0).times(argument(1)).max.saturating_mul(2).saturating_add(1), None)
        }
        ("ip.isCanonical", _) => (scaled(argument(0).max, 2.0 * TEXT), None),
        ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", None) => {
            (traversed(argument(0)), None)
        }
        ("containsIP" | "containsCIDR", Some(_)) => {
            // Addresses have at most 16 bytes.
            let compared = if call.function == "containsIP" { 4 } else { 7 };
            let parsed = if matches!(arguments, [(_, Shape::Text)]) { traversed(argument(0)) } else { 0 };
            (parsed.saturating_add(compared), None)
        }
        // The longest pattern of a named format has 128 characters.
        ("validate", Some(_)) => (scaled(traversed(argument(0)), 128.0 * REGEX), None),
        ("string", _) if matches!(arguments, [(_, Shape::Text)]) => (traversed(argument(0)), None),
        _ => (1, None),
    }
}

/// The size of an element of a list that a function goes through.
fn element_size(list: Origin<'_>) -> Size {
    match list {
        Origin::Value(schema) => list.element(schema).size().unwrap_or(Size::UNKNOWN),
        _ => Size::UNKNOWN,
    }
}

/// The size of a text in which the smallest parts are replaced by the largest, as often as possible.
fn replaced(text: Size, old: Size, new: Size) -> Size {
    let (count, kept) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        ((text.max as f64 / old.min as f64).ceil() as u64, 0)
    };
    Size { min: 0, max: count.saturating_mul(new.max).saturating_add(kept) }
}
