//! Calls that are more than calls: their arguments are not evaluated first.

use super::CompileError;
use super::ast::{Call, Comprehension, ComprehensionKind, Kind, Node, OptionalMap, Select, SelectMode};

/// The node of a call, which is one of its own kind if it is a macro's.
pub(super) fn expand(
    source: &str,
    offset: usize,
    target: Option<Node>,
    function: &str,
    arguments: Vec<Node>,
) -> Result<Node, CompileError> {
    let error = |offset, message: &str| Err(CompileError::at(source, offset, message));
    let call = |target, arguments| {
        let call =
            Call { function: function.to_owned(), target, arguments, implementation: None, regex: None };
        Ok(Node::new(offset, Kind::Call(Box::new(call))))
    };
    let Some(target) = target else {
        let is_presence = function == "has" && arguments.len() == 1;
        return if is_presence { presence(source, offset, arguments) } else { call(None, arguments) };
    };
    let Some(shape) = Shape::of(function, arguments.len()) else { return call(Some(target), arguments) };
    let mut arguments = arguments.into_iter();
    let mut variables = Vec::new();
    for argument in arguments.by_ref().take(shape.variables) {
        match argument.kind {
            Kind::Variable { name, .. } if !variables.contains(&name) => variables.push(name),
            Kind::Variable { name, .. } => {
                let message = format!("duplicate iteration variable: {name}");
                return error(argument.offset, &message);
            }
            _ => return error(argument.offset, "argument must be a simple name"),
        }
    }
    let mut rest: Vec<Node> = arguments.collect();
    let Some(body) = rest.pop() else { return error(offset, "macro without a body") };
    let filter = rest.pop();
    let kind = match shape.kind {
        Expansion::Comprehension(kind) => Kind::Comprehension(Box::new(Comprehension {
            range: target,
            variables,
            kind,
            filter,
            body,
            slot: 0,
        })),
        Expansion::Optional { flat } => {
            let variable = variables.pop().unwrap_or_default();
            Kind::OptionalMap(Box::new(OptionalMap { operand: target, variable, body, flat, slot: 0 }))
        }
    };
    Ok(Node::new(offset, kind))
}

fn presence(source: &str, offset: usize, arguments: Vec<Node>) -> Result<Node, CompileError> {
    let Some(Node { offset: place, kind, .. }) = arguments.into_iter().next() else {
        return Err(CompileError::at(source, offset, "invalid argument to has() macro"));
    };
    match kind {
        Kind::Select(select) if select.mode == SelectMode::Value => {
            let select = Select { mode: SelectMode::Presence, ..*select };
            Ok(Node::new(offset, Kind::Select(Box::new(select))))
        }
        _ => Err(CompileError::at(source, place, "invalid argument to has() macro")),
    }
}

/// What a macro makes of its arguments.
struct Shape {
    variables: usize,
    kind: Expansion,
}

enum Expansion {
    Comprehension(ComprehensionKind),
    Optional { flat: bool },
}

impl Shape {
    fn of(function: &str, arguments: usize) -> Option<Shape> {
        use ComprehensionKind::{All, Exists, ExistsOne, Filter, List, Map};
        let comprehension = |variables, kind| Some(Shape { variables, kind: Expansion::Comprehension(kind) });
        match (function, arguments) {
            ("all", 2) => comprehension(1, All),
            ("exists", 2) => comprehension(1, Exists),
            ("exists_one" | "existsOne", 2) => comprehension(1, ExistsOne),
            ("map", 2 | 3) => comprehension(1, List),
            ("filter", 2) => comprehension(1, Filter),
            ("all", 3) => comprehension(2, All),
            ("exists", 3) => comprehension(2, Exists),
            ("existsOne", 3) => comprehension(2, ExistsOne),
            ("transformList", 3 | 4) => comprehension(2, List),
            ("transformMap", 3 | 4) => comprehension(2, Map),
            ("optMap", 2) => Some(Shape { variables: 1, kind: Expansion::Optional { flat: false } }),
            ("optFlatMap", 2) => Some(Shape { variables: 1, kind: Expansion::Optional { flat: true } }),
            _ => None,
        }
    }
}
