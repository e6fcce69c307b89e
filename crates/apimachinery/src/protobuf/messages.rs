//! What the numbers of fields mean: names and types, from `messages.json`.
//!
//! There a field is written as its number, its name in JSON and its Go type, after `!` if JSON has it even if it is zero; see
//! the codegen step that makes the file.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// All messages.
pub(super) struct Messages {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, MessageId>,
}

/// A message among all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MessageId(usize);

#[derive(Debug)]
pub(super) struct Message {
    /// As Go names it, without its package.
    pub(super) name: &'static str,
    /// In order of their numbers.
    fields: Vec<Field>,
    /// The fields that JSON always has, with those of messages that are in this one's own place.
    pub(super) always: Vec<Field>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// In JSON. Empty if what it holds is in the message's own place.
    pub(super) name: &'static str,
    /// Whether JSON has it even if it is zero.
    pub(super) always: bool,
    /// Whether zero and nothing are not the same.
    pub(super) pointer: bool,
    pub(super) shape: Shape,
    pub(super) element: Element,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    One,
    /// An array.
    Many,
    /// An object of any keys.
    Named,
}

/// What a field is, or what it has many of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Bytes that are JSON.
    RawJson,
    /// Part of a JSON schema: a schema or a flag.
    SchemaOrBool(MessageId),
    /// A schema or a list of them.
    SchemaOrArray(MessageId),
    /// A schema or a list of strings.
    SchemaOrStrings(MessageId),
    Message(MessageId),
}

impl Messages {
    pub(super) fn get() -> &'static Messages {
        static MESSAGES: LazyLock<Messages> = LazyLock::new(|| {
            parse().expect("invariant: the generated file is as expected; tests read all of it")
        });
        &MESSAGES
    }

    /// The message of that name, with its package.
    pub(super) fn find(&self, name: &str) -> Option<MessageId> {
        self.by_name.get(name).copied()
    }

    pub(super) fn message(&self, id: MessageId) -> &Message {
        &self.messages[id.0]
    }
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        let found = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[found])
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The only field of a message that is an array in JSON.
    pub(super) fn items(&self) -> Option<&Field> {
        match &*self.fields {
            [field] if field.name.is_empty() && field.shape == Shape::Many => Some(field),
            _ => None,
        }
    }
}

fn parse() -> Option<Messages> {
    let file: BTreeMap<&'static str, Vec<&'static str>> =
        serde_json::from_str(include_str!("messages.json")).ok()?;
    let by_name = file.keys().enumerate().map(|(at, name)| (*name, MessageId(at))).collect();
    let mut messages = Vec::with_capacity(file.len());
    for (full_name, fields) in &file {
        let (package, name) = full_name.rsplit_once('.')?;
        let fields: Option<Vec<_>> =
            fields.iter().map(|field| parse_field(field, package, &by_name)).collect();
        let mut fields = fields?;
        fields.sort_by_key(|field| field.number);
        messages.push(Message { name, fields, always: Vec::new() });
    }
    for at in 0..messages.len() {
        messages[at].always = always(&messages, &messages[at]);
    }
    Some(Messages { messages, by_name })
}

fn parse_field(
    written: &'static str,
    package: &str,
    by_name: &HashMap<&'static str, MessageId>,
) -> Option<Field> {
    let mut words = written.split(' ');
    let number = words.next()?.parse().ok()?;
    let (name, go_type) = match (words.next()?, words.next()) {
        (name, Some(go_type)) => (name, go_type),
        (go_type, None) => ("", go_type),
    };
    let strip = |text: &'static str, prefix| {
        text.strip_prefix(prefix).map_or((false, text), |rest: &'static str| (true, rest))
    };
    let (always, go_type) = strip(go_type, "!");
    let (pointer, go_type) = strip(go_type, "*");
    let (shape, element) = match (strip(go_type, "[]"), strip(go_type, "map[string]")) {
        ((true, element), _) => (Shape::Many, element),
        (_, (true, element)) => (Shape::Named, element),
        _ => (Shape::One, go_type),
    };
    let element = scalar(element).or_else(|| {
        let full_name =
            if element.contains('.') { element.to_owned() } else { format!("{package}.{element}") };
        special(&full_name, by_name).or_else(|| by_name.get(&*full_name).copied().map(Element::Message))
    })?;
    Some(Field { number, name, always, pointer, shape, element })
}

fn scalar(name: &str) -> Option<Element> {
    Some(match name {
        "bool" => Element::Bool,
        "int32" => Element::Int32,
        "int64" => Element::Int64,
        "double" => Element::Double,
        "string" => Element::String,
        "bytes" => Element::Bytes,
        _ => return None,
    })
}

/// Messages that are no objects in JSON.
fn special(full_name: &str, by_name: &HashMap<&'static str, MessageId>) -> Option<Element> {
    const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = || by_name.get(SCHEMA).copied();
    Some(match full_name {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time" => Element::Time,
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Element::MicroTime,
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Element::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Element::IntOrString,
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
        | "io.k8s.apimachinery.pkg.runtime.RawExtension"
        | "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON" => Element::RawJson,
        name => match name.strip_prefix(SCHEMA)? {
            "OrBool" => Element::SchemaOrBool(schema()?),
            "OrArray" => Element::SchemaOrArray(schema()?),
            "OrStringArray" => Element::SchemaOrStrings(schema()?),
            _ => return None,
        },
    })
}

fn always(messages: &[Message], message: &Message) -> Vec<Field> {
    let mut found = Vec::new();
    for field in &message.fields {
        match field.element {
            Element::Message(MessageId(inner)) if field.name.is_empty() => {
                found.extend(always(messages, &messages[inner]));
            }
            _ if field.always => found.push(*field),
            _ => {}
        }
    }
    found
}
