//! The device of a call: a virtual function that is to be the pod's end of the interface that the call names.
//!
//! A call has its configuration from a definition that some user wrote, with what Multus adds. A device is taken only where it must be
//! Multus that named it: of the resource that the definition names, and so the one that the kubelet gave to this pod.

use portolan_api::nad::{NadConfig, RESOURCE_ANNOTATION};
use portolan_cni::{CniError, Code};
use portolan_host::PciAddress;
use portolan_model::doors::pod::{RequestedNetwork, requested_networks};
use serde_json::Value;

use crate::call::{PodArgs, Selection, invalid};
use crate::cluster::Known;

/// The key by which Multus passes it.
const DEVICE: &str = "deviceID";
/// How much of a wrong value an error repeats.
const LONGEST_VALUE: usize = 100;

/// The device that an ADD names. Multus passes it at the top, and in `runtimeConfig`
/// to plugins that declare the capability.
pub(crate) fn named(config: &Value, selection: &Selection) -> Result<Option<PciAddress>, CniError> {
    let (own, of_runtime) =
        (read_device(config, "")?, read_device(&config["runtimeConfig"], "runtimeConfig.")?);
    let device = match (own, of_runtime) {
        (Some(own), Some(other)) if own != other => {
            return Err(invalid(format!(
                "{DEVICE} is {own} and runtimeConfig.{DEVICE} is {other}; they must be the same"
            )));
        }
        (own, of_runtime) => own.or(of_runtime),
    };
    if let Some(device) = device.as_ref().filter(|_| !selection.makes_named()) {
        return Err(invalid(format!(
            "{DEVICE} is {device}, and the configuration makes other interfaces than the one that the call names, which a device is \
             for; give the network a definition of its own"
        )));
    }
    Ok(device)
}

fn read_device(config: &Value, path: &str) -> Result<Option<PciAddress>, CniError> {
    let text = match config.get(DEVICE) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(Value::String(text)) => text,
        Some(_) => {
            return Err(invalid(format!("{path}{DEVICE} must be the address of a PCI device, as text")));
        }
    };
    text.parse().map(Some).map_err(|error| {
        let shown: String = text.chars().take(LONGEST_VALUE).collect();
        invalid(format!("{path}{DEVICE} is {shown:?}: {error}"))
    })
}

