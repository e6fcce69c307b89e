//! Which families of addresses a service has, and how many.

use apischema::FieldError;
use serde_json::{Map, Value, json};

use super::super::address;
use super::super::errors::Errors;
use super::super::value::{is_set, object_mut, same, set, size, text, texts};
use super::range::ServiceRanges;
use super::validation::check_cluster_ips;
use super::{is_headless, kind_of_service, needs_cluster_ip};

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";

fn other_family(family: &str) -> &'static str {
    if family == IPV4 { IPV6 } else { IPV4 }
}

fn list(spec: &Map<String, Value>, field: &str) -> Vec<String> {
    spec.get(field).map_or_else(Vec::new, |list| texts(list).map(str::to_owned).collect())
}

impl ServiceRanges {
    fn has(&self, family: &str) -> bool {
        self.addresses.iter().any(|range| range.is_ipv4() == (family == IPV4))
    }

    fn first_family(&self) -> &'static str {
        if self.addresses[0].is_ipv4() { IPV4 } else { IPV6 }
    }
}

/// The one address and all of them are told apart by name only: whoever sets one means both.
pub(super) fn settle_addresses(service: &mut Value, old: Option<&Value>) {
    let spec = object_mut(service, "spec");
    let one = spec.get("clusterIP").map_or("", text).to_owned();
    let all = list(spec, "clusterIPs");
    let Some(old) = old else {
        if !one.is_empty() && all.is_empty() {
            spec.insert("clusterIPs".into(), json!([one]));
        }
        return;
    };
    let (old_one, old_all) = (text(&old["spec"]["clusterIP"]), list_of(old, "clusterIPs"));
    let mut all = all;
    if !old_all.is_empty() && all.is_empty() && old_one == one {
        all.clone_from(&old_all);
        spec.insert("clusterIPs".into(), json!(all));
    }
    if old_one != one && all == old_all {
        let changed = if one.is_empty() { None } else { Some(json!([one])) };
        set(spec, "clusterIPs", changed);
    }
}

fn list_of(service: &Value, field: &str) -> Vec<String> {
    texts(&service["spec"][field]).map(str::to_owned).collect()
}

/// Fills in what a client left out that the service was given before.
pub(super) fn keep_given(service: &mut Value, old: &Value) {
    if !(needs_cluster_ip(old) && needs_cluster_ip(service)) {
        return;
    }
    let spec = object_mut(service, "spec");
    if spec.get("clusterIP").is_none_or(|ip| text(ip).is_empty()) {
        set(spec, "clusterIP", old["spec"].get("clusterIP").cloned());
    }
    if spec.get("clusterIPs").is_none_or(|ips| size(ips) == 0) {
        set(spec, "clusterIPs", old["spec"].get("clusterIPs").cloned());
    }
}

