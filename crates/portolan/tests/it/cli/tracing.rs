//! `portolan trace` is right about what really happens.

use portolan_testbed::Pod;
use serde_json::Value;

use crate::cli::{Harbour, in_a_harbour};

impl Harbour {
    /// Traces with direct access to OVN; returns the exit code and the status.
    #[track_caller]
    pub(crate) fn trace(&self, arguments: &[&str]) -> (i32, Value) {
        let central = self.cluster.central();
        let (nb, sb) = (central.nb().endpoint(), central.sb().endpoint());
        let direct = ["trace", "-o", "json", "--ovn-nb", &nb, "--ovn-sb", &sb];
        let output = self.run(&[&direct, arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        let trace: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {message}"));
        (output.status.code().unwrap(), trace["status"].clone())
    }

    /// A ping gets through, and the trace has it so, by this path.
    #[track_caller]
    fn reaches(&self, from: &Pod, to: &Pod, path: &[&str]) {
        self.cluster.ping(from, to).succeeds();
        let (code, status) = self.trace(&[from.name(), to.name()]);
        assert_eq!((code, &status["verdict"]), (0, &"Reachable".into()), "{status:#}");
        assert_eq!(hops(&status["forward"]), path, "{status:#}");
    }

    /// A ping does not get through, and the trace has the cause: reason, message and object.
    #[track_caller]
    fn does_not_reach(&self, from: &Pod, to: &Pod, reason: &str, message: &str, object: Option<&str>) {
        match reason {
            "PodHasNoRoute" => self.cluster.ping(from, to).has_no_route(),
            _ => self.cluster.ping(from, to).is_unanswered(),
        }
        let (code, status) = self.trace(&[from.name(), to.name()]);
        assert_eq!((code, &status["verdict"]), (1, &"NotReachable".into()), "{status:#}");
        let leg = if status["reply"].is_null() { &status["forward"] } else { &status["reply"] };
        let cause = &leg["cause"];
        assert_eq!((&cause["reason"], &cause["message"]), (&reason.into(), &message.into()), "{status:#}");
        let named = cause["object"]["kind"].as_str().zip(cause["object"]["name"].as_str());
        assert_eq!(named.map(|(kind, name)| format!("{kind} {name}")).as_deref(), object, "{status:#}");
    }
}

/// What a packet passes, without addresses.
fn hops(leg: &Value) -> Vec<String> {
    let text = |hop: &Value| match hop["kind"].as_str().unwrap() {
        kind @ ("peering" | "tunnel") => {
            format!("{kind} {} → {}", hop["from"].as_str().unwrap(), hop["to"].as_str().unwrap())
        }
        kind => format!("{kind} {}", hop["name"].as_str().unwrap()),
    };
    leg["path"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn the_path_is_the_one_that_pings_take() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        let near = harbour.pod("near", "node1", "web", "10.0.0.1");
        let b = harbour.pod("b", "node2", "web", "10.0.0.1");
        let c = harbour.pod("c", "node2", "db", "10.0.1.1");
        let d = harbour.pod("d", "node2", "far", "10.9.0.1");
        harbour.reaches(&a, &near, &["pod a", "switch web", "pod near"]);
        harbour.reaches(&a, &b, &["pod a", "switch web", "tunnel node1 → node2", "pod b"]);
        let routed = ["pod a", "switch web", "router blue", "switch db", "tunnel node1 → node2", "pod c"];
        harbour.reaches(&a, &c, &routed);
        let peered = [
            "pod a",
            "switch web",
            "router blue",
            "peering blue → green",
            "router green",
            "switch far",
            "tunnel node1 → node2",
            "pod d",
        ];
        harbour.reaches(&a, &d, &peered);

        // TCP, by name of namespace and network, and with a policy route for one port.
        assert_eq!(harbour.trace(&["default/a", "default/c", "--port", "80", "--network", "db"]).0, 0);
        let (code, status) = harbour.trace(&["a", "c", "--port", "23"]);
        assert_eq!(code, 1, "{status:#}");
        let cause = &status["forward"]["cause"];
        let message = "router blue drops it by policy route 100 (ip4.src == 10.0.0.0/24 && tcp.dst == 23)";
        assert_eq!(cause["message"], message, "{status:#}");
        assert_eq!(
            (&cause["object"]["name"], &cause["object"]["field"]),
            (&"blue".into(), &"spec.policyRoutes".into())
        );
        assert_eq!(harbour.trace(&["a", "c", "--port", "23", "--protocol", "udp"]).0, 0);
        // The rule that leads to the peer is named, with the object that has it.
        let (_, status) = harbour.trace(&["a", "d"]);
        let rules = &status["forward"]["path"][2]["rules"];
        assert_eq!(rules[0]["text"], "static route 10.9.0.0/24 via 169.254.0.2", "{status:#}");
        assert_eq!(
            (&rules[0]["object"]["kind"], &rules[0]["object"]["name"]),
            (&"Vpc".into(), &"blue".into())
        );
        let encapsulation = status["forward"]["path"][6]["encapsulation"].as_str().unwrap();
        assert!(encapsulation.starts_with("geneve 172."), "{encapsulation}");
        // To addresses: of a pod, of the gateway, of nothing.
        let (code, status) = harbour.trace(&["a", &c.address().to_string()]);
        assert_eq!((code, &status["reply"]["arrives"]), (0, &true.into()), "{status:#}");
        let (code, status) = harbour.trace(&["a", "10.0.0.1"]);
        assert_eq!(code, 0, "{status:#}");
        assert_eq!(
            status["forward"]["notes"][0], "router blue itself has 10.0.0.1 and answers",
            "{status:#}"
        );
        let (code, status) = harbour.trace(&["a", "10.0.1.250"]);
        assert_eq!((code, &status["forward"]["cause"]["reason"]), (1, &"NoNeighbour".into()), "{status:#}");
    });
}

#[test]
fn the_cause_is_the_one_that_stops_pings() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        let c = harbour.pod("c", "node2", "db", "10.0.1.1");
        let d = harbour.pod("d", "node1", "far", "10.9.0.1");
        let own = harbour.pod("own", "node1", "own", "10.5.0.1");
        let own2 = harbour.pod("own2", "node2", "own2", "10.5.1.1");
        let mute = harbour.cluster.pod("mute").on("node2").nad("web").start().unwrap();
        let barred = harbour.cluster.pod("barred").on("node1").nad("web");
        let barred =
            barred.with("default-route", vec!["10.0.0.1"]).with("ips", vec!["10.0.0.66"]).start().unwrap();

