//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::behaviour::Behaviour;
use super::config_map::{MOST_DATA, check_immutable, decoded_len};
use super::errors::Errors;
use super::format::config_key;
use super::kind::{KindExt as _, core};
use super::table::{age, columns, name};
use super::value::{entries, size, text};
use apischema::Path;
use apiserver::registry::{Resource, Scope};
use apiserver::selection::SelectableField;

const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

pub(super) fn resource() -> Resource {
    core("secrets", "Secret", Scope::Namespaced)
        .selectable([SelectableField::at("type")])
        .behaving(Behaviour {
            validate: check,
            validate_update: |new, old, errors| {
                if text(&new["type"]) != text(&old["type"]) {
                    errors.invalid(Path::root("type"), text(&new["type"]), "field is immutable");
                }
                check_immutable(new, old, errors, &["data"]);
            },
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Type", "Data", "Age"], |secret, now| {
            vec![name(secret), text(&secret["type"]).into(), size(&secret["data"]).into(), age(secret, now)]
        }))
}

fn check(secret: &Value, errors: &mut Errors) {
    let (data, path) = (&secret["data"], Path::root("data"));
    let mut total = 0;
    for (key, value) in entries(data) {
        errors.messages(path.key(key), key, config_key(key));
        total += decoded_len(text(value));
    }
    if total > MOST_DATA {
        errors.too_long(path, MOST_DATA as u64);
    }
    let missing = |key: &str| data.get(key).is_none();
    match text(&secret["type"]) {
        "kubernetes.io/service-account-token"
            if text(&secret["metadata"]["annotations"][SERVICE_ACCOUNT]).is_empty() =>
        {
            let metadata = Path::root("metadata");
            errors.required(metadata.field("annotations").key(SERVICE_ACCOUNT), "");
        }
        "kubernetes.io/dockercfg" => check_json(errors, path, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_json(errors, path, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if missing("username") && missing("password") => {
            errors.required(path.key("username"), "");
            errors.required(path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if text(&data["ssh-privatekey"]).is_empty() => {
            errors.required(path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| missing(key)) {
                errors.required(path.key(key), "");
            }
        }
        _ => {}
    }
}

fn check_json(errors: &mut Errors, path: Path<'_>, data: &Value, key: &str) {
    let Some(value) = data.get(key) else { return errors.required(path.key(key), "") };
    let bytes = STANDARD.decode(text(value)).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        let detail =
            if bytes.is_empty() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        errors.invalid(path.key(key), "<secret contents redacted>", detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, prepared, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_become_data_over_what_is_there() {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "data": {"a": "AA=="},
            "stringData": {"a": "x", "b": "hello"},
        });
        let secret = prepared(&resource(), secret);
        assert_eq!(secret["data"], json!({"a": "eA==", "b": "aGVsbG8="}));
        assert_eq!(secret["type"], "Opaque");
    }

    #[test]
    fn the_type_stays() {
        let old = json!({"type": "Opaque"});
        assert_eq!(
            update(&resource(), &json!({"type": "a"}), &old),
            ["type: Invalid value: \"a\": field is immutable"]
        );
    }

    #[test]
    fn each_type_has_what_its_readers_need() {
        let wrong = |kind: &str, data: Value| create(&resource(), &json!({"type": kind, "data": data}));
        assert!(wrong("example.com/any", json!({})).is_empty());
        assert_eq!(wrong("kubernetes.io/tls", json!({"tls.crt": ""})), ["data[tls.key]: Required value"]);
        assert_eq!(
            wrong("kubernetes.io/basic-auth", json!({})),
            ["data[username]: Required value", "data[password]: Required value"]
        );
        assert_eq!(
            wrong("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": ""})),
            [
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input"
            ]
        );
        assert!(wrong("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "e30="})).is_empty());
        assert_eq!(
            wrong("kubernetes.io/service-account-token", json!({})),
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]
        );
        assert_eq!(
            wrong("Opaque", json!({"a b": ""})),
            [
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or \
              '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ]
        );
    }
}
