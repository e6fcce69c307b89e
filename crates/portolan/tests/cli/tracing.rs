//! `portolan trace` says what really happens.

use portolan_testbed::Pod;
use serde_json::Value;

use crate::{Harbour, in_a_harbour};

impl Harbour {
    /// Traces, and returns the exit code with what was found.
    #[track_caller]
    pub(crate) fn trace(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.run(&[&["trace", "-o", "json"], arguments].concat());
        let said = serde_json::from_slice(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), said.unwrap_or_else(|_| panic!("{arguments:?}: {complaint}")))
    }

    /// A ping gets through, and the trace says so, by this way.
    #[track_caller]
    fn reaches(&self, from: &Pod, to: &Pod, way: &[&str]) {
        self.cluster.ping(from, to).succeeds();
        let (code, trace) = self.trace(&[from.name(), to.name()]);
        assert_eq!((code, &trace["verdict"]), (0, &"reachable".into()), "{trace:#}");
        assert_eq!(texts(&trace["there"]), way, "{trace:#}");
        for leg in ["there", "back"] {
            assert_eq!(trace[leg]["ovn"]["agrees"], true, "{trace:#}");
        }
    }

    /// A ping does not get through, and the trace says why; OVN agrees, if it was asked.
    #[track_caller]
    fn does_not_reach(&self, from: &Pod, to: &Pod, why: &str) {
        self.cluster.ping(from, to).is_unanswered();
        let (code, trace) = self.trace(&[from.name(), to.name()]);
        assert_eq!((code, &trace["verdict"]), (1, &"not-reachable".into()), "{trace:#}");
        let leg = if trace["back"].is_null() { &trace["there"] } else { &trace["back"] };
        assert_eq!(leg["model"]["why"], why, "{trace:#}");
        assert_ne!(leg["ovn"]["agrees"], false, "{trace:#}");
    }
}

/// What a packet passes, without addresses.
fn texts(leg: &Value) -> Vec<String> {
    let text = |hop: &Value| hop["text"].as_str().unwrap().split(" (").next().unwrap().to_owned();
    leg["path"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn the_way_is_the_one_that_pings_take() {
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
            "peering blue – green",
            "router green",
            "switch far",
            "tunnel node1 → node2",
            "pod d",
        ];
        harbour.reaches(&a, &d, &peered);

        // TCP, by name of namespace and network, and with a policy route for one port.
        assert_eq!(harbour.trace(&["default/a", "default/c", "--port", "80", "--network", "db"]).0, 0);
        let (code, trace) = harbour.trace(&["a", "c", "--port", "23"]);
        assert_eq!(code, 1, "{trace:#}");
        let why = "router blue drops it by policy route 100 (ip4.src == 10.0.0.0/24 && tcp.dst == 23)";
        assert_eq!(
            (&trace["there"]["model"]["why"], &trace["there"]["ovn"]["how"]),
            (&why.into(), &why.into())
        );
        assert_eq!(harbour.trace(&["a", "c", "--port", "23", "--protocol", "udp"]).0, 0);
    });
}

#[test]
fn where_pings_stop_is_said() {
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
        harbour.does_not_reach(&a, &own, &no_route);
        // The way there is open, the way back is not.
        harbour.does_not_reach(&c, &d, &format!("router green has no route to {}", c.address()));
        let drop =
            "router blue drops it by policy route 200 (ip4.src == 10.0.0.66 && ip4.dst == 10.0.1.0/24)";
        harbour.does_not_reach(&barred, &c, drop);
        harbour.does_not_reach(&mute, &c, &format!("pod mute has no route to {}", c.address()));
        let private = format!("switch own is private and does not let {} in", own2.address());
        harbour.does_not_reach(&own2, &own, &private);
        let way = ["pod own", "switch own", "router red", "switch own2", "tunnel node1 → node2", "pod own2"];
        harbour.reaches(&own, &own2, &way);
    });
}

#[test]
fn a_difference_between_objects_and_ovn_is_said_aloud() {
    in_a_harbour(|harbour| {
        let a = harbour.pod("a", "node1", "web", "10.0.0.1");
        let c = harbour.pod("c", "node2", "db", "10.0.1.1");
        harbour.cluster.ping(&a, &c).succeeds();
        harbour.cluster.component("controller").unwrap().kill().unwrap();
        // Someone takes the router's port away, and nobody is there to put it back.
        harbour.cluster.central().nbctl(&["--wait=sb", "lrp-del", "vpc:blue/subnet:db"]).unwrap();
        let (code, trace) = harbour.trace(&["a", "c"]);
        assert_eq!((code, &trace["verdict"]), (2, &"disagreement".into()), "{trace:#}");
        assert_eq!(trace["there"]["model"]["arrives"], true);
        let output = harbour.run(&["trace", "a", "c"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("MODEL AND OVN DO NOT AGREE"), "{text}");
        assert!(text.contains("its way is switch web → router blue, but router blue has no route"), "{text}");
        assert!(text.contains("What to look at"), "{text}");

        let port = format!("port:default/c/net1/{}", &harbour.uid("c")[..8]);
        harbour.cluster.central().nbctl(&["--wait=sb", "lsp-del", &port]).unwrap();
        let (code, trace) = harbour.trace(&["a", "c"]);
        assert_eq!(code, 2, "{trace:#}");
        let how = "OVN has no port of pod c: the controller or northd has not made it";
        assert_eq!(trace["there"]["ovn"]["how"], how, "{trace:#}");
    });
}

impl Harbour {
    fn uid(&self, pod: &str) -> String {
        let kubectl = self.cluster.kubectl().unwrap();
        kubectl.args(["get", "pod", pod, "--output=jsonpath={.metadata.uid}"]).read().unwrap()
    }
}
