//! Ingresses and their classes. Whoever runs the gateways serves them.

use serde_json::Value;

use super::address;
use super::behaviour::Behaviour;
use super::errors::Errors;
use super::format::{dns1035_label, dns1123_label, dns1123_subdomain, path_segment};
use super::format::{domain_prefixed_path, port, port_name, wildcard_subdomain};
use super::kind::{KindExt as _, kind_of};
use super::table::{age, columns, load_balancer, name, or};
use super::value::{is_set, items, number, size, text, texts};
use apischema::Path;
use apiserver::registry::{Generation, Resource, Scope};

const GROUP: &str = "networking.k8s.io";

pub(super) fn resource() -> Resource {
    kind_of(GROUP, "ingresses", "Ingress", Scope::Namespaced)
        .short_names(&["ing"])
        .behaving(Behaviour {
            generation: Generation::Spec,
            prepare_create: |ingress, _| {
                ingress["status"] = serde_json::json!({"loadBalancer": {}});
            },
            validate: check,
            validate_create: check_class_annotation,
            validate_status: |ingress, old, errors| {
                check_load_balancer(errors, &ingress["status"], &old["status"]);
            },
            ..Behaviour::WITH_STATUS
        })
        .shown(columns(&["Name", "Class", "Hosts", "Address", "Ports", "Age"], |ingress, now| {
            let spec = &ingress["spec"];
            vec![
                name(ingress),
                or(&spec["ingressClassName"], "<none>").into(),
                hosts(&spec["rules"]).into(),
                load_balancer(&ingress["status"]).into(),
                if size(&spec["tls"]) > 0 { "80, 443" } else { "80" }.into(),
                age(ingress, now),
            ]
        }))
        .with_status()
}

pub(super) fn class() -> Resource {
    kind_of(GROUP, "ingressclasses", "IngressClass", Scope::Cluster)
        .behaving(Behaviour {
            generation: Generation::Spec,
            validate: check_class,
            validate_update: |new, old, errors| {
                let (new, old) = (text(&new["spec"]["controller"]), text(&old["spec"]["controller"]));
                if new != old {
                    errors.invalid(Path::root("spec").field("controller"), new, "field is immutable");
                }
            },
            ..Behaviour::PLAIN
        })
        .shown(columns(&["Name", "Controller", "Parameters", "Age"], |class, now| {
            let parameters = &class["spec"]["parameters"];
            let shown = match (text(&parameters["kind"]), text(&parameters["apiGroup"])) {
                ("", _) => "<none>".into(),
                (kind, "") => format!("{kind}/{}", text(&parameters["name"])),
                (kind, group) => format!("{kind}.{group}/{}", text(&parameters["name"])),
            };
            vec![name(class), text(&class["spec"]["controller"]).into(), shown.into(), age(class, now)]
        }))
}

fn hosts(rules: &Value) -> String {
    let all = items(rules).len();
    let hosts: Vec<_> =
        items(rules).iter().map(|rule| text(&rule["host"])).filter(|host| !host.is_empty()).collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [first, second, third, ..] if all > 3 => format!("{first},{second},{third} + {} more...", all - 3),
        few => few.join(","),
    }
}

