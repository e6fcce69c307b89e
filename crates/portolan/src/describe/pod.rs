//! A pod, as far as networks are concerned.

use kube::ResourceExt as _;
use portolan_model::{Request, Requester};
use portolan_trace::PodName;

use super::Description;
use super::sheet::Sheet;
use crate::cluster::Snapshot;
use crate::exit::Failure;
use crate::get::Ready;
use crate::get::attachments;
use crate::trace::missing_pod;

pub(super) fn describe(snapshot: &Snapshot, name: &str, namespace: &str) -> anyhow::Result<Description> {
    let name = PodName::parse(name, namespace)
        .map_err(|_| Failure::usage(format!("{name:?} is no pod; write POD or NAMESPACE/POD")))?;
    let is_it = |pod: &&k8s_openapi::api::core::v1::Pod| {
        pod.namespace().as_deref() == Some(&name.namespace) && pod.name_any() == name.name
    };
    let Some(object) = snapshot.lists.pods.iter().find(is_it) else {
        return Err(missing_pod(snapshot, &name));
    };
    let mut sheet = Sheet::new(format!("Pod {name}"));
    let (spec, status) = (object.spec.as_ref(), object.status.as_ref());
    sheet.field("Node", spec.and_then(|spec| spec.node_name.clone()).unwrap_or_else(|| "none yet".into()));
    sheet.field("Phase", status.and_then(|status| status.phase.clone()).unwrap_or_default());
    sheet.field("Address", status.and_then(|status| status.pod_ip.clone()).unwrap_or_default());
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        sheet.field("Network", "its node's (hostNetwork): no interface of its own");
    }
    let rows = attachments::rows(snapshot, Some(&name.namespace));
    let rows: Vec<_> = rows.into_iter().filter(|row| row.pod == name.name).collect();
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    if rows.is_empty() {
        let none = "none of Portolan's; the annotation k8s.v1.cni.cncf.io/networks asks for one";
        sheet.lines("Interfaces", [none.to_owned()]);
    } else {
        let table = rows.iter().map(|row| {
            [of(&row.interface), of(&row.subnet), row.addresses.join(","), of(&row.mac), row.readiness.word()]
        });
        sheet.table("Interfaces", ["INTERFACE", "SUBNET", "ADDRESSES", "MAC", "READY"], table.collect());
    }
    let request = snapshot.world.request(&Requester::pod(&name.namespace, &name.name));
    if let Some(request) = &request {
        routes(&mut sheet, request);
    }
    let mut problems: Vec<_> = rows
        .iter()
        .filter(|row| row.readiness.ready != Ready::Yes)
        .map(|row| row.readiness.message.clone())
        .collect();
    problems.dedup();
    if !problems.is_empty() {
        sheet.lines("Problems", problems);
    }
    let warnings = request.iter().flat_map(|request| &request.warnings).map(ToString::to_string);
    let warnings: Vec<_> = warnings.collect();
    if !warnings.is_empty() {
        sheet.lines("Without effect", warnings);
    }
    Ok(Description { sheet, uid: object.uid() })
}

/// The routes that the pod requests, beyond those of its subnets.
fn routes(sheet: &mut Sheet, request: &Request) {
    let mut lines = Vec::new();
    for interface in &request.interfaces {
        let by = &interface.interface;
        if let Some(routers) = &interface.default_route {
            let routers: Vec<_> = routers.iter().map(ToString::to_string).collect();
            let via = if routers.is_empty() { "the subnet's gateway".into() } else { routers.join(", ") };
            lines.push(format!("default via {via} dev {by}"));
        }
        if interface.is_way_out {
            lines.push(format!(
                "default via the subnet's gateway dev {by}, in the VPC of the pod's namespace"
            ));
        }
        lines.extend(interface.routes.iter().map(|route| {
            let via = route
                .gateway
                .map_or_else(|| "the subnet's gateway".to_owned(), |gateway| gateway.to_string());
            format!("{} via {via} dev {by}", route.destination)
        }));
    }
    if !lines.is_empty() {
        sheet.lines("Requested routes", lines);
    }
}
