//! What is wrong with a configuration of webhooks, in the words of kube-apiserver.

use apimachinery::format::{dns1035_label, dns1123_subdomain, label_value, qualified_name};
use apischema::FieldError;
use serde_json::Value;

use crate::admission::webhook::review::Purpose;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What is wrong with the webhooks of a configuration.
pub(super) fn errors(object: &Value, purpose: Purpose) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = Vec::new();
    for (index, webhook) in items(&object["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        webhook_errors(webhook, &path, purpose, &mut errors);
        review_version_errors(&webhook["admissionReviewVersions"], &path, &mut errors);
        let name = text(&webhook["name"]);
        if names.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        } else if !name.is_empty() {
            names.push(name);
        }
    }
    errors
}

fn webhook_errors(webhook: &Value, path: &str, purpose: Purpose, errors: &mut Vec<FieldError>) {
    let name = text(&webhook["name"]);
    let wrong = dns1123_subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid(format!("{path}.name"), name, wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
    }
    for (index, rule) in items(&webhook["rules"]).iter().enumerate() {
        rule_errors(rule, &format!("{path}.rules[{index}]"), errors);
    }
    let mut one_of = |field: &str, supported: &[&str]| {
        if let Some(value) = webhook[field].as_str().filter(|value| !supported.contains(value)) {
            errors.push(FieldError::not_supported(format!("{path}.{field}"), value, supported));
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"]);
    one_of("matchPolicy", &["Equivalent", "Exact"]);
    one_of("sideEffects", &["None", "NoneOnDryRun"]);
    if webhook["sideEffects"].is_null() {
        errors.push(FieldError::required(
            format!("{path}.sideEffects"),
            "must specify one of None, NoneOnDryRun",
        ));
    }
    if let Some(timeout) = webhook["timeoutSeconds"].as_i64().filter(|timeout| !(1..=30).contains(timeout)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), timeout, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector_errors(&webhook[field], &format!("{path}.{field}"), errors);
    }
    if purpose == Purpose::Mutating {
        let policy =
            webhook["reinvocationPolicy"].as_str().filter(|policy| !["IfNeeded", "Never"].contains(policy));
        if let Some(policy) = policy {
            let path = format!("{path}.reinvocationPolicy");
            errors.push(FieldError::not_supported(path, policy, &["IfNeeded", "Never"]));
        }
    }
    client_errors(&webhook["clientConfig"], &format!("{path}.clientConfig"), errors);
    errors.extend(condition_error(&webhook["matchConditions"], path));
}

fn rule_errors(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let at = |field: &str| format!("{path}.{field}");
    list_errors(&rule["operations"], &at("operations"), "operations", errors);
    for (index, operation) in texts(&rule["operations"]).into_iter().enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(FieldError::not_supported(
                format!("{path}.operations[{index}]"),
                operation,
                &OPERATIONS,
            ));
        }
    }
    list_errors(&rule["apiGroups"], &at("apiGroups"), "API groups", errors);
    list_errors(&rule["apiVersions"], &at("apiVersions"), "API versions", errors);
    for (index, version) in texts(&rule["apiVersions"]).into_iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(format!("{path}.apiVersions[{index}]"), ""));
        }
    }
    resource_errors(&rule["resources"], &at("resources"), errors);
    if let Some(scope) =
        rule["scope"].as_str().filter(|scope| !["*", "Cluster", "Namespaced"].contains(scope))
    {
        errors.push(FieldError::not_supported(at("scope"), scope, &["*", "Cluster", "Namespaced"]));
    }
}

/// What a rule lists is something, and everything or some things.
fn list_errors(list: &Value, path: &str, called: &str, errors: &mut Vec<FieldError>) {
    let all = texts(list);
    if all.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if all.len() > 1 && all.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {called}");
        errors.push(FieldError::invalid(path, list.clone(), detail));
    }
}

fn resource_errors(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let all = texts(resources);
    if all.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut whole, mut everywhere) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (index, resource) in all.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if resource.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let Some((of, subresource)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if whole.contains(&of) {
            let detail = format!("if '{of}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(at.as_str(), *resource, detail));
        }
        if everywhere.contains(&subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(at.as_str(), *resource, detail));
        }
        if subresource == "*" {
            whole.push(of);
        }
        if of == "*" {
            everywhere.push(subresource);
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, resources.clone(), detail));
    }
    if all.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, resources.clone(), detail));
    }
}