/// Checks the addresses of a load balancer. Those that were there before are left alone.
pub(super) fn check_load_balancer(errors: &mut Errors, status: &Value, old: &Value) {
    let ingress = |status: &Value| items(&status["loadBalancer"]["ingress"]).to_vec();
    let (new, old) = (ingress(status), ingress(old));
    let existing: Vec<_> =
        old.iter().map(|ingress| text(&ingress["ip"])).filter(|ip| !ip.is_empty()).collect();
    let status = Path::root("status");
    let load_balancer = status.field("loadBalancer");
    let path = load_balancer.field("ingress");
    for (index, ingress) in new.iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (text(&ingress["ip"]), text(&ingress["hostname"]));
        if !ip.is_empty() {
            address::check(errors, path.field("ip"), ip, &existing);
        }
        if !hostname.is_empty() {
            errors.messages(path.field("hostname"), hostname, dns1123_subdomain(hostname));
            if address::parse(hostname).is_some() {
                errors.invalid(path.field("hostname"), hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn check(ingress: &Value, errors: &mut Errors) {
    let (spec, path) = (&ingress["spec"], Path::root("spec"));
    if size(&spec["rules"]) == 0 && !is_set(&spec["defaultBackend"]) {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(path, spec["rules"].clone(), detail);
    }
    if is_set(&spec["defaultBackend"]) {
        check_backend(errors, path.field("defaultBackend"), &spec["defaultBackend"]);
    }
    for (index, rule) in items(&spec["rules"]).iter().enumerate() {
        check_rule(errors, path.field("rules").index(index), rule);
    }
    for (index, tls) in items(&spec["tls"]).iter().enumerate() {
        let list = path.field("tls");
        let at = list.index(index);
        for (index, host) in texts(&tls["hosts"]).enumerate() {
            check_host(errors, at.field("hosts").index(index), host);
        }
        let secret = text(&tls["secretName"]);
        if !secret.is_empty() {
            errors.messages(at.field("secretName"), secret, dns1123_subdomain(secret));
        }
    }
    if is_set(&spec["ingressClassName"]) {
        let class = text(&spec["ingressClassName"]);
        errors.messages(path.field("ingressClassName"), class, dns1123_subdomain(class));
    }
}

fn check_class_annotation(ingress: &Value, errors: &mut Errors) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    let (annotation, class) =
        (&ingress["metadata"]["annotations"][CLASS], &ingress["spec"]["ingressClassName"]);
    if is_set(annotation) && is_set(class) && annotation != class {
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(Path::root("annotations").field(CLASS), text(annotation), detail);
    }
}

fn check_host(errors: &mut Errors, path: Path<'_>, host: &str) {
    let wrong = if host.contains('*') { wildcard_subdomain(host) } else { dns1123_subdomain(host) };
    errors.messages(path, host, wrong);
}

fn check_rule(errors: &mut Errors, path: Path<'_>, rule: &Value) {
    let host = text(&rule["host"]);
    if !host.is_empty() {
        if address::parse(host).is_some() {
            errors.invalid(path.field("host"), host, "must be a DNS name, not an IP address");
        }
        check_host(errors, path.field("host"), host);
    }
    if !is_set(&rule["http"]) {
        return;
    }
    let http = path.field("http");
    let paths = http.field("paths");
    if size(&rule["http"]["paths"]) == 0 {
        errors.required(paths, "");
    }
    for (index, given) in items(&rule["http"]["paths"]).iter().enumerate() {
        check_path(errors, paths.index(index), given);
    }
}

fn check_path(errors: &mut Errors, path: Path<'_>, given: &Value) {
    if !is_set(&given["pathType"]) {
        return errors.required(path.field("pathType"), "pathType must be specified");
    }
    let url = text(&given["path"]);
    match text(&given["pathType"]) {
        "Exact" | "Prefix" => {
            if !url.starts_with('/') {
                errors.invalid(path.field("path"), url, "must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| url.contains(part))
            {
                errors.invalid(path.field("path"), url, format!("must not contain '{sequence}'"));
            }
            for suffix in ["/..", "/."].into_iter().filter(|suffix| url.ends_with(suffix)) {
                errors.invalid(path.field("path"), url, format!("cannot end with '{suffix}'"));
            }
        }
        "ImplementationSpecific" => {
            if !url.is_empty() && !url.starts_with('/') {
                errors.invalid(path.field("path"), url, "must be an absolute path");
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(path.field("pathType"), other, &supported);
        }
    }
    check_backend(errors, path.field("backend"), &given["backend"]);
}

fn check_backend(errors: &mut Errors, path: Path<'_>, backend: &Value) {
    let (resource, service) = (&backend["resource"], &backend["service"]);
    match (is_set(resource), is_set(service)) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => check_reference(errors, path.field("resource"), resource),
        (false, false) => errors.invalid(path, "", "resource or service backend is required"),
        (false, true) => {
            let at = path.field("service");
            match text(&service["name"]) {
                "" => errors.required(at.field("name"), ""),
                name => errors.messages(at.field("name"), name, dns1035_label(name)),
            }
            let port_path = at.field("port");
            match (text(&service["port"]["name"]), number(&service["port"]["number"])) {
                ("", 0) => errors.required(path, "port name or number is required"),
                ("", given) => port(errors, port_path.field("number"), given),
                (name, 0) => errors.messages(port_path.field("name"), name, port_name(name)),
                _ => errors.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}

fn check_reference(errors: &mut Errors, path: Path<'_>, reference: &Value) {
    if is_set(&reference["apiGroup"]) {
        let group = text(&reference["apiGroup"]);
        errors.messages(path.field("apiGroup"), group, dns1123_subdomain(group));
    }
    for field in ["kind", "name"] {
        match text(&reference[field]) {
            "" => errors.required(path.field(field), ""),
            segment => errors.messages(path.field(field), segment, path_segment(segment)),
        }
    }
}

fn check_class(class: &Value, errors: &mut Errors) {
    const LONGEST: usize = 250;
    let (spec, path) = (&class["spec"], Path::root("spec"));
    let controller = text(&spec["controller"]);
    if controller.len() > LONGEST {
        errors.too_long(path.field("controller"), LONGEST as u64);
    }
    domain_prefixed_path(errors, path.field("controller"), controller);
    let (parameters, path) = (&spec["parameters"], path.field("parameters"));
    if !is_set(parameters) {
        return;
    }
    check_reference(errors, path, parameters);
    let namespace = &parameters["namespace"];
    match text(&parameters["scope"]) {
        "" => errors.required(path.field("scope"), ""),
        "Namespace" if is_set(namespace) => {
            errors.messages(path.field("namespace"), text(namespace), dns1123_label(text(namespace)));
        }
        "Namespace" => errors.required(path.field("namespace"), "`parameters.scope` is set to 'Namespace'"),
        "Cluster" if is_set(namespace) => {
            errors.forbidden(path.field("namespace"), "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        other => errors.not_supported(path.field("scope"), other, &["Cluster", "Namespace"]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cells, create, update};
    use super::*;
    use serde_json::json;

    fn ingress(path: &Value) -> Value {
        json!({"metadata": {"name": "i"}, "spec": {"rules": [{"host": "a.example.com", "http": {"paths": [path]}}]}})
    }

    #[test]
    fn paths_lead_to_a_port_of_a_service() {
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        let good = json!({"path": "/", "pathType": "Prefix", "backend": backend});
        assert!(create(&resource(), &ingress(&good)).is_empty());
        assert_eq!(
            create(
                &resource(),
                &ingress(
                    &json!({"path": "x//..", "pathType": "Exact", "backend": {"service": {"name": "s"}}})
                )
            ),
            [
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//..\": must be an absolute path",
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//..\": must not contain '//'",
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//..\": cannot end with '/..'",
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required"
            ]
        );
        assert_eq!(
            create(&resource(), &ingress(&json!({}))),
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]
        );
        assert_eq!(
            create(&resource(), &json!({"spec": {"rules": []}})),
            ["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"]
        );
    }

    #[test]
    fn classes_keep_their_controller() {
        let of = |controller: &str| json!({"spec": {"controller": controller}});
        assert!(create(&class(), &of("example.com/a")).is_empty());
        assert_eq!(create(&class(), &of("")), ["spec.controller: Required value"]);
        assert_eq!(
            update(&class(), &of("example.com/b"), &of("example.com/a")),
            ["spec.controller: Invalid value: \"example.com/b\": field is immutable"]
        );
    }

    #[test]
    fn the_table_shows_hosts_and_addresses() {
        let mut shown = ingress(&json!({}));
        shown["status"] =
            json!({"loadBalancer": {"ingress": [{"hostname": "b"}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]}});
        assert_eq!(
            cells(&resource(), &shown, "2024-01-01T00:00:00Z"),
            ["i", "<none>", "a.example.com", "10.0.0.1,b", "80", "<unknown>"]
        );
    }
}
