//! What must not leave a cluster is taken out: of objects by what their fields are, of any text by what it looks like. Pure.
//!
//! Rather too much than too little: who looks for a bug can ask for more.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

const REDACTED: &str = "(redacted)";

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Portolan's: what its containers are called with is of interest.
    Portolan,
    /// Somebody else's.
    Others,
}

/// Names of things whose value is a secret.
static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)pass(word|wd|phrase|code)|pwd$|secret|token|credential|(api|access|private|encryption|signing|shared)[_-]?key|authorization|cookie|\bpsk\b",
    )
});

/// Names that look like these, and whose value is the name of something.
const NO_SECRETS: [&str; 3] = ["secretName", "automountServiceAccountToken", "tokenExpirationSeconds"];

/// What secrets look like, with what is put in their place.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            "(redacted private key)",
        ),
        // The same in base64: `-----BEGIN ` with what may follow.
        (r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{20,}={0,2}", "(redacted PEM)"),
        (r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "(redacted token)"),
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", "$1 (redacted)"),
        (r"://[^/\s:@]*:[^/\s@]+@", "://(redacted)@"),
        (
            concat!(
                r"(?i)((?:pass(?:word|wd|phrase|code)|secret|token|credentials?|(?:api|access|private)[_-]?key|authorization)",
                r#"[\w.-]*(?:\\*["'])?[ \t]*[:=][ \t]*)(\\*"[^"\n]*"|\\*'[^'\n]*'|[^\s,;&"'\\]+)"#
            ),
            "$1(redacted)",
        ),
    ]
    .into_iter()
    .map(|(pattern, replacement)| (regex(pattern), replacement))
    .collect()
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("invariant: the patterns here are right: {error}"))
}

/// A text without what looks secret.
pub(super) fn text(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in PATTERNS.iter() {
        if pattern.is_match(&text) {
            text = pattern.replace_all(&text, *replacement).into_owned();
        }
    }
    text
}

/// An object of Kubernetes without what is secret in it.
pub(super) fn object(object: &mut Value, owner: Owner) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        annotations(metadata);
    }
    match kind.as_str() {
        "Secret" => data(object, &["data", "stringData"]),
        "ConfigMap" if owner == Owner::Others => data(object, &["data", "binaryData"]),
        "NetworkAttachmentDefinition" => configuration(object),
        _ => {}
    }
    for template in ["/spec", "/spec/template/spec"] {
        if let Some(pod) = object.pointer_mut(template).and_then(Value::as_object_mut) {
            containers(pod, owner);
        }
    }
    if let Some(metadata) = object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
        annotations(metadata);
    }
    value(object);
}

/// Annotations that say something about networks stay; others may say anything.
fn annotations(metadata: &mut Map<String, Value>) {
    metadata.remove("managedFields");
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    // It has the whole object once more.
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    for (key, value) in annotations {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_known = ["portolan.dev", "kubernetes.io", "cni.cncf.io", "opnfv.org"]
            .iter()
            .any(|known| domain == *known || domain.ends_with(&format!(".{known}")));
        if !is_known {
            *value = REDACTED.into();
        }
    }
}

/// The size alone stays.
fn data(object: &mut Value, fields: &[&str]) {
    for field in fields {
        for (_, value) in object.get_mut(*field).and_then(Value::as_object_mut).into_iter().flatten() {
            let length = value.as_str().map_or(0, str::len);
            *value = format!("(redacted, {length} characters)").into();
        }
    }
}

/// What a definition has for plugins of others may be anything, as credentials of their stores.
fn configuration(object: &mut Value) {
    let Some(config) = object.pointer_mut("/spec/config") else { return };
    let parsed = config.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let types = ["portolan-cni", "portolan", "kube-ovn", "ovn4nfvk8s-cni"];
    let is_ours = |value: &Value| value["type"].as_str().is_some_and(|kind| types.contains(&kind));
    let all_ours = parsed.is_some_and(|parsed| {
        is_ours(&parsed)
            || parsed["plugins"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_ours))
    });
    if !all_ours {
        *config = "(redacted: not all of it is Portolan's)".into();
    }
}

fn containers(pod: &mut Map<String, Value>, owner: Owner) {
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in pod.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            for variable in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
                // What comes from elsewhere is named only.
                if let Some(value) = variable.get_mut("value") {
                    *value = REDACTED.into();
                }
            }
            if owner == Owner::Portolan {
                continue;
            }
            for field in ["args", "command"] {
                if let Some(words) = container.get_mut(field) {
                    *words = REDACTED.into();
                }
            }
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if let Some(value) = container.get_mut(field) {
                    *value = REDACTED.into();
                }
            }
        }
    }
}

