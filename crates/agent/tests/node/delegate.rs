//! Called by Multus, once per network attachment definition.

use std::time::Duration;

use portolan_testbed::Test;
use serde_json::{Value, json};

use crate::chained::first_interface;
use crate::stage::{Agents, Runtime, Stage, blocking, made_on};

/// What Multus passes in `CNI_ARGS`: its own pairs, then the kubelet's again.
fn multus_args(pod: &str, container: &str, uid: &str) -> String {
    format!(
        "IgnoreUnknown=true;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_INFRA_CONTAINER_ID={container};K8S_POD_UID={uid};\
         IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_INFRA_CONTAINER_ID={container};K8S_POD_UID={uid}"
    )
}

/// What Multus writes to a plugin: the definition's configuration, with the definition's name if it has none, and what the runtime
/// passes for capabilities that it declares.
fn multus_stdin(name: &str, config: &Value) -> String {
    let mut stdin = config.clone();
    if stdin.get("name").is_none() {
        stdin["name"] = name.into();
    }
    stdin.to_string()
}

fn names(result: &Value) -> Vec<&str> {
    let interfaces = result["interfaces"].as_array().unwrap().iter().filter(|one| one["sandbox"].is_string());
    interfaces.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn multus_calls_for_every_type_make_what_the_pod_asks_for() {
    Test::new().deadline(Duration::from_secs(240)).run(async |lab| {
        blocking(move || {
            let stage = Stage::start(&lab, 1, Agents::default());
            let node = &stage.testbed.nodes()[0];
            for (name, cidr) in [("blue", "10.1.0.0/24"), ("red", "10.2.0.0/24")] {
                stage.subnet(name, cidr, "aegean", Some(&format!("{name}.default.ovn")));
            }
            let blue = json!({ "cniVersion": "0.3.1", "type": "kube-ovn", "server_socket": "/run/openvswitch/kube-ovn-daemon.sock",
                "provider": "blue.default.ovn" });
            let red = json!({ "cniVersion": "1.0.0", "name": "crimson", "type": "portolan",
                "capabilities": { "ips": true, "mac": true },
                "runtimeConfig": { "ips": ["10.2.0.7/24"], "mac": "0a:58:0a:02:00:07" },
                "args": { "cni": { "ips": ["10.2.0.7/24"] } } });
            let nfn = json!({ "cniVersion": "0.3.1", "name": "ovn4nfv-k8s-plugin", "type": "ovn4nfvk8s-cni" });
            for (name, config) in [("blue", &blue), ("red", &red), ("nfn", &nfn)] {
                stage.nad(name, &config.to_string());
            }

            // One call per definition.
            let uid = stage.pod_with("argo", "node1", &json!({ "k8s.v1.cni.cncf.io/networks": "blue,red" }));
            let interfaces: [(&str, &str, &[&str]); 2] = [("blue", "net1", &["10.1.0.7"]), ("red", "net2", &["10.2.0.7"])];
            let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
            stage.assign_all("argo", &uid, ("node1", "aegean"), &interfaces, &decided);
            let netns = first_interface(node, "argo");
            let argo = Runtime { args: multus_args("argo", "cafe01", &uid), ..Runtime::new(node, "cafe01", "argo", &uid, &netns) };
            let calls = [("net1", "blue", &blue, "0.3.1"), ("net2", "red", &red, "1.0.0")];
            for (interface, name, config, version) in calls {
                let one = Runtime { interface: interface.into(), ..argo.clone() };
                let (code, result) = one.call_exactly("ADD", &multus_stdin(name, config));
                assert_eq!((code, names(&result)), (0, vec![interface]), "{result}");
                assert_eq!(result["cniVersion"], version);
                assert_eq!(result["ips"][0]["version"].is_string(), version == "0.3.1", "{result}");
            }
            for (interface, name, config, _) in calls {
                let one = Runtime { interface: interface.into(), ..argo.clone() };
                assert_eq!(one.call_exactly("DEL", &multus_stdin(name, config)).0, 0);
            }
            assert_eq!(made_on(node), Vec::<String>::new());

            // OVN4NFV's definition makes no interface of its own: the call is for net1, and the annotation asks for others.
            let asks = json!({ "type": "ovn4nfv", "interface": [{ "name": "blue", "interface": "net2" },
                { "name": "red", "interface": "net3", "defaultGateway": "true" }] });
            let annotations = json!({ "k8s.v1.cni.cncf.io/networks": "nfn", "k8s.plugin.opnfv.org/nfn-network": asks.to_string() });
            let uid = stage.pod_with("ikaros", "node1", &annotations);
            let interfaces: [(&str, &str, &[&str]); 2] = [("blue", "net2", &["10.1.0.8"]), ("red", "net3", &["10.2.0.8"])];
            let decided = interfaces.map(|(_, interface, addresses)| (interface, addresses));
            stage.assign_all("ikaros", &uid, ("node1", "aegean"), &interfaces, &decided);
            let netns = first_interface(node, "ikaros");
            let ikaros = Runtime::new(node, "cafe02", "ikaros", &uid, &netns);
            let ikaros = Runtime { interface: "net1".into(), args: multus_args("ikaros", "cafe02", &uid), ..ikaros };
            let (code, result) = ikaros.call_exactly("ADD", &multus_stdin("nfn", &nfn));
            assert_eq!((code, names(&result)), (0, vec!["net2", "net3"]), "{result}");
            let way = netns.command("ip").args(["route", "get", "192.0.2.1"]).read().unwrap();
            assert!(way.contains("dev net3"), "{way}");
            let mut check = nfn.clone();
            check["cniVersion"] = "0.4.0".into();
            check["prevResult"] = result;
            assert_eq!(ikaros.call_exactly("CHECK", &check.to_string()).0, 0);
            assert_eq!(ikaros.call_exactly("DEL", &multus_stdin("nfn", &nfn)).0, 0);
            assert_eq!(made_on(node), Vec::<String>::new());

            // A definition may name one of the networks; one that the pod does not ask for is refused by name.
            let mut only = nfn.clone();
            only["nfn-network"] = "red".into();
            let (code, result) = ikaros.call_exactly("ADD", &multus_stdin("nfn", &only));
            assert_eq!((code, names(&result)), (0, vec!["net3"]), "{result}");
            assert_eq!(ikaros.call_exactly("DEL", &multus_stdin("nfn", &only)).0, 0);
            only["nfn-network"] = "sea".into();
            let (code, said) = ikaros.call_exactly("ADD", &multus_stdin("nfn", &only));
            assert_eq!((code, &said["code"]), (1, &json!(7)), "{said}");
            assert!(said["msg"].as_str().unwrap().contains("asks for no interface on network sea"), "{said}");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}
