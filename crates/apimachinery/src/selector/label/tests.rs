use proptest::prelude::*;
use serde_json::json;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
}

#[test]
fn every_operator_selects_what_it_says() {
    let object = labels(&[("x", "a"), ("n", "5"), ("empty", "")]);
    let cases = [
        ("", true),
        ("x=a", true),
        ("x==a", true),
        ("x=b", false),
        ("x!=a", false),
        ("x!=b", true),
        ("y!=b", true),
        ("x in (a,b)", true),
        ("x in (b)", false),
        ("y in (b)", false),
        ("x notin (a)", false),
        ("y notin (a)", true),
        ("x", true),
        ("y", false),
        ("!x", false),
        ("!y", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("x<6", false),
        ("y>1", false),
        ("empty=", true),
        ("empty in ()", true),
        ("x in (,a)", true),
        ("x=a,n=5,!z", true),
        ("x=a,n=6", false),
        (" x  in\t( a , b ) , n ", true),
        ("in in (in)", false),
        ("notin=x", false),
        ("! y", true),
    ];
    for (text, matches) in cases {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&object), matches, "{text}");
    }
    assert!(!LabelSelector::nothing().matches(&object));
}

#[test]
fn malformed_selectors_get_the_words_of_kubernetes() {
    let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let cases = [
        ("x=a,", "found '', expected: identifier after ','".to_owned()),
        ("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("x in a", "unable to parse requirement: found 'a' expected: '('".to_owned()),
        ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("x in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier".to_owned()),
        ("x in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'".to_owned()),
        ("x in (a,=", "unable to parse requirement: found '=', expected: ',', or identifier".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("x=!", "unable to parse requirement: found '!', expected: identifier".to_owned()),
        ("x=a b", "found 'b', expected: ',' or 'end of string'".to_owned()),
        ("!x=a", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
        ("-a=b", format!("unable to parse requirement: <nil>: Invalid value: \"-a\": {name}")),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be \
             an integer"
                .to_owned(),
        ),
        (
            "a=b@",
            "unable to parse requirement: values[0][a]: Invalid value: \"b@\": a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        ),
    ];
    for (text, message) in cases {
        assert_eq!(LabelSelector::parse(text).map_err(|error| error.to_string()), Err(message), "{text}");
    }
}

#[test]
fn the_selector_inside_objects_says_the_same() {
    let object = labels(&[("x", "a")]);
    let matches = |selector: Value| LabelSelector::from_object(Some(&selector)).unwrap().matches(&object);
    assert!(matches(json!({})));
    assert!(matches(json!({"matchLabels": {"x": "a"}})));
    assert!(!matches(json!({"matchLabels": {"x": "a", "y": "b"}})));
    assert!(matches(json!({"matchExpressions": [{"key": "x", "operator": "In", "values": ["a", "b"]}]})));
    assert!(!matches(json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a"]}]})));
    assert!(matches(json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]})));
    assert!(!matches(json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]})));
    assert!(LabelSelector::from_object(None).unwrap().is_nothing());
    assert!(LabelSelector::from_object(Some(&Value::Null)).unwrap().is_nothing());

    let error = |selector: Value| LabelSelector::from_object(Some(&selector)).unwrap_err().to_string();
    assert_eq!(
        error(json!({"matchExpressions": [{"key": "x", "operator": "Is"}]})),
        "\"Is\" is not a valid label selector operator"
    );
    assert_eq!(
        error(json!({"matchExpressions": [{"key": "x", "operator": "In"}]})),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
}

#[test]
fn an_index_learns_the_value_that_a_label_must_have() {
    let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5,e").unwrap();
    let values: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|key| selector.equals(key)).into();
    assert_eq!(values, [Some("1"), Some("2"), None, None, None, None]);
}

#[test]
fn a_selector_is_written_as_it_is_read() {
    for text in ["", "a=b", "a!=b,c", "!a,b==c", "a in (b,c),d notin ()", "a<3,b>4"] {
        assert_eq!(LabelSelector::parse(text).unwrap().to_string(), text);
    }
}

proptest! {
    #[test]
    fn no_text_stops_the_parser(text in "[a-c!=<>(), in\u{0}é]{0,40}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(&LabelSelector::parse(&selector.to_string()).unwrap(), &selector);
        }
    }
}
