use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "kind": "List",
        "items": [
            {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "a", "plain": "b"}},
             "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
            {"kind": "None", "metadata": {"name": "127.0.0.2"},
             "status": {"capacity": {"cpu": "8"}, "ready": true, "addresses": [
                {"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}]}}
        ],
        "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
        "numbers": [1, 2, 3, 4, 5, 6],
        "status": {"conditions": [
            {"type": "Available", "status": "False", "count": 1}, {"type": "Ready", "status": "True", "count": 5}
        ]},
        "nothing": null, "half": 0.5
    })
}

fn found(path: &str) -> Vec<Value> {
    let value = object();
    let path = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    path.find(&value)
        .unwrap_or_else(|error| panic!("{path:?}: {error}"))
        .into_iter()
        .map(Cow::into_owned)
        .collect()
}

#[test]
fn paths_lead_where_kubectl_s_lead() {
    let cases = [
        (".kind", json!(["List"])),
        ("$.kind", json!(["List"])),
        ("@.kind", json!(["List"])),
        (".items[*].metadata.name", json!(["127.0.0.1", "127.0.0.2"])),
        (".items[0].metadata.name", json!(["127.0.0.1"])),
        (".items[-1].metadata.name", json!(["127.0.0.2"])),
        (".numbers[1:3]", json!([2, 3])),
        (".numbers[:2]", json!([1, 2])),
        (".numbers[4:]", json!([5, 6])),
        (".numbers[-2:]", json!([5, 6])),
        (".numbers[0:6:2]", json!([1, 3, 5])),
        (".numbers[2:2]", json!([])),
        (".numbers[0,2]", json!([1, 3])),
        (".numbers[*]", json!([1, 2, 3, 4, 5, 6])),
        ("['kind']", json!(["List"])),
        (".items[0]['metadata','status'].name", json!(["127.0.0.1"])),
        (r".items[0].metadata.labels.kubernetes\.io/hostname", json!(["a"])),
        (r".items[0].metadata.labels['kubernetes\.io/hostname']", json!(["a"])),
        (".items[0].metadata.labels.plain", json!(["b"])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
        (".status.conditions[?(@.type != \"Ready\")].status", json!(["False"])),
        (".status.conditions[?(@.count>1)].type", json!(["Ready"])),
        (".status.conditions[?(@.count <= 1)].type", json!(["Available"])),
        (".items[?(@.status.ready==true)].metadata.name", json!(["127.0.0.2"])),
        (".users[?(@.user.username)].name", json!(["e2e"])),
        (".users[?(@.name==\"e2e\")].user.password", json!(["secret"])),
        (".items[*].status.addresses[?(@.type==\"another\")].address", json!(["127.0.0.3"])),
        ("..name", json!(["127.0.0.1", "127.0.0.2", "myself", "e2e"])),
        ("..cpu", json!(["4", "8"])),
        (".users[0].*", json!(["myself", {}])),
        (".missing", json!([])),
        (".missing.deeper[0]", json!([])),
        (".nothing", json!([null])),
        (".nothing.deeper", json!([])),
        (".nothing[0]", json!([])),
        (".kind.deeper", json!([])),
        (".status.conditions[?(@.type==\"a)b\")].status", json!([])),
        ("", json!([object()])),
    ];
    for (path, expected) in cases {
        assert_eq!(Value::Array(found(path)), expected, "{path}");
    }
}

#[test]
fn what_can_never_be_right_is_refused() {
    let cases = [
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
        (".a[?(@.b==\"c\")", "unclosed array expect ]"),
        (".a[?(@.b==\"c]", "unterminated filter"),
        (".a[?(@.b=\"c\")]", "unrecognized filter operator ="),
        ("....a", "invalid multiple recursive descent"),
        ("a", "unrecognized identifier a"),
        (".a\n", "unclosed action"),
        ("}", "unrecognized character in action: U+007D '}'"),
        ("\"a", "unterminated quoted string"),
    ];
    for (path, message) in cases {
        assert_eq!(
            JsonPath::parse(path).map_err(|error| error.to_string()),
            Err(message.to_owned()),
            "{path}"
        );
    }
    let object = object();
    let cases = [
        (".numbers[6]", "array index out of bounds: index 6, length 6"),
        (".numbers[-7]", "array index out of bounds: index -1, length 6"),
        (".numbers[3:2]", "starting index 3 is greater than ending index 2"),
        (".numbers[0:2:0]", "step must be > 0"),
        (".kind[0]", "List is not array or slice"),
        (".status.conditions[?(@.count==\"x\")]", "incompatible types for comparison"),
    ];
    for (path, message) in cases {
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(
            path.find(&object).map_err(|error| error.to_string()),
            Err(message.to_owned()),
            "{path:?}"
        );
        assert_eq!(path.first(&object), None, "a column shows nothing");
    }
}

#[test]
fn columns_print_values() {
    let object = object();
    let shown = |path: &str| print(&JsonPath::parse(path).unwrap().first(&object).unwrap());
    assert_eq!(shown(".kind"), "List");
    assert_eq!(shown(".numbers"), "[1,2,3,4,5,6]");
    assert_eq!(shown(".half"), "0.5");
    assert_eq!(shown(".items[1].status.ready"), "true");
    assert_eq!(shown(".users[1].user"), r#"{"password":"secret","username":"admin"}"#);
    assert_eq!(shown(".nothing"), "<nil>");
}

proptest! {
    #[test]
    fn no_text_stops_it(text in "[a-c.*\\[\\]?()@'\"=<>!:,0-9 \\\\{}$é-]{0,30}") {
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.find(&object());
        }
    }
}

#[test]
fn nesting_is_limited() {
    let deep = format!("{}{}", "[?(".repeat(10_000), ")]".repeat(10_000));
    assert!(JsonPath::parse(&deep).is_err());
}
