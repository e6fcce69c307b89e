//! Which functions there are, and of what types. A line is a function: `receiver.name(parameters) result`, with `A` and
//! `B` for any type.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::functions::{self, Implementation};
use super::types::{CIDR, FORMAT, IP, QUANTITY, SEMVER, Type, URL};

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) member: bool,
    /// The receiver first, if there is one. Variables are numbered from 0.
    pub(super) parameters: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
}

/// A function by its name.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) overloads: Vec<Overload>,
    pub(super) implementation: Implementation,
}

/// The function of a name.
pub(super) fn function(name: &str) -> Option<&'static Function> {
    static FUNCTIONS: LazyLock<HashMap<&str, Function>> = LazyLock::new(|| {
        let mut functions = HashMap::new();
        for (table, implementations) in functions::LIBRARIES {
            for (name, implementation) in *implementations {
                functions
                    .entry(*name)
                    .or_insert_with(|| Function { overloads: Vec::new(), implementation: *implementation });
            }
            for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let (name, overload) = parse(line);
                functions
                    .get_mut(name)
                    .unwrap_or_else(|| panic!("invariant: {name} is implemented; tests read the table"))
                    .overloads
                    .push(overload);
            }
        }
        functions
    });
    FUNCTIONS.get(name)
}

fn parse(line: &'static str) -> (&'static str, Overload) {
    let invariant = "invariant: the table is well-formed; tests read it";
    let (head, rest) = line.split_once('(').expect(invariant);
    let (parameters, result) = rest.rsplit_once(") ").expect(invariant);
    // A name that has a dot and starts with a small word is a namespace's; a receiver is marked by a space.
    let (receiver, name) = match head.split_once(" .") {
        Some((receiver, name)) => (Some(receiver), name),
        None => (None, head),
    };
    let parameters = receiver.into_iter().chain(split(parameters)).map(type_of).collect();
    (name, Overload { member: receiver.is_some(), parameters, result: type_of(result) })
}

/// The parts between commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn type_of(text: &str) -> Type<'static> {
    if let Some((outer, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        let mut inner = split(inner).into_iter().map(|inner| Box::new(type_of(inner)));
        let mut next = || inner.next().expect("invariant: the table is well-formed; tests read it");
        return match outer {
            "list" => Type::List(next()),
            "map" => Type::Map(next(), next()),
            _ => Type::Optional(next()),
        };
    }
    match text {
        "A" => Type::Variable(0),
        "B" => Type::Variable(1),
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Kind,
        "IP" => Type::Opaque(IP),
        "CIDR" => Type::Opaque(CIDR),
        "URL" => Type::Opaque(URL),
        "Quantity" => Type::Opaque(QUANTITY),
        "Semver" => Type::Opaque(SEMVER),
        "Format" => Type::Opaque(FORMAT),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_only_known_types_and_implemented_functions() {
        assert!(function("size").is_some());
        assert!(function("ip.isCanonical").is_some());
        for (table, implementations) in functions::LIBRARIES {
            for word in table.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            {
                let known = matches!(type_of(word), Type::Dyn).then_some(word);
                let spelled = known.is_none_or(|word| {
                    word == "dyn"
                        || word.is_empty()
                        || matches!(word, "list" | "map" | "optional" | "_" | "in")
                        || implementations.iter().any(|(name, _)| name.contains(word))
                });
                assert!(spelled, "{word} in {table}");
            }
            for (name, _) in *implementations {
                assert!(!function(name).unwrap().overloads.is_empty(), "{name}");
            }
        }
    }
}
