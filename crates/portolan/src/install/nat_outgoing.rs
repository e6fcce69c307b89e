//! Subnets that do not say with which address their pods leave the cluster, where Portolan is its primary network.

use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use portolan_api::kubeovn::SubnetSpec;
use portolan_api::kubeovn::support::{FieldReport, nat_outgoing_unset};
use portolan_model::FirstInterface;

use crate::cluster::Cluster;

/// What there is to say of a Subnet of `kubeovn.io` that does not; nothing of one that cannot be read.
pub(crate) fn unset(subnet: &DynamicObject) -> Option<FieldReport> {
    let spec: SubnetSpec = serde_json::from_value(subnet.data["spec"].clone()).ok()?;
    nat_outgoing_unset(&spec, FirstInterface::Portolan.egress(spec.vpc()))
}

/// Warns of each that the cluster has.
pub(super) async fn warn(cluster: &Cluster) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("kubeovn.io", "v1", "Subnet");
    let resource = ApiResource::from_gvk_with_plural(&kind, "subnets");
    let subnets: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
    let subnets = match subnets.list(&ListParams::default()).await {
        Ok(list) => list.items,
        // The kind comes with the installation.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        Err(error) => return Err(cluster.explain("the list of subnets.kubeovn.io", &error)),
    };
    for subnet in &subnets {
        if let Some(report) = unset(subnet) {
            eprintln!("warning: Subnet.kubeovn.io {}: {report}", subnet.name_any());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_subnet_of_the_primary_network_without_the_field_is_told_of() {
        let kind = GroupVersionKind::gvk("kubeovn.io", "v1", "Subnet");
        let resource = ApiResource::from_gvk_with_plural(&kind, "subnets");
        let is_told = |spec: Value| {
            let mut subnet = DynamicObject::new("mail", &resource);
            subnet.data = json!({ "spec": spec });
            unset(&subnet).is_some()
        };
        assert!(is_told(json!({"cidrBlock": "10.52.0.0/16"})));
        assert!(is_told(json!({"vpc": "ovn-cluster", "default": false, "provider": "ovn"})));
        assert!(!is_told(json!({"vpc": "ovn-cluster", "natOutgoing": false})));
        assert!(!is_told(json!({"default": true})));
        assert!(!is_told(json!({"vpc": "blue"})) && !is_told(json!({"provider": "net.default.ovn"})));
        assert!(!is_told(json!({"vpc": 7})) && !is_told(Value::Null));
    }
}
