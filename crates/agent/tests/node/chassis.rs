//! The agent makes its node a chassis of OVN, keeps it one, and says on the Node what it found.

use std::time::Duration;

use portolan_testbed::Test;
use serde_json::json;

use crate::stage::{Agents, Runtime, Stage, blocking, made_on, wait_for_ports};

impl Stage {
    /// Waits until the Node has an annotation of Portolan's, with a value if one is given.
    pub(crate) fn wait_for_annotation(&self, name: &str, value: Option<&str>) {
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        let condition = format!("--for=jsonpath={{.metadata.annotations.portolan\\.dev/{name}}}{value}");
        self.kubectl(&["wait", &condition, "--timeout=60s", "node/node1"], "");
    }

    fn annotation(&self, name: &str) -> String {
        let path = format!("-o=jsonpath={{.metadata.annotations.portolan\\.dev/{name}}}");
        self.kubectl(&["get", "node", "node1", &path], "")
    }
}

#[test]
fn a_node_is_a_chassis_and_stays_one_whatever_happens_to_its_open_vswitch() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            stage.stop_agents();
            let node = &stage.testbed.nodes()[0];
            let remote = node.vsctl(&["get", "Open_vSwitch", ".", "external_ids:ovn-remote"]).unwrap();
            stage.settings.chassis.southbound = Some(remote.trim().trim_matches('"').to_owned());
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            let address = node.address().to_string();
            for (name, value) in
                [("chassis", "node1"), ("datapath", "netdev"), ("encap-ip", &address), ("tunnel-mtu", "1442")]
            {
                stage.wait_for_annotation(name, Some(value));
            }
            let uid = stage.pod("argo", "node1");
            stage.assign("argo", &uid, "node1", 7);
            let netns = node.namespace().network_beside("argo").unwrap();
            let argo = Runtime::new(node, "cafe01", "argo", &uid, &netns);
            argo.succeeds("ADD");

            // Somebody changes settings; what the agent does not set stays.
            let set = ["external_ids:ovn-encap-ip=192.0.2.200", "external_ids:other=kept"];
            node.vsctl(&[&["set", "Open_vSwitch", "."], &set[..]].concat()).unwrap();
            node.vsctl(&["remove", "Open_vSwitch", ".", "external_ids", "ovn-encap-type"]).unwrap();
            let encap = format!("external_ids:ovn-encap-ip={address}");
            let wait = ["wait-until", "Open_vSwitch", ".", &encap, "external_ids:ovn-encap-type=geneve"];
            node.vsctl(&wait).unwrap();
            assert_eq!(node.vsctl(&["get", "Open_vSwitch", ".", "external_ids:other"]).unwrap().trim(), "kept");

            // The bridge goes, and ovn-controller, which would make it too, is not there.
            node.ovn_controller().unwrap().kill().unwrap();
            node.vsctl(&["del-br", "br-int"]).unwrap();
            let bridge = ["fail_mode=secure", "datapath_type=netdev", "other_config:disable-in-band=true"];
            node.vsctl(&[&["wait-until", "Bridge", "br-int"], &bridge[..]].concat()).unwrap();
            node.ovn_controller().unwrap().restart().unwrap();
            wait_for_ports(node, 1);
            argo.succeeds("CHECK");

            // The whole database is lost, and with it the bridge that the node's own address is on, which is the machine's business.
            let on_underlay = node.command("ip").args(["-o", "-4", "address", "show", "br-und"]).read().unwrap();
            let on_underlay = on_underlay.split_whitespace().nth(3).unwrap().to_owned();
            node.ovsdb_server().kill().unwrap();
            let anew = "rm /var/lib/openvswitch/conf.db && \
                        ovsdb-tool create /var/lib/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema";
            node.command("sh").args(["-c", anew]).read().unwrap();
            node.ovsdb_server().restart().unwrap();
            let underlay = ["add-br", "br-und", "--", "set", "Bridge", "br-und", "datapath_type=netdev"];
            node.vsctl(&[&underlay[..], &["--", "add-port", "br-und", "eth0"]].concat()).unwrap();
            node.namespace()
                .ip(&format!("address replace {on_underlay} dev br-und\nlink set br-und up"))
                .unwrap();
            wait_for_ports(node, 1);
            argo.succeeds("CHECK");
            node.vsctl(&["wait-until", "Open_vSwitch", ".", &encap, "external_ids:system-id=node1"]).unwrap();
            argo.succeeds("DEL");
            assert_eq!(made_on(node), Vec::<String>::new());
        })
        .await;
    });
}

