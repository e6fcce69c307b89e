//! Whether an expression makes sense for the types it is about, and what it refers to.

use crate::schema::{Schema, compile_pattern};

use super::CompileError;
use super::ast::{
    Call, Comprehension, ComprehensionKind, Kind, Literal, Node, OptionalMap, Select, SelectMode,
};
use super::signatures::{Function, function};
use super::types::{Bindings, Type, declared, field};

/// What a checked expression is about.
pub(super) struct Checked<'s> {
    pub(super) result: Type<'s>,
    /// Whether it looks at what was before.
    pub(super) uses_old_self: bool,
    /// How many variables it has at once.
    pub(super) slots: usize,
}

/// Whether what was before is always there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum OldSelf {
    /// The rule runs only if it is.
    Given,
    /// The rule runs always, and asks.
    Optional,
}

pub(super) const SELF_SLOT: usize = 0;
pub(super) const OLD_SELF_SLOT: usize = 1;

/// Checks an expression whose `self` is a value of `schema`.
pub(super) fn check<'s>(
    source: &str,
    node: &mut Node,
    schema: &'s Schema,
    old_self: OldSelf,
) -> Result<Checked<'s>, CompileError> {
    let this = declared(schema).ok_or_else(|| {
        CompileError::new("failed to convert to declType for CEL validation rules".to_owned())
    })?;
    let old = match old_self {
        OldSelf::Given => this.clone(),
        OldSelf::Optional => Type::Optional(Box::new(this.clone())),
    };
    let mut checker = Checker {
        bindings: Bindings::default(),
        scope: vec![("self".to_owned(), this), ("oldSelf".to_owned(), old)],
        slots: 2,
        mixed: false,
        uses_old_self: false,
        errors: Vec::new(),
    };
    let result = checker.node(node);
    let result = checker.bindings.resolve(&result);
    if !checker.errors.is_empty() {
        checker.errors.sort_by_key(|(offset, _)| *offset);
        let errors =
            checker.errors.iter().map(|(offset, message)| CompileError::line(source, *offset, message));
        return Err(CompileError::new(errors.collect::<Vec<_>>().join("\n")));
    }
    Ok(Checked { result, uses_old_self: checker.uses_old_self, slots: checker.slots })
}

struct Checker<'s> {
    bindings: Bindings<'s>,
    /// Variables by their slots; an inner one hides an outer one of its name.
    scope: Vec<(String, Type<'s>)>,
    slots: usize,
    /// Whether lists and maps may hold values of several types here, as those given to `format` do.
    mixed: bool,
    uses_old_self: bool,
    errors: Vec<(usize, String)>,
}