fn client_errors(config: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config["service"].as_object()) {
        (Some(url), None) => url_errors(url, &format!("{path}.url"), errors),
        (None, Some(_)) => service_errors(&config["service"], &format!("{path}.service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn url_errors(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    let form = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        errors.push(FieldError::invalid(path, scheme, detail));
    }
    if host.is_empty() || scheme.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{form}")));
    } else if authority.parse::<http::uri::Authority>().is_err() {
        let detail = format!("url must be a valid URL: parse {url:?}: invalid character in host name{form}");
        errors.push(FieldError::required(path, detail));
    }
    for (part, detail) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            errors.push(FieldError::invalid(path, part, detail));
        }
    }
}

fn service_errors(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    // kube-apiserver takes the one for the other here; clients know it so.
    for (field, other) in [("name", "namespace"), ("namespace", "name")] {
        if text(&service[other]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, detail));
    }
    let url_path = text(&service["path"]);
    let path = format!("{path}.path");
    if url_path.is_empty() || url_path == "/" {
        return;
    }
    if url_path == "//" {
        return errors.push(FieldError::invalid(path, url_path, "segment[0] may not be empty"));
    }
    if !url_path.starts_with('/') {
        errors.push(FieldError::invalid(path.as_str(), url_path, "must start with a '/'"));
    }
    let mut characters = url_path.chars();
    characters.next();
    let steps = characters.as_str();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(path.as_str(), url_path, detail));
            continue;
        }
        for wrong in dns1123_subdomain(step) {
            errors.push(FieldError::invalid(path.as_str(), url_path, format!("segment[{index}]: {wrong}")));
        }
    }
}

fn selector_errors(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |path: &str, value: &str, messages: Vec<String>| {
        errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
    };
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        wrong(&format!("{path}.matchLabels"), key, qualified_name(key));
        wrong(&format!("{path}.matchLabels"), text(value), label_value(text(value)));
    }
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = texts(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    format!("{path}.operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = text(&expression["key"]);
        let messages = qualified_name(key);
        errors.extend(
            messages.into_iter().map(|message| FieldError::invalid(format!("{path}.key"), key, message)),
        );
        for (index, value) in values.into_iter().enumerate() {
            let at = format!("{path}.values[{index}]");
            errors.extend(
                label_value(value)
                    .into_iter()
                    .map(|message| FieldError::invalid(at.as_str(), value, message)),
            );
        }
    }
}

fn review_version_errors(versions: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    let all = texts(versions);
    if all.is_empty() {
        return errors.push(FieldError::required(path, format!("must specify one of {known}")));
    }
    for (index, version) in all.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if all[..index].contains(version) {
            errors.push(FieldError::invalid(at, *version, "duplicate version"));
            continue;
        }
        let wrong = dns1035_label(version);
        errors.extend(wrong.into_iter().map(|message| FieldError::invalid(at.as_str(), *version, message)));
    }
    if !all.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        errors.push(FieldError::invalid(
            path,
            versions.clone(),
            format!("must include at least one of {known}"),
        ));
    }
}

/// A condition that is not looked at would have the webhook asked when it should not be.
fn condition_error(conditions: &Value, path: &str) -> Option<FieldError> {
    let detail = "match conditions are not available in this server";
    (!items(conditions).is_empty()).then(|| FieldError::forbidden(format!("{path}.matchConditions"), detail))
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(list: &Value) -> Vec<&str> {
    items(list).iter().map(text).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn told(webhook: Value) -> Vec<String> {
        errors(&json!({"webhooks": [webhook]}), Purpose::Mutating).iter().map(ToString::to_string).collect()
    }

    fn good() -> Value {
        json!({"name": "a.example.com", "clientConfig": {"url": "https://a/b"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]})
    }

    #[test]
    fn a_good_webhook_has_nothing_wrong() {
        assert_eq!(told(good()), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(
            told(json!({"rules": [{}]})),
            [
                "webhooks[0].name: Required value",
                "webhooks[0].rules[0].operations: Required value",
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let mut webhook = good();
        webhook["name"] = "a.b".into();
        webhook["failurePolicy"] = "Maybe".into();
        webhook["sideEffects"] = "Some".into();
        webhook["timeoutSeconds"] = 31.into();
        webhook["clientConfig"] = json!({"url": "http://u:p@a/?q=1#f"});
        webhook["rules"][0]["resources"] = json!(["pods/*", "pods/status"]);
        webhook["rules"][0]["operations"] = json!(["*", "READ"]);
        assert_eq!(
            told(webhook),
            [
                r#"webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots"#,
                r#"webhooks[0].rules[0].operations: Invalid value: ["*","READ"]: if '*' is present, must not specify other operations"#,
                r#"webhooks[0].rules[0].operations[1]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#,
                r#"webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status"#,
                r#"webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore""#,
                r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#,
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "q=1": query parameters are not permitted in the URL"#,
            ]
        );
    }
}