/// Strings that are named like secrets, or look like them, however deep.
fn value(value: &mut Value) {
    match value {
        Value::String(string) => *string = embedded(string),
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(fields) => {
            for (name, field) in fields {
                let is_secret = SECRET_NAME.is_match(name) && !NO_SECRETS.contains(&name.as_str());
                match field {
                    Value::String(string) if is_secret => *string = REDACTED.into(),
                    Value::Number(_) if is_secret => *field = REDACTED.into(),
                    Value::Array(items) if is_secret && items.iter().all(Value::is_string) => {
                        *field = REDACTED.into();
                    }
                    other => self::value(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A string that may itself be JSON, as annotations and configurations are.
fn embedded(string: &str) -> String {
    let looks_like_json = string.trim_start().starts_with(['{', '[']);
    match serde_json::from_str::<Value>(string) {
        Ok(mut inner) if looks_like_json => {
            let before = inner.clone();
            value(&mut inner);
            // As it was written, if nothing was secret.
            if inner == before { string.to_owned() } else { inner.to_string() }
        }
        _ => text(string),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(mut value: Value, owner: Owner) -> String {
        object(&mut value, owner);
        value.to_string()
    }

    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nPLANTED01\nPLANTED02\n-----END EC PRIVATE KEY-----";
    const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJQTEFOVEVEIn0.PLANTEDPLANTED";

    #[test]
    fn no_text_keeps_what_looks_secret() {
        for line in [
            KEY.to_owned(),
            KEY.replace('\n', "\\n"),
            KEY[..60].to_owned(),
            format!("level=info token {JWT} was used"),
            "Authorization: Bearer PLANTED123".to_owned(),
            "authorization: Basic UExBTlRFRDpQTEFOVEVE PLAN"
                .replace("UExBTlRFRDpQTEFOVEVE PLAN", "PLANTED1234"),
            "connect to https://admin:PLANTED@example.org/x".to_owned(),
            "password=PLANTED".to_owned(),
            "DB_PASSWORD: \"PLANTED with blanks PLANTED\"".to_owned(),
            "{\"clientSecret\":\"PLANTED\"}".to_owned(),
            "{\\\"password\\\": \\\"PLANTED x\\\"}".to_owned(),
            "--api-key='PLANTED'".to_owned(),
            "access_key = PLANTED,".to_owned(),
            "tls.key: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tPLANTED".to_owned(),
        ] {
            let clean = text(&line);
            assert!(!clean.contains("PLANTED"), "{line} → {clean}");
        }
    }

    #[test]
    fn what_helps_stays() {
        for line in [
            "INFO portolan_agent: pod default/a plugged in 0.02 s",
            "Secret portolan-system/portolan-webhook-ca: the authority ends in 3650 days",
            "10.0.0.1 tcp:192.0.2.1:6642",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "{\"uuid\": \"2f77b348-9768-4866-b761-89d5177ecda0\"}",
        ] {
            assert_eq!(text(line), line);
        }
    }

    #[test]
    fn secrets_are_found_in_every_place_of_an_object() {
        let container = json!({
            "name": "main",
            "env": [{"name": "A", "value": "PLANTED"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "kept", "key": "kept"}}}],
            "args": ["--x", "PLANTED"],
            "command": ["sh", "-c", "echo PLANTED"],
            "livenessProbe": {"exec": {"command": ["PLANTED"]}, "httpGet": {"httpHeaders": [{"name": "X", "value": "PLANTED"}]}},
            "lifecycle": {"preStop": {"exec": {"command": ["PLANTED"]}}},
        });
        let metadata = json!({
            "name": "kept",
            "managedFields": [{"manager": "PLANTED"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "PLANTED",
                "example.org/note": "PLANTED",
                "note": "PLANTED",
                "k8s.v1.cni.cncf.io/networks": "[{\"name\": \"kept\", \"cni-args\": {\"password\": \"PLANTED\"}}]",
                "vault.kubernetes.io/token": "PLANTED",
            },
        });
        let pod = json!({"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], "initContainers": [container],
            "ephemeralContainers": [container], "volumes": [{"secret": {"secretName": "kept"}}]}});
        let workload = json!({"kind": "Deployment", "metadata": metadata,
            "spec": {"template": {"metadata": metadata, "spec": {"containers": [container]}}}});
        for value in [
            pod,
            workload,
            json!({"kind": "Secret", "data": {"kept": "PLANTED"}, "stringData": {"kept": "PLANTED"}}),
            json!({"kind": "ConfigMap", "data": {"kept": "PLANTED"}, "binaryData": {"kept": "PLANTED"}}),
            json!({"kind": "NetworkAttachmentDefinition", "kept": 1, "spec": {"config": "{\"type\": \"calico\", \"etcd\": \"PLANTED\"}"}}),
            json!({"kind": "NetworkAttachmentDefinition", "kept": 1,
                "spec": {"config": "{\"plugins\": [{\"type\": \"kube-ovn\"}, {\"type\": \"other\", \"x\": \"PLANTED\"}]}"}}),
            json!({"kind": "NetworkAttachmentDefinition", "kept": 1, "spec": {"config": "PLANTED"}}),
            json!({"kind": "Vpc", "kept": 1, "spec": {"deep": [{"sharedKey": "PLANTED", "passwords": ["PLANTED"]}]}, "status": {"message": KEY}}),
            json!({"kind": "Event", "kept": 1, "message": format!("cannot log in with {JWT}")}),
        ] {
            let clean = redacted(value.clone(), Owner::Others);
            assert!(!clean.contains("PLANTED"), "{clean}");
            assert!(clean.contains("kept"), "{clean}");
        }
    }

    #[test]
    fn what_portolan_is_called_with_stays() {
        let container = json!({"name": "agent", "args": ["agent", "--node=a"], "env": [{"name": "A", "value": "PLANTED"}]});
        let pod = json!({"kind": "Pod", "spec": {"containers": [container]}});
        let clean = redacted(pod, Owner::Portolan);
        assert!(clean.contains("--node=a") && !clean.contains("PLANTED"), "{clean}");
        let map = json!({"kind": "ConfigMap", "data": {"ovn-central-0": "192.0.2.1"}});
        assert!(redacted(map, Owner::Portolan).contains("192.0.2.1"));
        let nad = json!({"kind": "NetworkAttachmentDefinition", "spec": {"config": "{\"type\": \"kube-ovn\", \"provider\": \"a.b.ovn\"}"}});
        assert!(redacted(nad, Owner::Others).contains("a.b.ovn"));
    }
}
