//! Of Portolan's objects: which networks there are, and what they say is wrong with them.

use ipnet::IpNet;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use portolan_agent::examine::facts::Outcome;
use serde_json::Value;

use super::super::facts::{Subnet, Troubled};
use super::Ask;
use crate::install::nat_outgoing;

/// The kinds with conditions, each with the word by which `portolan describe` knows it.
const KINDS: [(&str, &str, &str, &str, Option<&str>); 7] = [
    ("portolan.dev", "v1alpha1", "Vpc", "vpcs", Some("vpc")),
    ("portolan.dev", "v1alpha1", "Subnet", "subnets", Some("subnet")),
    ("portolan.dev", "v1alpha1", "NetworkAttachment", "networkattachments", None),
    ("kubeovn.io", "v1", "Vpc", "vpcs", Some("vpc")),
    ("kubeovn.io", "v1", "Subnet", "subnets", Some("subnet")),
    ("kubeovn.io", "v1", "IPPool", "ippools", None),
    ("kubeovn.io", "v1", "Vip", "vips", None),
];
/// The conditions that should be `True`; the first that is not says most.
const GOOD: [&str; 4] = ["Validated", "Addressed", "Ready", "Peered"];

pub(super) async fn troubled(ask: &Ask<'_>) -> Outcome<Vec<Troubled>> {
    let mut found = Vec::new();
    for (group, version, kind, plural, described) in KINDS {
        let api = ask.dynamic(group, version, kind, plural);
        match ask.list(&api, &format!("the list of {plural}.{group}"), &ListParams::default()).await {
            Ok(list) => {
                found.extend(list.iter().filter_map(|one| trouble(one, group, kind, plural, described)));
            }
            Err(error) => return Outcome::Unknown(format!("{error:#}")),
        }
    }
    Outcome::Found(found)
}

fn trouble(
    object: &DynamicObject,
    group: &str,
    kind: &str,
    plural: &str,
    described: Option<&str>,
) -> Option<Troubled> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let is_current = |condition: &Value| {
        let observed = condition["observedGeneration"].as_i64();
        observed.is_none() || observed == object.metadata.generation
    };
    let bad = |name: &&str| {
        conditions.iter().find(|one| one["type"] == **name && one["status"] != "True" && is_current(one))
    };
    let condition = GOOD.iter().find_map(bad)?;
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (object.name_any(), object.namespace());
    let in_namespace = namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    Some(Troubled {
        kind: format!("{kind}.{group}"),
        condition: text("type"),
        reason: text("reason"),
        message: text("message"),
        describe: match described {
            Some(word) => format!("portolan describe {word} {name}"),
            None => format!("kubectl describe {plural}.{group} {name}{in_namespace}"),
        },
        name: namespace.map_or(name.clone(), |namespace| format!("{namespace}/{name}")),
    })
}

pub(super) async fn subnets(ask: &Ask<'_>) -> Outcome<Vec<Subnet>> {
    let mut found = Vec::new();
    for (group, version, kind, plural, _) in KINDS.iter().filter(|(_, _, kind, ..)| *kind == "Subnet") {
        let api = ask.dynamic(group, version, kind, plural);
        match ask.list(&api, &format!("the list of {plural}.{group}"), &ListParams::default()).await {
            Ok(list) => found.extend(list.iter().map(|one| Subnet {
                title: format!("Subnet.{group} {}", one.name_any()),
                networks: networks(&one.data["spec"]["cidrBlock"]),
                is_nat_outgoing_unset: *group == "kubeovn.io" && nat_outgoing::unset(one).is_some(),
            })),
            Err(error) => return Outcome::Unknown(format!("{error:#}")),
        }
    }
    Outcome::Found(found)
}

/// One network, or one of each family.
fn networks(block: &Value) -> Vec<IpNet> {
    let texts = block.as_str().into_iter().flat_map(|text| text.split(','));
    texts.filter_map(|text| text.trim().parse::<IpNet>().ok()).map(|network| network.trunc()).collect()
}

#[cfg(test)]
mod tests {
    use kube::api::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    fn object(status: &Value) -> DynamicObject {
        let gvk = GroupVersionKind::gvk("kubeovn.io", "v1", "Subnet");
        let mut object = DynamicObject::new("web", &ApiResource::from_gvk_with_plural(&gvk, "subnets"));
        object.metadata.generation = Some(2);
        object.data = json!({ "status": status });
        object
    }

    fn reason(conditions: &Value) -> Option<String> {
        let object = object(&json!({ "conditions": conditions }));
        trouble(&object, "kubeovn.io", "Subnet", "subnets", Some("subnet")).map(|one| one.reason)
    }

    #[test]
    fn the_first_condition_that_is_not_true_counts_if_it_is_about_what_is_there_now() {
        let condition = |kind: &str, status: &str, reason: &str, generation: i64| json!({"type": kind, "status": status, "reason": reason, "observedGeneration": generation});
        assert_eq!(reason(&json!([])), None);
        assert_eq!(reason(&json!([condition("Ready", "True", "InEffect", 2)])), None);
        assert_eq!(reason(&json!([condition("Ready", "False", "Old", 1)])), None);
        let both = json!([
            condition("Ready", "False", "NotValidated", 2),
            condition("Validated", "False", "Invalid", 2)
        ]);
        assert_eq!(reason(&both).as_deref(), Some("Invalid"));
        assert_eq!(reason(&json!([condition("Supported", "False", "UnsupportedFields", 2)])), None);
        assert_eq!(trouble(&object(&json!({})), "g", "K", "ks", None), None);
    }

    #[test]
    fn a_block_has_one_network_or_two() {
        assert_eq!(networks(&json!("10.0.0.1/24,fd00::/64")).len(), 2);
        assert_eq!(networks(&json!("10.0.0.1/24"))[0].to_string(), "10.0.0.0/24");
        assert!(networks(&json!("nonsense")).is_empty() && networks(&Value::Null).is_empty());
    }
}