        let no_route = format!("router blue has no route to {}", own.address());
        harbour.does_not_reach(&a, &own, "NoRoute", &no_route, None);
        // The packet arrives, its reply does not.
        let no_route = format!("router green has no route to {}", c.address());
        harbour.does_not_reach(&c, &d, "NoRoute", &no_route, None);
        let drop =
            "router blue drops it by policy route 200 (ip4.src == 10.0.0.66 && ip4.dst == 10.0.1.0/24)";
        harbour.does_not_reach(&barred, &c, "PolicyRoute", drop, Some("Vpc blue"));
        let no_route = format!("pod default/mute has no route to {} by Portolan's interfaces", c.address());
        harbour.does_not_reach(&mute, &c, "PodHasNoRoute", &no_route, None);
        let private = format!("switch own is private and does not admit {}", own2.address());
        harbour.does_not_reach(&own2, &own, "Acl", &private, Some("Subnet own"));
        let way = ["pod own", "switch own", "router red", "switch own2", "tunnel node1 → node2", "pod own2"];
        harbour.reaches(&own, &own2, &way);
    });
}

#[test]
fn a_difference_between_objects_and_ovn_is_reported() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        let c = harbour.pod("c", "node2", "db", "10.0.1.1");
        harbour.cluster.ping(&a, &c).succeeds();
        harbour.cluster.component("controller").unwrap().kill().unwrap();
        let nbctl = |arguments: &[&str]| {
            harbour.cluster.central().nbctl(&[&["--wait=sb"], arguments].concat()).unwrap()
        };

        // Somebody adds a rule that no object asks for. The end would be the same as that of a policy route of the Vpc, and the
        // cause is not.
        nbctl(&["lr-policy-add", "vpc:blue", "500", "ip4.dst == 10.0.1.0/24", "drop"]);
        let (code, status) = harbour.trace(&["a", "c", "--port", "23"]);
        assert_eq!((code, &status["verdict"]), (6, &"Disagreement".into()), "{status:#}");
        assert_eq!(status["forward"]["arrives"], false, "{status:#}");
        let differences = &status["forward"]["differences"];
        let foreign = "OVN applies policy route 500 (ip4.dst == 10.0.1.0/24) drops, which no object asks for";
        assert_eq!(differences[0]["message"], foreign, "{status:#}");
        nbctl(&["lr-policy-del", "vpc:blue", "500", "ip4.dst == 10.0.1.0/24"]);
        assert_eq!(harbour.trace(&["a", "c"]).0, 0);

        // Somebody takes a rule away: traffic passes that the objects do not let pass.
        nbctl(&["lr-policy-del", "vpc:blue", "100"]);
        let (code, status) = harbour.trace(&["a", "c", "--port", "23"]);
        assert_eq!((code, &status["forward"]["arrives"]), (6, &true.into()), "{status:#}");
        let message = status["forward"]["differences"][0]["message"].as_str().unwrap();
        assert_eq!(
            message, "OVN lacks policy route 100 (ip4.src == 10.0.0.0/24 && tcp.dst == 23) drops of Vpc blue",
            "{status:#}"
        );

        // Somebody takes the router's port away.
        nbctl(&["lrp-del", "vpc:blue/subnet:db"]);
        let (code, status) = harbour.trace(&["a", "c"]);
        assert_eq!((code, &status["verdict"]), (6, &"Disagreement".into()), "{status:#}");
        assert_eq!(
            status["forward"]["cause"]["message"],
            format!("router blue has no route to {}", c.address())
        );
        let messages: Vec<_> =
            status["forward"]["differences"].as_array().unwrap().iter().map(|one| &one["message"]).collect();
        assert!(
            messages.contains(&&"OVN lacks router port vpc:blue/subnet:db of Subnet db".into()),
            "{messages:?}"
        );

        let port = format!("port:default/c/net1/{}", &harbour.uid("c")[..8]);
        nbctl(&["lsp-del", &port]);
        let (code, status) = harbour.trace(&["a", "c"]);
        assert_eq!(code, 6, "{status:#}");
        let message = "OVN has no port for pod default/c: the controller or ovn-northd has not made it";
        assert_eq!(status["forward"]["differences"][0]["message"], message, "{status:#}");
    });
}