/// Whether a pod's interface may be a device.
pub(crate) fn permit(
    device: &PciAddress,
    pod: &PodArgs,
    interface: &str,
    known: &Known,
) -> Result<(), CniError> {
    let refused = |why: String| {
        let msg = format!("{DEVICE}: PCI device {device} cannot be interface {interface} of pod {pod}");
        Err(CniError::new(Code::InvalidConfig, msg, why))
    };
    let asked = known.world.pod(&pod.namespace, &pod.name).map(|pod| requested_networks(pod).interfaces);
    let asked = asked.into_iter().flatten().find(|asked| asked.interface == interface);
    let Some(RequestedNetwork::Nad { namespace, name }) = asked.map(|asked| asked.network) else {
        return refused("the pod asks for this interface by no NetworkAttachmentDefinition".into());
    };
    match known.world.nad(&namespace, &name).map(|nad| &nad.config) {
        Some(Ok(NadConfig::Portolan(nad))) if nad.resource.is_some() => Ok(()),
        Some(Err(errors)) => refused(format!("NetworkAttachmentDefinition {namespace}/{name}: {errors}")),
        _ => refused(format!(
            "NetworkAttachmentDefinition {namespace}/{name} has no annotation {RESOURCE_ANNOTATION}; name in it the resource of the device \
             plugin, and let the pod request one"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use portolan_model::fixtures::{mk_nad_of, mk_pod};
    use portolan_model::{Settings, World};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_device_is_the_address_of_one_and_goes_to_the_interface_that_the_call_names() {
        let device_of =
            |config: Value| named(&config, &Selection::Named).map(|device| device.map(|one| one.to_string()));
        let (one, other) = ("0000:03:00.2", "0000:03:00.3");
        for none in [
            json!({}),
            json!({ "deviceID": "" }),
            json!({ "deviceID": null }),
            json!({ "runtimeConfig": {} }),
        ] {
            assert_eq!(device_of(none), Ok(None));
        }
        for config in [
            json!({ "deviceID": one }),
            json!({ "runtimeConfig": { "deviceID": one } }),
            json!({ "deviceID": one, "runtimeConfig": { "deviceID": one } }),
        ] {
            assert_eq!(device_of(config), Ok(Some(one.to_owned())));
        }
        for (wrong, said) in [
            (
                json!({ "deviceID": one, "runtimeConfig": { "deviceID": other } }),
                "runtimeConfig.deviceID is 0000:03:00.3",
            ),
            (json!({ "deviceID": "../../etc" }), "deviceID is \"../../etc\""),
            (json!({ "deviceID": "0000:0A:00.2" }), "in lower case"),
            (json!({ "deviceID": "03:00.2" }), "deviceID is \"03:00.2\""),
            (json!({ "deviceID": 7 }), "deviceID must be the address of a PCI device"),
            (json!({ "deviceID": [one] }), "deviceID must be the address of a PCI device"),
            (json!({ "runtimeConfig": { "deviceID": {} } }), "runtimeConfig.deviceID must be"),
            (json!({ "deviceID": "0".repeat(1 << 20) }), "deviceID is \"000"),
        ] {
            let error = device_of(wrong).unwrap_err();
            assert_eq!(error.code, Code::InvalidConfig as u32);
            assert!(error.details.contains(said) && error.details.len() < 300, "{error}");
        }
        for selection in [Selection::Further, Selection::Nfn(None)] {
            let error = named(&json!({ "deviceID": one }), &selection).unwrap_err();
            assert!(
                error
                    .details
                    .contains("deviceID is 0000:03:00.2, and the configuration makes other interfaces"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_device_is_only_for_interfaces_of_definitions_that_name_a_resource_and_no_device() {
        let world = World::new(Settings::default());
        let mut known = Known { world, ..Known::default() };
        let pod = PodArgs { namespace: "default".into(), name: "argo".into(), uid: None };
        let one: PciAddress = "0000:03:00.2".parse().unwrap();
        let refusal = |known: &Known, interface: &str| {
            let error = permit(&one, &pod, interface, known).unwrap_err();
            assert_eq!(error.code, Code::InvalidConfig as u32);
            assert!(
                error.msg.starts_with("deviceID: PCI device 0000:03:00.2 cannot be interface"),
                "{error}"
            );
            error.details
        };
        let no_definition = "the pod asks for this interface by no NetworkAttachmentDefinition";
        assert_eq!(refusal(&known, "net1"), no_definition);
        let _ = known.world.apply(&mk_pod("default", "argo", &[("k8s.v1.cni.cncf.io/networks", "fast")]));
        assert_eq!(refusal(&known, "eth0"), no_definition);
        let mut nad = mk_nad_of("default", "fast", r#"{"type":"portolan-cni"}"#);
        for known_nad in [None, Some(&nad)] {
            known_nad.into_iter().for_each(|nad| drop(known.world.apply(nad)));
            let said = refusal(&known, "net1");
            assert!(said.starts_with("NetworkAttachmentDefinition default/fast has no annotation"), "{said}");
        }
        nad.metadata.annotations = Some([(RESOURCE_ANNOTATION.into(), "example.com/vf".into())].into());
        let _ = known.world.apply(&nad);
        assert_eq!(permit(&one, &pod, "net1", &known), Ok(()));
        nad.spec.config = Some(r#"{"type":"portolan-cni","deviceID":"0000:03:00.2"}"#.into());
        let _ = known.world.apply(&nad);
        let said = refusal(&known, "net1");
        assert!(said.contains("default/fast: spec.config.deviceID: is for Multus to pass"), "{said}");
    }
}