impl<'s> Checker<'s> {
    fn error(&mut self, offset: usize, message: String) -> Type<'s> {
        self.errors.push((offset, message));
        Type::Error
    }

    fn node(&mut self, node: &mut Node) -> Type<'s> {
        let found = self.kind(node);
        node.shape = self.bindings.resolve(&found).shape();
        found
    }

    fn kind(&mut self, node: &mut Node) -> Type<'s> {
        let offset = node.offset;
        match &mut node.kind {
            Kind::Literal(literal) => type_of_literal(literal),
            Kind::TypeName(_) => Type::Kind,
            Kind::Variable { name, slot } => {
                if let Some(found) = self.scope.iter().rposition(|(known, _)| known == name) {
                    *slot = found;
                    self.uses_old_self |= found == OLD_SELF_SLOT;
                    return self.scope[found].1.clone();
                }
                if let Some(type_name) = type_name(name) {
                    node.kind = Kind::TypeName(type_name);
                    return Type::Kind;
                }
                let message = format!("undeclared reference to '{name}' (in container '')");
                self.error(offset, message)
            }
            Kind::Select(select) => {
                if let Some(type_name) = qualified_name(select).as_deref().and_then(type_name) {
                    node.kind = Kind::TypeName(type_name);
                    return Type::Kind;
                }
                self.select(select, offset)
            }
            Kind::Call(call) => self.call(call, offset),
            Kind::And(terms) | Kind::Or(terms) => {
                for term in terms.iter_mut() {
                    self.expect_bool(term);
                }
                Type::Bool
            }
            Kind::Choice(parts) => self.choice(parts, offset),
            Kind::List(elements) => {
                let mut element_type = self.bindings.fresh();
                for element in elements {
                    let mut found = self.node(&mut element.value);
                    if element.optional {
                        found = self.unwrap_optional(&found, element.value.offset);
                    }
                    element_type = self.join(&element_type, &found, element.value.offset);
                }
                Type::List(Box::new(element_type))
            }
            Kind::Map(entries) => {
                let (mut key_type, mut value_type) = (self.bindings.fresh(), self.bindings.fresh());
                for entry in entries {
                    let key = self.node(&mut entry.key);
                    key_type = self.join(&key_type, &key, entry.key.offset);
                    let mut value = self.node(&mut entry.value);
                    if entry.optional {
                        value = self.unwrap_optional(&value, entry.value.offset);
                    }
                    value_type = self.join(&value_type, &value, entry.value.offset);
                }
                Type::Map(Box::new(key_type), Box::new(value_type))
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension, offset),
            Kind::OptionalMap(optional) => self.optional_map(optional),
        }
    }

    fn expect_bool(&mut self, node: &mut Node) {
        let found = self.node(node);
        if !self.bindings.assign(&found, &Type::Bool) {
            let found = self.bindings.resolve(&found);
            self.error(node.offset, format!("expected type 'bool' but found '{found}'"));
        }
    }

    /// Whether elements count is a choice between two values of what they are counted into, and is called so in messages.
    fn expect_choice(&mut self, condition: &Type<'s>, result: &Type<'s>, offset: usize) {
        if !self.bindings.assign(condition, &Type::Bool) {
            let (condition, result) = (self.bindings.resolve(condition), self.bindings.resolve(result));
            let message = format!(
                "found no matching overload for '_?_:_' applied to '({condition}, {result}, {result})'"
            );
            self.error(offset, message);
        }
    }

    /// The type of the elements of a list that has elements of both types.
    fn join(&mut self, so_far: &Type<'s>, next: &Type<'s>, offset: usize) -> Type<'s> {
        if self.bindings.assign(next, so_far) {
            let (so_far, next) = (self.bindings.resolve(so_far), self.bindings.resolve(next));
            return if next.is_dyn() { next } else { so_far };
        }
        if self.mixed {
            return Type::Dyn;
        }
        let (so_far, next) = (self.bindings.resolve(so_far), self.bindings.resolve(next));
        self.error(offset, format!("expected type '{so_far}' but found '{next}'"))
    }

    fn unwrap_optional(&mut self, found: &Type<'s>, offset: usize) -> Type<'s> {
        match self.bindings.resolve(found) {
            Type::Optional(inner) => *inner,
            other if other.is_dyn() => Type::Dyn,
            other => {
                self.error(offset, format!("expected type 'optional_type({other})' but found '{other}'"))
            }
        }
    }

    fn select(&mut self, select: &mut Select, offset: usize) -> Type<'s> {
        let operand = self.node(&mut select.operand);
        let operand = self.bindings.resolve(&operand);
        let (target, was_optional) = match operand {
            Type::Optional(inner) => (*inner, true),
            other => (other, false),
        };
        let found = match target {
            Type::Map(_, value) => *value,
            Type::Object(schema) => match field(schema, &select.field) {
                Some(found) => found,
                None => self.error(offset, format!("undefined field '{}'", select.field)),
            },
            Type::Variable(_) => {
                self.bindings.assign(&target, &Type::Dyn);
                Type::Dyn
            }
            other if other.is_dyn() => Type::Dyn,
            other => self.error(offset, format!("type '{other}' does not support field selection")),
        };
        match select.mode {
            SelectMode::Presence => Type::Bool,
            SelectMode::Optional => Type::Optional(Box::new(found)),
            SelectMode::Value if was_optional => Type::Optional(Box::new(found)),
            SelectMode::Value => found,
        }
    }

    fn choice(&mut self, [condition, then, otherwise]: &mut [Node; 3], offset: usize) -> Type<'s> {
        let condition = self.node(condition);
        let (then, otherwise) = (self.node(then), self.node(otherwise));
        let fits = self.bindings.assign(&condition, &Type::Bool) && self.bindings.assign(&otherwise, &then);
        let resolve = |kind: &Type<'s>| self.bindings.resolve(kind);
        let (condition, then, otherwise) = (resolve(&condition), resolve(&then), resolve(&otherwise));
        if fits {
            return if otherwise.is_dyn() { otherwise } else { then };
        }
        let message =
            format!("found no matching overload for '_?_:_' applied to '({condition}, {then}, {otherwise})'");
        self.error(offset, message)
    }

    fn call(&mut self, call: &mut Call, offset: usize) -> Type<'s> {
        let mut arguments: Vec<Type<'s>> = Vec::with_capacity(call.arguments.len() + 1);
        let outer = self.mixed;
        self.mixed |= call.function == "format";
        for argument in &mut call.arguments {
            let found = self.node(argument);
            arguments.push(found);
        }
        self.mixed = outer;
        // `ip.isCanonical` is a function's name, unless `ip` is a variable.
        let namespaced = call.target.as_ref().and_then(name_of).filter(|prefix| {
            let root = prefix.split('.').next().unwrap_or_default();
            !self.scope.iter().any(|(known, _)| known == root)
        });
        let namespaced = namespaced.map(|prefix| format!("{prefix}.{}", call.function));
        if let Some(found) = namespaced.as_deref().and_then(function) {
            call.target = None;
            call.function = namespaced.unwrap_or_default();
            return self.resolve(call, found, &arguments, offset);
        }
        if let Some(target) = &mut call.target {
            let found = self.node(target);
            arguments.insert(0, found);
        }
        let Some(found) = function(&call.function) else {
            let message = format!("undeclared reference to '{}' (in container '')", call.function);
            return self.error(offset, message);
        };
        self.check_literals(call);
        self.resolve(call, found, &arguments, offset)
    }

    /// Finds out which of a function's overloads may be meant.
    fn resolve(
        &mut self,
        call: &mut Call,
        function: &'static Function,
        arguments: &[Type<'s>],
        offset: usize,
    ) -> Type<'s> {
        let mut result: Option<Type<'s>> = None;
        for overload in &function.overloads {
            let same_style = overload.member == call.target.is_some();
            if !same_style || overload.parameters.len() != arguments.len() {
                continue;
            }
            let mut bindings = self.bindings.clone();
            let fresh = [bindings.fresh(), bindings.fresh()];
            let wanted = overload.parameters.iter().map(|parameter| instantiate(parameter, &fresh));
            if !arguments.iter().zip(wanted).all(|(argument, wanted)| bindings.assign(argument, &wanted)) {
                continue;
            }
            let found = bindings.resolve(&instantiate(&overload.result, &fresh));
            result = Some(match result {
                None => {
                    self.bindings = bindings;
                    found
                }
                Some(first) if same(&first, &found) => first,
                Some(_) => Type::Dyn,
            });
        }
        call.implementation = Some(function.implementation);
        if let Some(result) = result {
            return result;
        }
        let shown: Vec<String> =
            arguments.iter().map(|argument| self.bindings.resolve(argument).to_string()).collect();
        let shown = match (call.target.is_some(), shown.split_first()) {
            (true, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let message = format!("found no matching overload for '{}' applied to '{shown}'", call.function);
        self.error(offset, message)
    }

    /// Literals that could only fail are refused at once, and patterns are compiled.
    fn check_literals(&mut self, call: &mut Call) {
        let literal = |node: Option<&Node>| match node.map(|node| (&node.kind, node.offset)) {
            Some((Kind::Literal(Literal::String(text)), offset)) => Some((text.clone(), offset)),
            _ => None,
        };
        let first = literal(call.arguments.first());
        let good = match &*call.function {
            "matches" | "find" | "findAll" => {
                let pattern =
                    if call.target.is_some() { first.clone() } else { literal(call.arguments.get(1)) };
                let Some((pattern, offset)) = pattern else { return };
                match compile_pattern(&pattern) {
                    Ok(regex) => call.regex = Some(regex),
                    Err(_) => {
                        self.error(offset, format!("invalid {} argument", call.function));
                    }
                }
                return;
            }
            "duration" => first.as_ref().is_none_or(|(text, _)| super::time::parse_duration(text).is_some()),
            "timestamp" => {
                first.as_ref().is_none_or(|(text, _)| super::time::Timestamp::parse(text).is_some())
            }
            _ => return,
        };
        if let (false, Some((_, offset)), None) = (good, first, &call.target) {
            self.error(offset, format!("invalid {} argument", call.function));
        }
    }

    fn comprehension(&mut self, comprehension: &mut Comprehension, offset: usize) -> Type<'s> {
        let Comprehension { range, variables, kind, filter, body, slot } = comprehension;
        let range_type = self.node(range);
        let (first, second) = match self.bindings.resolve(&range_type) {
            Type::List(element) if variables.len() == 1 => (*element, Type::Dyn),
            Type::List(element) => (Type::Int, *element),
            Type::Map(key, value) => (*key, *value),
            Type::Variable(index) => {
                self.bindings.assign(&Type::Variable(index), &Type::Dyn);
                (Type::Dyn, Type::Dyn)
            }
            other if other.is_dyn() => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(range.offset, message);
                (Type::Error, Type::Error)
            }
        };
        *slot = self.scope.len();
        let types = [first.clone(), second];
        self.scope.extend(variables.iter().cloned().zip(types));
        self.slots = self.slots.max(self.scope.len());
        let filter = filter.as_mut().map(|filter| self.node(filter));
        let result = match kind {
            ComprehensionKind::All | ComprehensionKind::Exists => {
                self.expect_bool(body);
                Type::Bool
            }
            ComprehensionKind::ExistsOne => {
                let condition = self.node(body);
                self.expect_choice(&condition, &Type::Int, offset);
                Type::Bool
            }
            ComprehensionKind::Filter => {
                let condition = self.node(body);
                let result = Type::List(Box::new(first));
                self.expect_choice(&condition, &result, offset);
                result
            }
            ComprehensionKind::List => {
                let element = self.node(body);
                Type::List(Box::new(element))
            }
            ComprehensionKind::Map => {
                let value = self.node(body);
                Type::Map(Box::new(first), Box::new(value))
            }
        };
        if let Some(condition) = filter {
            self.expect_choice(&condition, &result, offset);
        }
        self.scope.truncate(*slot);
        result
    }

    fn optional_map(&mut self, optional: &mut OptionalMap) -> Type<'s> {
        let OptionalMap { operand, variable, body, flat, slot } = optional;
        let operand_type = self.node(operand);
        let value = self.unwrap_optional(&operand_type, operand.offset);
        *slot = self.scope.len();
        self.scope.push((variable.clone(), value));
        self.slots = self.slots.max(self.scope.len());
        let result = self.node(body);
        self.scope.truncate(*slot);
        if *flat { result } else { Type::Optional(Box::new(result)) }
    }
}

