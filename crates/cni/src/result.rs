//! What a successful ADD answers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::version::Version;

/// The interfaces that a call made, with their addresses and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddResult {
    /// The interfaces, those on the node's side included.
    pub interfaces: Vec<Interface>,
    /// Their addresses.
    pub ips: Vec<IpConfig>,
    /// Routes in the container.
    pub routes: Vec<Route>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its largest packet.
    pub mtu: Option<u32>,
    /// The namespace it is in, as the call named it; none on the node's side.
    pub sandbox: Option<String>,
    /// The PCI address of its device, if it belongs to one.
    pub pci_id: Option<String>,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpConfig {
    /// Its place among [`AddResult::interfaces`].
    pub interface: usize,
    /// The address with the length of its network.
    pub address: IpNet,
    /// The network's router.
    pub gateway: Option<IpAddr>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// By which router.
    pub gateway: Option<IpAddr>,
}

impl AddResult {
    /// The result as this version writes it. In a chain of plugins, `previous` is what those before answered: it is kept, and this
    /// comes after it.
    pub fn to_json(&self, version: Version, previous: Option<&Value>) -> Value {
        let mut result = previous.and_then(Value::as_object).cloned().unwrap_or_default();
        result.insert("cniVersion".into(), version.as_str().into());
        let offset = list(&mut result, "interfaces").len();
        list(&mut result, "interfaces").extend(self.interfaces.iter().map(|link| link.to_json(version)));
        list(&mut result, "ips").extend(self.ips.iter().map(|ip| ip.to_json(version, offset)));
        list(&mut result, "routes").extend(self.routes.iter().map(Route::to_json));
        result.entry("dns").or_insert_with(|| json!({}));
        Value::Object(result)
    }
}

/// A list in an object, which is made if it is not there or is none.
fn list<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let entry = object.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if !entry.is_array() {
        *entry = Value::Array(Vec::new());
    }
    entry.as_array_mut().expect("invariant: it was made one just now")
}

impl Interface {
    fn to_json(&self, version: Version) -> Value {
        let mut object = json!({ "name": self.name, "mac": self.mac });
        if let Some(sandbox) = &self.sandbox {
            object["sandbox"] = sandbox.as_str().into();
        }
        if let Some(mtu) = self.mtu.filter(|_| version >= Version::V1_1_0) {
            object["mtu"] = mtu.into();
        }
        if let Some(pci_id) = self.pci_id.as_deref().filter(|_| version >= Version::V1_1_0) {
            object["pciID"] = pci_id.into();
        }
        object
    }
}

impl IpConfig {
    fn to_json(&self, version: Version, offset: usize) -> Value {
        let mut object = json!({ "address": self.address.to_string(), "interface": self.interface + offset });
        if let Some(gateway) = self.gateway {
            object["gateway"] = gateway.to_string().into();
        }
        if version < Version::V1_0_0 {
            object["version"] = if self.address.addr().is_ipv4() { "4" } else { "6" }.into();
        }
        object
    }
}

impl Route {
    fn to_json(&self) -> Value {
        let mut object = json!({ "dst": self.destination.to_string() });
        if let Some(gateway) = self.gateway {
            object["gw"] = gateway.to_string().into();
        }
        object
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    fn result() -> AddResult {
        AddResult {
            interfaces: vec![Interface {
                name: "eth0".into(),
                mac: "0a:58:0a:00:00:07".into(),
                mtu: Some(1442),
                sandbox: Some("/run/netns/a".into()),
                pci_id: Some("0000:03:00.2".into()),
            }],
            ips: vec![IpConfig {
                interface: 0,
                address: "10.0.0.7/24".parse().unwrap(),
                gateway: Some("10.0.0.1".parse().unwrap()),
            }],
            routes: vec![Route { destination: "0.0.0.0/0".parse().unwrap(), gateway: None }],
        }
    }

    #[test]
    fn each_version_has_its_own_fields() {
        let old = result().to_json(Version::V0_3_1, None);
        assert_eq!(old["ips"][0]["version"], "4");
        assert_eq!(old["interfaces"][0]["mtu"], Value::Null);
        assert_eq!(old["interfaces"][0]["pciID"], Value::Null);
        let new = result().to_json(Version::V1_1_0, None);
        assert_eq!(new["ips"][0], json!({"address": "10.0.0.7/24", "gateway": "10.0.0.1", "interface": 0}));
        assert_eq!(new["interfaces"][0]["mtu"], 1442);
        assert_eq!(new["interfaces"][0]["pciID"], "0000:03:00.2");
        assert_eq!(new["cniVersion"], "1.1.0");
    }

    #[test]
    fn the_result_of_previous_plugins_is_kept() {
        let previous = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "eth0"}, {"name": "veth1"}],
            "ips": [{"address": "192.168.0.2/24", "interface": 0}], "dns": {"nameservers": ["10.96.0.10"]}});
        let merged = result().to_json(Version::V1_0_0, Some(&previous));
        assert_eq!(merged["interfaces"].as_array().unwrap().len(), 3);
        assert_eq!(merged["ips"][1]["interface"], 2);
        assert_eq!(merged["dns"]["nameservers"][0], "10.96.0.10");
    }
}
