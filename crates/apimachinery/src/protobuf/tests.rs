use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

/// What Kubernetes' own decoder made of a body.
#[derive(Deserialize)]
struct Recorded {
    body: String,
    object: Option<Value>,
    #[serde(default)]
    error: String,
}

fn recorded() -> Vec<(Vec<u8>, Recorded)> {
    let cases: Vec<Recorded> =
        serde_json::from_str(include_str!("../../tests/recorded/protobufs.json")).unwrap();
    cases.into_iter().map(|case| (BASE64.decode(&case.body).unwrap(), case)).collect()
}

/// A body with a message in it.
fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [PREFIX.to_vec(), field(1, &type_meta), field(2, message)].concat()
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        written.push(length as u8 | 0x80);
        length >>= 7;
    }
    written.push(length as u8);
    written.extend(bytes);
    written
}

#[test]
fn objects_of_all_kinds_are_what_kubernetes_reads_and_writes_as_json() {
    let cases = recorded();
    let mut kinds = BTreeSet::new();
    for (body, case) in &cases {
        let Some(object) = &case.object else { continue };
        kinds.insert((object["apiVersion"].to_string(), object["kind"].to_string()));
        let read = decode(body).unwrap_or_else(|error| panic!("{error}: {object}"));
        assert_eq!(read, *object, "\n{read}\n{object}\n{}", case.body);
    }
    assert!(kinds.len() > 100, "{}", kinds.len());
}

#[test]
fn bodies_that_are_none_are_refused_for_the_reasons_that_kubernetes_has() {
    let mut refused = 0;
    for (body, case) in recorded().into_iter().filter(|(_, case)| case.object.is_none()) {
        let error = decode(&body).unwrap_err().to_string();
        // Kubernetes names the field as Go does, which is not known here.
        if !case.error.starts_with("proto: wrong wireType") {
            assert_eq!(error, case.error, "{}", case.body);
        }
        refused += 1;
    }
    assert!(refused > 15, "{refused}");
}

#[test]
fn messages_have_the_fields_that_schemas_have() {
    let messages = Messages::get();
    let mut looked_at = 0;
    for (name, schema) in core::components().documents() {
        let Some(properties) = schema["properties"].as_object() else { continue };
        let id = messages.find(name).unwrap_or_else(|| panic!("no message {name}"));
        let mut in_schema: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        if schema.get("x-kubernetes-group-version-kind").is_some() {
            in_schema.retain(|name| !["apiVersion", "kind"].contains(name));
        }
        let mut in_message = BTreeSet::new();
        names(messages, id, &mut in_message);
        assert_eq!(in_message, in_schema, "{name}");
        looked_at += 1;
    }
    assert!(looked_at > 400, "{looked_at}");
}

fn names(messages: &Messages, id: messages::MessageId, found: &mut BTreeSet<&'static str>) {
    for field in messages.message(id).fields() {
        match field.element {
            messages::Element::Message(inner) if field.name.is_empty() => names(messages, inner, found),
            _ => {
                found.insert(field.name);
            }
        }
    }
}

#[test]
fn all_kinds_that_have_a_schema_can_be_read() {
    for kind in core::kinds() {
        let api_version = GroupVersion::new(&*kind.group, &*kind.version).to_string();
        let read = decode(&body(&api_version, &kind.kind, &[])).unwrap();
        assert_eq!(read["kind"], *kind.kind);
    }
}

#[test]
fn options_are_of_every_group() {
    let options = body("ships.example.com/v1", "DeleteOptions", &[0x08, 0x00]);
    let expected =
        json!({"apiVersion": "ships.example.com/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(decode(&options).unwrap(), expected);
}

#[test]
fn what_a_body_says_that_it_is_is_told_with_what_is_wrong_with_it() {
    let error = decode(&body("ships.example.com/v1", "Ship", &[])).unwrap_err();
    let type_meta = TypeMeta { api_version: "ships.example.com/v1".into(), kind: "Ship".into() };
    assert_eq!(error, ProtobufError::UnknownKind(type_meta.clone()));
    assert_eq!(error.type_meta(), Some(&type_meta));
    assert!(decode(&body("a/b/c", "Pod", &[])).is_err());
    assert_eq!(decode(&body("v1", "Pod", &[0x08])).unwrap_err().type_meta().unwrap().kind, "Pod");
    assert_eq!(decode(b"k8s\0\xff").unwrap_err().type_meta(), None);
}

/// A CRD whose schema has a schema within a schema, that many times.
fn nested_schemas(depth: usize) -> Vec<u8> {
    let mut schema = Vec::new();
    for _ in 0..depth {
        // `not`
        schema = [vec![0xe2, 0x01], field(0, &schema)[1..].to_vec()].concat();
    }
    let version = field(4, &field(1, &schema));
    body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &field(7, &version)))
}

#[test]
fn objects_are_only_so_deep_and_so_many() {
    let too_deep =
        |error: ProtobufError| matches!(error, ProtobufError::Object { problem: WireError::Depth, .. });
    let read = decode(&nested_schemas(50)).unwrap();
    let schema = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert!(schema.pointer(&"/not".repeat(50)).is_some(), "{schema}");
    assert!(too_deep(decode(&nested_schemas(200)).unwrap_err()));
    assert!(too_deep(decode(&nested_schemas(10_000)).unwrap_err()));

    let raw = |depth: usize| {
        let json = "[".repeat(depth) + &"]".repeat(depth);
        body("apps/v1", "ControllerRevision", &field(2, &field(1, json.as_bytes())))
    };
    assert!(decode(&raw(90)).is_ok());
    assert!(too_deep(decode(&raw(110)).unwrap_err()));
    assert!(decode(&raw(100_000)).is_err());

    let pods = field(2, &[]).repeat(1 << 20);
    let error = decode(&body("v1", "PodList", &pods)).unwrap_err();
    assert!(matches!(error, ProtobufError::Object { problem: WireError::TooMany, .. }), "{error}");
}

#[test]
fn what_json_cannot_say_is_refused() {
    let problem = |api_version, kind, message: &[u8]| {
        decode(&body(api_version, kind, message)).unwrap_err().to_string()
    };
    let creation = |time: &[u8]| field(1, &field(8, time));
    let year_10000 = [0x08, 0x80, 0x83, 0xd1, 0xff, 0xaf, 0x07];
    assert!(problem("v1", "Pod", &creation(&year_10000)).ends_with("is out of range"));
    let revision = field(2, &field(1, b"{\"a\":"));
    assert!(problem("apps/v1", "ControllerRevision", &revision).contains("EOF"));
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), which in any::<usize>()) {
        let kinds = core::kinds();
        let kind = &kinds[which % kinds.len()];
        let api_version = GroupVersion::new(&*kind.group, &*kind.version).to_string();
        let _ = decode(&bytes);
        let _ = decode(&[PREFIX, &bytes].concat());
        let _ = decode(&body(&api_version, &kind.kind, &bytes));
    }

    #[test]
    fn nothing_that_is_almost_right_makes_it_panic(
        which in any::<usize>(), changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8), cut in any::<usize>()
    ) {
        static CASES: std::sync::LazyLock<Vec<Vec<u8>>> =
            std::sync::LazyLock::new(|| recorded().into_iter().map(|(body, _)| body).collect());
        let mut body = CASES[which % CASES.len()].clone();
        for (at, byte) in changes {
            if let Some(changed) = body.len().checked_sub(1).map(|last| at % (last + 1)) {
                body[changed] = byte;
            }
        }
        let _ = decode(&body);
        body.truncate(cut % (body.len() + 1));
        let _ = decode(&body);
    }
}