fn type_of_literal<'s>(literal: &Literal) -> Type<'s> {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The type of a name in expressions, by the name that values of it have.
fn type_name(name: &str) -> Option<&'static str> {
    const NAMES: &[&str] = &[
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
        "optional_type",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
        "net.IP",
        "net.CIDR",
        "kubernetes.URL",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.NamedFormat",
    ];
    NAMES.iter().find(|known| **known == name).copied()
}

/// The dotted name that a node is, if it is one.
fn name_of(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Variable { name, .. } => Some(name.clone()),
        Kind::Select(select) => qualified_name(select),
        _ => None,
    }
}

fn qualified_name(select: &Select) -> Option<String> {
    (select.mode == SelectMode::Value).then_some(())?;
    Some(format!("{}.{}", name_of(&select.operand)?, select.field))
}

/// A signature's type with its variables made this call's own.
fn instantiate<'s>(kind: &Type<'static>, fresh: &[Type<'s>; 2]) -> Type<'s> {
    match kind {
        Type::Variable(index) => fresh[*index].clone(),
        Type::List(element) => Type::List(Box::new(instantiate(element, fresh))),
        Type::Map(key, value) => {
            Type::Map(Box::new(instantiate(key, fresh)), Box::new(instantiate(value, fresh)))
        }
        Type::Optional(value) => Type::Optional(Box::new(instantiate(value, fresh))),
        other => other.clone(),
    }
}

fn same(a: &Type<'_>, b: &Type<'_>) -> bool {
    a.to_string() == b.to_string()
}
