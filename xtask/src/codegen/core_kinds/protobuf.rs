//! How Kubernetes writes its types as protobuf, from the `.proto` files and the Go types that they are made of.
//!
//! A message is a list of fields, each written as its number, its name in JSON and its type. The type is written as in Go: a
//! scalar of protobuf or a message, after `[]` if there are many and after `map[string]` if they are named. Before it stands `*`
//! if zero and nothing are not the same, and `!` if JSON has the field even if it is zero. A message of another package has its
//! package with it. A field without a name is no field in JSON: what is in it is in the message's own place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::go_types::{self, Package};

/// The fields of messages, by the names of the components they are in JSON.
pub(super) type Messages = BTreeMap<String, Vec<String>>;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Types that no component refers to, but that clients may send.
const OPTIONS: &[&str] = &["CreateOptions", "PatchOptions", "UpdateOptions"];

/// Messages that are something else in JSON than an object of their fields. Whoever reads them knows how.
const SPECIAL: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
];

/// The messages of all components that are kinds, and all that those refer to.
pub(super) fn messages(source: &Path, components: &BTreeMap<&str, &Value>) -> anyhow::Result<Messages> {
    let is_kind = |schema: &Value| schema.get("x-kubernetes-group-version-kind").is_some();
    let kinds = components.iter().filter(|(_, schema)| is_kind(schema)).map(|(name, _)| (*name).to_owned());
    let options = OPTIONS.iter().map(|name| format!("{META}.{name}"));
    let mut left: Vec<String> = kinds.chain(options).collect();
    let mut packages = BTreeMap::new();
    let mut found = Messages::new();
    while let Some(name) = left.pop() {
        if found.contains_key(&name) || SPECIAL.contains(&&*name) {
            continue;
        }
        let (package, message) = name.rsplit_once('.').context("a component's name has a package")?;
        if !packages.contains_key(package) {
            packages.insert(package.to_owned(), Sources::read(source, package)?);
        }
        let fields = packages[package].fields(package, message).with_context(|| name.clone())?;
        left.extend(fields.iter().filter_map(|field| field.referred(package)));
        found.insert(name, fields.iter().map(Field::written).collect());
    }
    Ok(found)
}

/// What is said about a package's types.
struct Sources {
    go: Package,
    proto: BTreeMap<String, Vec<ProtoField>>,
}

/// A field as a `.proto` file has it.
#[derive(Debug, PartialEq)]
struct ProtoField {
    number: u32,
    shape: Shape,
    /// A scalar, or a message's name: of the same package, or with its package after a dot.
    scalar_or_message: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    One,
    Many,
    Named,
}

#[derive(Debug)]
struct Field {
    number: u32,
    json_name: String,
    always: bool,
    pointer: bool,
    shape: Shape,
    element: String,
}

impl Sources {
    fn read(source: &Path, package: &str) -> anyhow::Result<Sources> {
        let path = go_types::folder(source, package)?.join("generated.proto");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let proto = parse(&text).with_context(|| path.display().to_string())?;
        Ok(Sources { go: Package::read(source, package)?, proto })
    }

    fn fields(&self, package: &str, message: &str) -> anyhow::Result<Vec<Field>> {
        let proto = self.proto.get(message).context("is no message")?;
        let Some(go) = self.go.structs.get(message) else {
            // A named slice is a message around its items.
            let [ProtoField { number, shape: Shape::Many, scalar_or_message }] = &**proto else {
                bail!("is no struct, and not a message of items alone")
            };
            return Ok(vec![Field {
                number: *number,
                json_name: String::new(),
                always: false,
                pointer: false,
                shape: Shape::Many,
                element: scalar_or_message.clone(),
            }]);
        };
        let numbers: BTreeSet<u32> = go.iter().filter_map(|field| field.number).collect();
        let known: BTreeSet<u32> = proto.iter().map(|field| field.number).collect();
        ensure!(numbers == known, "the struct has fields {numbers:?}, the message {known:?}");
        let mut fields = Vec::new();
        for field in proto {
            let in_go = go.iter().find(|go| go.number == Some(field.number));
            let in_go = in_go.context("invariant: the numbers are the same")?;
            let pointer = in_go.go_type.starts_with('*');
            let is_struct =
                field.shape == Shape::One && !pointer && self.is_struct(package, &field.scalar_or_message);
            let is_time = qualified(package, &field.scalar_or_message) == Some(format!("{META}.Time"));
            // What a zero struct is cannot be seen in JSON, except of a time.
            ensure!(!in_go.omit_zero || !is_struct || is_time, "{} is omitted if zero", in_go.json_name);
            let omitted = in_go.omit_empty && !is_struct || in_go.omit_zero;
            fields.push(Field {
                number: field.number,
                json_name: in_go.json_name.clone(),
                always: !omitted && !in_go.json_name.is_empty(),
                pointer,
                shape: field.shape,
                element: field.scalar_or_message.clone(),
            });
        }
        Ok(fields)
    }

    /// Whether a message is a struct in Go, which is written even where what is empty would not be.
    fn is_struct(&self, package: &str, element: &str) -> bool {
        match qualified(package, element) {
            None => false,
            Some(name) if SPECIAL.contains(&&*name) => true,
            // All slices with a name of their own are used in their own packages.
            Some(name) => match name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')) {
                Some(message) => self.go.structs.contains_key(message),
                None => true,
            },
        }
    }
}