/// Settles which families a service has, from what it says and what there is.
pub(super) fn settle_families(
    service: &mut Value,
    old: Option<&Value>,
    ranges: &ServiceRanges,
) -> Result<(), Vec<FieldError>> {
    if !needs_cluster_ip(service) || keeps_preference(service, old) {
        return Ok(());
    }
    let selects = size(&service["spec"]["selector"]) > 0;
    let headless_one = text(&service["spec"]["clusterIP"]) == "None";
    if !is_set(&service["spec"]["ipFamilyPolicy"]) {
        let before = old.map(|old| &old["spec"]["ipFamilyPolicy"]).filter(|policy| is_set(policy)).cloned();
        let policy = before.unwrap_or_else(|| {
            if headless_one && !selects { "RequireDualStack" } else { "SingleStack" }.into()
        });
        object_mut(service, "spec").insert("ipFamilyPolicy".into(), policy);
    }
    let mut errors = Errors::default();
    check_cluster_ips(&mut errors, service, old);
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }

    let policy = text(&service["spec"]["ipFamilyPolicy"]).to_owned();
    let single = policy == "SingleStack";
    if let Some(old) = old {
        release_second(service, old, &policy, &mut errors);
    }
    let (addresses, families) = (list_of(service, "clusterIPs"), list_of(service, "ipFamilies"));
    let at_policy = "spec.ipFamilyPolicy";
    for (what, count) in [("cluster IPs", addresses.len()), ("IP families", families.len())] {
        if single && count == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid(at_policy, policy.as_str(), detail));
        }
    }
    let families = with_families_of(&addresses, families, ranges, &mut errors);
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }

    let mut families = families;
    if headless_one && !selects {
        // Who knows where such a service leads: it may have both, whatever the cluster has.
        if families.is_empty() {
            families.push(ranges.first_family().into());
        }
        if families.len() < 2 && !single {
            families.push(other_family(&families[0]).into());
        }
        object_mut(service, "spec").insert("ipFamilies".into(), json!(families));
        return Ok(());
    }
    if policy == "RequireDualStack" && ranges.addresses.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(at_policy, policy.as_str(), detail));
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| !ranges.has(family)) {
        let path = format!("spec.ipFamilies[{index}]");
        errors.push(FieldError::invalid(path, family.as_str(), "not configured on this cluster"));
    }
    if !errors.is_empty() {
        return Err(errors.into_vec());
    }
    if families.is_empty() {
        families.push(ranges.first_family().into());
    }
    if !single && families.len() == 1 && ranges.addresses.len() == 2 {
        families.push(other_family(&families[0]).into());
    }
    object_mut(service, "spec").insert("ipFamilies".into(), json!(families));
    Ok(())
}

/// A service that prefers both families keeps what it has, even if the cluster changed.
fn keeps_preference(service: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let prefers = |service: &Value| text(&service["spec"]["ipFamilyPolicy"]) == "PreferDualStack";
    kind_of_service(old) == kind_of_service(service)
        && prefers(service)
        && (prefers(old) || !is_set(&old["spec"]["ipFamilyPolicy"]))
        && same(&old["spec"]["clusterIPs"], &service["spec"]["clusterIPs"])
        && same(&old["spec"]["ipFamilies"], &service["spec"]["ipFamilies"])
}

/// Whoever asks for a single family gives the second away; whoever does not may not drop it.
fn release_second(service: &mut Value, old: &Value, policy: &str, errors: &mut Errors) {
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (new, before) = (list_of(service, field), list_of(old, field));
        if policy == "SingleStack" {
            if new == before && new.len() > 1 {
                object_mut(service, "spec").insert(field.into(), json!([new[0]]));
            }
        } else if !new.is_empty() && new.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy, detail));
        }
    }
}

/// The families, with those of addresses that have none said.
fn with_families_of(
    addresses: &[String],
    mut families: Vec<String>,
    ranges: &ServiceRanges,
    errors: &mut Errors,
) -> Vec<String> {
    for (index, ip) in addresses.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        if index < families.len() {
            continue;
        }
        let is_v4 = address::parse(ip).is_some_and(|address| address.is_ipv4());
        let family = if is_v4 { IPV4 } else { IPV6 };
        if ranges.has(family) {
            families.push(family.into());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            errors.push(FieldError::invalid(format!("spec.clusterIPs[{index}]"), json!(addresses), detail));
        }
    }
    families
}

/// Which addresses a service still has to be given: for each family, the one that it wants, or none in particular.
pub(super) fn wanted_addresses(service: &Value, old: Option<&Value>) -> Vec<(usize, String)> {
    let families = list_of(service, "ipFamilies");
    let addresses = list_of(service, "clusterIPs");
    if !needs_cluster_ip(service) || is_headless(service) {
        return Vec::new();
    }
    let had = match old {
        Some(old) if needs_cluster_ip(old) => {
            if is_headless(old) {
                return Vec::new();
            }
            list_of(old, "ipFamilies").len()
        }
        _ => 0,
    };
    let wanted = |place: usize| addresses.get(place).cloned().unwrap_or_default();
    (had..families.len()).map(|place| (place, wanted(place))).collect()
}
