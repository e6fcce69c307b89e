//! The environment of a container.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Something in a container's specification that the runtime cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unsupported(String);

/// The variables of a container, in order, with references to earlier ones resolved.
pub(super) fn of(
    pod: &core::Pod,
    spec: &core::Container,
    addresses: &[IpAddr],
) -> Result<Vec<(String, String)>, Unsupported> {
    let mut variables = vec![
        ("PATH".to_owned(), PATH.to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
        ("HOSTNAME".to_owned(), pod.metadata.name.clone().unwrap_or_default()),
    ];
    if let Some(from) = spec.env_from.as_ref().filter(|from| !from.is_empty()) {
        return Err(Unsupported(format!(
            "the lab's runtime knows no envFrom; container {} has {} of them",
            spec.name,
            from.len()
        )));
    }
    for variable in spec.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => expand(value, &variables),
            (None, None) => String::new(),
            (None, Some(source)) => match &source.field_ref {
                Some(reference) => field(pod, &reference.field_path, addresses).ok_or_else(|| {
                    Unsupported(format!("the lab's runtime knows no fieldRef {:?}", reference.field_path))
                })?,
                None => {
                    return Err(Unsupported(format!(
                        "the lab's runtime knows no valueFrom but fieldRef; variable {} of container {} has another",
                        variable.name, spec.name
                    )));
                }
            },
        };
        variables.retain(|(name, _)| *name != variable.name);
        variables.push((variable.name.clone(), value));
    }
    Ok(variables)
}

/// Replaces `$(NAME)` by the variable's value, as Kubernetes does: an unknown name stays, `$$` is a dollar sign.
pub(super) fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let named = after.strip_prefix('(').and_then(|name| name.split_once(')'));
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push('$');
            rest = tail;
        } else if let Some((name, tail)) = named {
            match variables.iter().find(|(known, _)| known == name) {
                Some((_, value)) => expanded.push_str(value),
                None => expanded.push_str(&rest[at..rest.len() - tail.len()]),
            }
            rest = tail;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

fn field(pod: &core::Pod, path: &str, addresses: &[IpAddr]) -> Option<String> {
    let entry = |map: &Option<BTreeMap<String, String>>, key: &str| {
        let value = map.as_ref().and_then(|map| map.get(key));
        value.cloned().unwrap_or_default()
    };
    let keyed = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = keyed("metadata.labels") {
        return Some(entry(&pod.metadata.labels, key));
    }
    if let Some(key) = keyed("metadata.annotations") {
        return Some(entry(&pod.metadata.annotations, key));
    }
    let (metadata, spec, status) = (&pod.metadata, pod.spec.as_ref(), pod.status.as_ref());
    let list = || addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    Some(match path {
        "metadata.name" => metadata.name.clone().unwrap_or_default(),
        "metadata.namespace" => metadata.namespace.clone().unwrap_or_default(),
        "metadata.uid" => metadata.uid.clone().unwrap_or_default(),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.hostIP" => status.and_then(|status| status.host_ip.clone()).unwrap_or_default(),
        "status.podIP" => list().into_iter().next().unwrap_or_default(),
        "status.podIPs" => list().join(","),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_resolved_as_kubernetes_resolves_them() {
        let variables = [("A".to_owned(), "1".to_owned())];
        for (text, expanded) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$A ${A}", "$A ${A}"),
            ("100$", "100$"),
            ("$(", "$("),
        ] {
            assert_eq!(expand(text, &variables), expanded, "{text}");
        }
    }

    #[test]
    fn variables_are_in_order_and_may_name_fields() {
        let pod: core::Pod =
            serde_json::from_value(json!({"metadata": {"name": "argo", "labels": {"sea": "Aegean"}},
            "spec": {"nodeName": "node1", "containers": [{"name": "main", "env": [
                {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "A", "value": "2"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "SEA", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['sea']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}]}}))
            .unwrap();
        let spec = &pod.spec.as_ref().unwrap().containers[0];
        let variables = of(&pod, spec, &["10.0.0.2".parse().unwrap()]).unwrap();
        let own: Vec<_> = variables[3..].iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(own, ["B=1$(C)", "A=2", "NODE=node1", "SEA=Aegean", "IP=10.0.0.2"]);
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let spec: core::Container = serde_json::from_value(json!({"name": "main", "env": [
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}))
        .unwrap();
        let error = of(&core::Pod::default(), &spec, &[]).unwrap_err().to_string();
        assert!(error.contains("PASSWORD"), "{error}");
    }
}
