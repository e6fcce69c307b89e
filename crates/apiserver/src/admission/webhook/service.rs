//! Resolving the services that webhooks are called through.

use std::fmt;

use apimachinery::Status;
use apimachinery::selector::LabelSelector;
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::options::ListOptions;
use crate::selection::Selection;

/// A port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort<'a> {
    /// The service's namespace.
    pub namespace: &'a str,
    /// The service's name.
    pub name: &'a str,
    /// The port that clients use.
    pub port: u16,
}

/// Resolves services to addresses.
pub trait ServiceResolver: Send + Sync + fmt::Debug {
    /// A host or address, and the port there; or why there is none.
    fn resolve<'a>(
        &'a self,
        api: &'a Api,
        service: ServicePort<'a>,
    ) -> BoxFuture<'a, Result<(String, u16), String>>;
}

/// Finds services in the store: one of the ready endpoints, or where none are known the cluster IP.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoredServices;

impl ServiceResolver for StoredServices {
    fn resolve<'a>(
        &'a self,
        api: &'a Api,
        service: ServicePort<'a>,
    ) -> BoxFuture<'a, Result<(String, u16), String>> {
        resolve(api, service).boxed()
    }
}

async fn resolve(api: &Api, asked: ServicePort<'_>) -> Result<(String, u16), String> {
    let ServicePort { namespace, name, port } = asked;
    let registry = api.registry().snapshot();
    let missing = || format!("service {name:?} not found");
    let services = registry.resource("", "services").ok_or_else(missing)?;
    let endpoint = Endpoint::object(services.clone(), namespace, name);
    let service = api.read(&endpoint).await.and_then(|stored| endpoint.read(&stored));
    let service =
        service.map_err(|status: Status| if status.code == 404 { missing() } else { status.message })?;
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok((host.to_owned(), port));
    }
    let ports = spec["ports"].as_array().into_iter().flatten();
    let service_port = ports.into_iter().find(|candidate| candidate["port"] == port);
    let service_port =
        service_port.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    match slices(api, namespace, name).await {
        Ok(slices) if !slices.is_empty() => pick(&slices, text(service_port, "name"))
            .ok_or_else(|| format!("no endpoints available for service {name:?}")),
        _ => match text(spec, "clusterIP") {
            "" | "None" => Err(format!("no endpoints available for service {name:?}")),
            address => Ok((address.to_owned(), port)),
        },
    }
}

async fn slices(api: &Api, namespace: &str, service: &str) -> Result<Vec<Value>, Status> {
    let registry = api.registry().snapshot();
    let Some(resource) = registry.resource("discovery.k8s.io", "endpointslices") else {
        return Ok(Vec::new());
    };
    let endpoint = Endpoint::collection(resource.clone(), namespace);
    let labels = LabelSelector::parse(&format!("kubernetes.io/service-name={service}"));
    let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
    let selection = Selection::in_namespace(namespace).with_labels(labels);
    let listed = api.list(&endpoint, &selection, &ListOptions::default()).await?;
    listed.objects.iter().map(|stored| endpoint.read(stored)).collect()
}

/// One of the ready addresses, whichever comes up, with the port of that name.
fn pick(slices: &[Value], port_name: &str) -> Option<(String, u16)> {
    let mut found = Vec::new();
    for slice in slices {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        let port = ports.find(|port| text(port, "name") == port_name).and_then(|port| port["port"].as_u64());
        let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { continue };
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        for endpoint in endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false) {
            let addresses = endpoint["addresses"].as_array().into_iter().flatten();
            found.extend(addresses.filter_map(Value::as_str).map(|address| (address.to_owned(), port)));
        }
    }
    if found.is_empty() {
        return None;
    }
    let chosen = fastrand::usize(..found.len());
    Some(found.swap_remove(chosen))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ready_endpoint_is_picked_with_the_port_of_the_name() {
        let slices = [json!({
            "ports": [{"name": "metrics", "port": 9000}, {"name": "https", "port": 8443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
            ],
        })];
        assert_eq!(pick(&slices, "https"), Some(("10.0.0.2".into(), 8443)));
        assert_eq!(pick(&slices, ""), None);
        assert_eq!(
            pick(&[json!({"ports": [{"port": 1}], "endpoints": [{"addresses": ["a"]}]})], ""),
            Some(("a".into(), 1))
        );
    }
}