impl Field {
    fn written(&self) -> String {
        let Field { number, json_name, always, pointer, shape, element } = self;
        let name = if json_name.is_empty() { String::new() } else { format!("{json_name} ") };
        let always = if *always { "!" } else { "" };
        let pointer = if *pointer { "*" } else { "" };
        let shape = match shape {
            Shape::One => "",
            Shape::Many => "[]",
            Shape::Named => "map[string]",
        };
        let element = component(element).unwrap_or_else(|| element.clone());
        format!("{number} {name}{always}{pointer}{shape}{element}")
    }

    fn referred(&self, package: &str) -> Option<String> {
        qualified(package, &self.element)
    }
}

/// The component that a message is, seen from a package; none if it is a scalar.
fn qualified(package: &str, element: &str) -> Option<String> {
    let is_message = element.starts_with(|first: char| first == '.' || first.is_ascii_uppercase());
    is_message.then(|| component(element).unwrap_or_else(|| format!("{package}.{element}")))
}

/// The component that a message with its package is.
fn component(element: &str) -> Option<String> {
    element.strip_prefix(".k8s.io.").map(|name| format!("io.k8s.{}", name.replace('_', "-")))
}

/// The messages of a `.proto` file.
fn parse(text: &str) -> anyhow::Result<BTreeMap<String, Vec<ProtoField>>> {
    let mut messages = BTreeMap::new();
    let mut current: Option<(String, Vec<ProtoField>)> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ").and_then(|rest| rest.strip_suffix(" {")) {
            current = Some((name.to_owned(), Vec::new()));
        } else if line == "}" {
            messages.extend(current.take());
        } else if let Some((_, fields)) = &mut current
            && !line.is_empty()
            && !line.starts_with("//")
        {
            fields.push(parse_field(line).with_context(|| format!("cannot read {line:?}"))?);
        }
    }
    Ok(messages)
}

fn parse_field(line: &str) -> Option<ProtoField> {
    let (declaration, number) = line.strip_suffix(';')?.rsplit_once(" = ")?;
    let (described, _) = declaration.rsplit_once(' ')?;
    let (shape, scalar_or_message) = if let Some(values) =
        described.strip_prefix("map<string, ").and_then(|rest| rest.strip_suffix('>'))
    {
        (Shape::Named, values)
    } else if let Some(items) = described.strip_prefix("repeated ") {
        (Shape::Many, items)
    } else {
        (Shape::One, described.strip_prefix("optional ")?)
    };
    Some(ProtoField { number: number.parse().ok()?, shape, scalar_or_message: scalar_or_message.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = "message Pilot {\n  // words\n  optional .k8s.io.api_x.v1.Meta meta = 1;\n\n  \
        repeated Ship ships = 2;\n  map<string, Extra> extra = 3;\n  optional int32 age = 4;\n  optional Ship own = 5;\n  \
        optional Ship ship = 6;\n  optional Extra verbs = 7;\n}\nmessage Extra {\n  repeated string items = 1;\n}\n";

    fn sources(go: &str) -> Sources {
        let structs = go_types::parse(&format!("type Pilot struct {{\n{go}}}\n\ntype Ship struct {{\n}}\n"));
        Sources { go: Package { structs }, proto: parse(PROTO).unwrap() }
    }

    #[test]
    fn a_field_has_its_name_from_go_and_its_type_from_protobuf() {
        let go = [
            ("Meta", "json:\"metadata,omitempty\" protobuf:\"bytes,1,opt,name=meta\""),
            ("[]Ship", "json:\"ships,omitempty\" protobuf:\"bytes,2,rep,name=ships\""),
            ("map[string]Extra", "json:\"extra\" protobuf:\"bytes,3,rep,name=extra\""),
            ("*int32", "json:\"age,omitempty\" protobuf:\"varint,4,opt,name=age\""),
            ("*Ship", "json:\"own\" protobuf:\"bytes,5,opt,name=own\""),
            ("Ship", "json:\",inline\" protobuf:\"bytes,6,opt,name=ship\""),
            ("Extra", "json:\"verbs,omitempty\" protobuf:\"bytes,7,opt,name=verbs\""),
        ];
        let go: String = go.iter().map(|(go_type, tags)| format!("\tX {go_type} `{tags}`\n")).collect();
        let sources = sources(&go);
        let written = |message| -> Vec<String> {
            sources.fields("io.k8s.p.v1", message).unwrap().iter().map(Field::written).collect()
        };
        assert_eq!(
            written("Pilot"),
            [
                "1 metadata !io.k8s.api-x.v1.Meta",
                "2 ships []Ship",
                "3 extra !map[string]Extra",
                "4 age *int32",
                "5 own !*Ship",
                "6 Ship",
                "7 verbs Extra"
            ]
        );
        assert_eq!(written("Extra"), ["1 []string"]);
        let referred: Vec<_> = sources.fields("io.k8s.p.v1", "Pilot").unwrap();
        let referred: BTreeSet<_> =
            referred.iter().filter_map(|field| field.referred("io.k8s.p.v1")).collect();
        assert_eq!(
            Vec::from_iter(referred),
            ["io.k8s.api-x.v1.Meta", "io.k8s.p.v1.Extra", "io.k8s.p.v1.Ship"]
        );
    }

    #[test]
    fn what_is_not_understood_is_not_passed_over() {
        assert!(
            sources("\tX int32 `json:\"age\" protobuf:\"varint,4,opt,name=age\"`\n")
                .fields("p", "Pilot")
                .is_err()
        );
        assert!(parse("message A {\n  oneof b {\n}\n").is_err());
    }
}