#[test]
fn tunnels_follow_the_annotation_of_the_node_and_what_is_wrong_is_on_the_node() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        blocking(move || {
            let mut stage = Stage::start(&lab, 1, Agents::default());
            stage.stop_agents();
            // A chassis that somebody named before.
            let node = &stage.testbed.nodes()[0];
            node.ovn_controller().unwrap().stop().unwrap();
            node.vsctl(&["set", "Open_vSwitch", ".", "external_ids:system-id=chassis-7"]).unwrap();
            stage.start_agents();
            let node = &stage.testbed.nodes()[0];
            let address = node.address().to_string();
            stage.wait_for_annotation("chassis", Some("chassis-7"));
            let id = node.vsctl(&["get", "Open_vSwitch", ".", "external_ids:system-id"]).unwrap();
            assert_eq!(id.trim(), "chassis-7");
            assert_eq!(stage.annotation("problem"), "");

            let annotate = |stage: &Stage, interface: &str| {
                let annotation = json!({ "ovn.kubernetes.io/tunnel_interface": interface });
                let patch = json!({ "metadata": { "annotations": annotation } }).to_string();
                stage.kubectl(&["patch", "node", "node1", "--type=merge", "-p", &patch], "");
            };
            annotate(&stage, "tunnels");
            stage.wait_for_annotation("problem", None);
            let problem = stage.annotation("problem");
            assert!(
                problem.contains("tunnel_interface names interface tunnels, which this node does not have"),
                "{problem}"
            );
            let is = node.vsctl(&["get", "Open_vSwitch", ".", "external_ids:ovn-encap-ip"]).unwrap();
            assert_eq!(is.trim().trim_matches('"'), address, "what is set stays");

            // The interface comes, and its MTU is too small for pods.
            node.namespace()
                .ip("link add tunnels type veth peer name elsewhere\nlink set tunnels mtu 1400 up\n\
                     address add 192.0.2.7/24 dev tunnels")
                .unwrap();
            node.vsctl(&["wait-until", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=192.0.2.7"]).unwrap();
            stage.wait_for_annotation("tunnel-mtu", Some("1342"));
            let problem = stage.annotation("problem");
            let words = "pods get an MTU of 1400, but tunnels by tunnels, whose MTU is 1400, leave 1342";
            assert!(problem.contains(words) && problem.contains("--mtu of the controller"), "{problem}");
            let is_off = || {
                let features = node.command("ethtool").args(["-k", "tunnels"]).read().unwrap();
                features.contains("tx-checksumming: off")
            };
            assert!(is_off());
            // Somebody turns it on again: the kernel reports that too.
            node.command("ethtool").args(["-K", "tunnels", "tx", "on"]).read().unwrap();
            std::iter::repeat_with(is_off).find(|is_off| *is_off).unwrap();

            annotate(&stage, "");
            stage.wait_for_annotation("encap-ip", Some(&address));
            assert_eq!(stage.annotation("problem"), "");

            // As the flag has it: an interface, and an address.
            node.namespace().ip("link add more type veth peer name less\nlink set more up\naddress add 198.51.100.8/24 dev more").unwrap();
            let start_with = |stage: &mut Stage, encap: &str| {
                stage.stop_agents();
                stage.settings.chassis.encap = Some(encap.parse().unwrap());
                stage.start_agents();
            };
            start_with(&mut stage, "tunnels");
            stage.wait_for_annotation("encap-ip", Some("192.0.2.7"));
            start_with(&mut stage, "198.51.100.8");
            stage.wait_for_annotation("encap-ip", Some("198.51.100.8"));
            let encap_ip = |stage: &Stage| {
                let get = ["get", "Open_vSwitch", ".", "external_ids:ovn-encap-ip"];
                stage.testbed.nodes()[0].vsctl(&get).unwrap().trim().trim_matches('"').to_owned()
            };
            assert_eq!(encap_ip(&stage), "198.51.100.8");
            // One that the node does not have: what is set stays, and the Node says so.
            start_with(&mut stage, "203.0.113.9");
            stage.wait_for_annotation("problem", None);
            let problem = stage.annotation("problem");
            assert!(problem.contains("--encap") && problem.contains("203.0.113.9"), "{problem}");
            assert_eq!(encap_ip(&stage), "198.51.100.8");
            // The Node's annotation has precedence.
            annotate(&stage, "tunnels");
            stage.wait_for_annotation("encap-ip", Some("192.0.2.7"));
        })
        .await;
    });
}