impl Harbour {
    fn uid(&self, pod: &str) -> String {
        self.kubectl(&["get", "pod", pod, "--output=jsonpath={.metadata.uid}"])
    }
}

#[test]
fn direct_access_compares_with_the_mtu_that_it_is_told() {
    in_a_harbour(|harbour| {
        let lan = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "portolan.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "lan"},
             "spec": {"cidrBlock": "10.88.0.0/24", "provider": "lan.default.ovn", "enableDHCP": true}},
            {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
             "metadata": {"name": "lan", "namespace": "default"},
             "spec": {"config": "{\"cniVersion\": \"0.3.1\", \"type\": \"kube-ovn\", \"provider\": \"lan.default.ovn\"}"}}]}"#;
        harbour.cluster.apply(lan).unwrap();
        let a = harbour.cluster.pod("a").on("node1").nad("lan").start().unwrap();
        let b = harbour.cluster.pod("b").on("node2").nad("lan").start().unwrap();
        harbour.cluster.ping(&a, &b).succeeds();
        assert_eq!(harbour.trace(&["a", "b"]).0, 0);
        // As if the controller had been given another: what OVN tells guests by DHCP is then not what it should be.
        let (code, status) = harbour.trace(&["a", "b", "--mtu", "8900"]);
        assert_eq!((code, &status["verdict"]), (6, &"Disagreement".into()), "{status:#}");
    });
}
