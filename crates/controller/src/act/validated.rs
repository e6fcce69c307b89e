//! Judging subnets: lists, and what the engine says about them.

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use portolan_api::{kubeovn, portolan};
use portolan_model::FirstInterface;
use portolan_watch::{Plain, Unreadable, list};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Actor;
use crate::engine::{Candidates, Engine, Lists};

impl Actor {
    /// Lists, and asks the engine. Its verdicts come back as conditions to be written.
    pub(super) async fn validate_subnets(&self, candidates: Candidates) {
        match lists(&self.client, self.first_interface).await {
            Ok(lists) => self.answer(move |engine| engine.judge_and_write(&candidates, &lists)).await,
            Err(error) => {
                tracing::warn!(error = %Plain(&error), "cannot list the subnets to validate new ones");
                self.answer(Engine::not_judged).await;
            }
        }
    }
}

/// Subnets and VPCs that cannot be decoded are no reason to let the others wait. What can be told of such a Subnet's prefixes is compared
/// with; where they are what cannot be read, its addresses are still locked.
async fn lists(client: &Client, first_interface: FirstInterface) -> kube::Result<Lists> {
    let (native, kubeovn) = (list::<portolan::Subnet>(client).await?, list::<kubeovn::Subnet>(client).await?);
    Ok(Lists {
        outlined_subnets: native.unreadable.iter().filter_map(outline).collect(),
        subnets: native.objects,
        outlined_kubeovn_subnets: kubeovn.unreadable.iter().filter_map(outline).collect(),
        kubeovn_subnets: kubeovn.objects,
        vpcs: list(client).await?.objects,
        kubeovn_vpcs: list(client).await?.objects,
        nodes: match first_interface {
            FirstInterface::Portolan => list::<Node>(client).await?.objects,
            FirstInterface::Other | FirstInterface::NoLonger => Vec::new(),
        },
    })
}

/// A Subnet that cannot be decoded, with nothing but its name, prefixes and domain; none if these cannot be read either.
fn outline<K: DeserializeOwned>(subnet: &Unreadable<K>) -> Option<K> {
    let content = &subnet.content;
    let spec = ["cidrBlock", "vpc", "vni", "provider"]
        .map(|field| (field.to_owned(), content["spec"][field].clone()));
    let spec: Map<String, Value> = spec.into_iter().filter(|(_, value)| !value.is_null()).collect();
    serde_json::from_value(json!({
        "apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": content["metadata"], "spec": spec,
    }))
    .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use kube::ResourceExt as _;
    use kube::core::PartialObjectMetaExt as _;

    use super::*;

    fn unreadable(spec: &Value) -> Unreadable<portolan::Subnet> {
        let metadata = kube::core::ObjectMeta { name: Some("web".into()), ..Default::default() };
        let content = json!({
            "apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": metadata, "spec": spec,
        });
        let object = metadata.into_response_partial::<portolan::Subnet>();
        Unreadable { object, content, field: "spec.mtu".into(), problem: "wrong".into() }
    }

    #[test]
    fn the_prefixes_of_a_subnet_that_cannot_be_decoded_are_told_where_they_can_be() {
        let spec = json!({"cidrBlock": "10.0.0.0/24", "vpc": "blue", "mtu": "large"});
        let subnet = outline(&unreadable(&spec)).unwrap();
        assert_eq!((subnet.name_any().as_str(), subnet.spec.cidr_block.as_str()), ("web", "10.0.0.0/24"));
        assert_eq!(subnet.spec.vpc.as_deref(), Some("blue"));
        assert_eq!(outline(&unreadable(&json!({"cidrBlock": 7}))), None);
        assert_eq!(outline(&unreadable(&json!("nonsense"))), None);
    }
}
