//! Services on a real API server. The test plays the part of kube-controller-manager, which makes EndpointSlices.

use crate::cli::{Harbour, in_a_harbour, watch};

const SERVICE: &str = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "labels": {"tier": "front"}},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}"#;

/// The endpoints of the Service; the second is ready or not.
fn slice(is_ready: &str) -> String {
    let endpoint = |address: &str, node: &str, ready: &str| {
        format!(r#"{{"addresses": ["{address}"], "nodeName": "{node}", "conditions": {{"ready": {ready}}}}}"#)
    };
    let endpoints =
        [endpoint("10.1.0.1", "node1", "true"), endpoint("10.1.0.2", "node2", is_ready)].join(",");
    format!(
        r#"{{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {{"name": "web-1", "namespace": "default", "labels": {{"kubernetes.io/service-name": "web"}}}},
        "ports": [{{"name": "http", "port": 8080}}], "endpoints": [{endpoints}]}}"#
    )
}

fn words<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
    let found = text.lines().find(|line| line.trim_start().starts_with(begins));
    found.unwrap_or_else(|| panic!("no {begins} in {text}")).split_whitespace().collect()
}

fn endpoints(harbour: &Harbour) -> String {
    let table = harbour.says(&["get", "services"]);
    let row = words(&table, "web");
    assert_eq!((row[1], row[3]), ("ClusterIP", "80/TCP"), "{table}");
    row[4..].join(" ")
}

#[test]
fn services_show_which_of_their_endpoints_get_traffic() {
    in_a_harbour(|harbour| {
        harbour.cluster.apply(SERVICE).unwrap();
        assert_eq!(endpoints(harbour), "0/0 no (NoEndpointSlice)");
        let text = harbour.says(&["describe", "service", "web"]);
        assert!(text.contains("has the label kubernetes.io/service-name=web"), "{text}");

        harbour.cluster.apply(&slice("false")).unwrap();
        assert_eq!(endpoints(harbour), "1/2 yes");
        for name in ["web", "default/web"] {
            let text = harbour.says(&["describe", "svc", name]);
            assert_eq!(words(&text, "10.1.0.1:8080"), ["10.1.0.1:8080", "-", "node1", "-", "yes"]);
            assert_eq!(words(&text, "10.1.0.2:8080")[4..], ["no:", "not", "ready"]);
            assert!(text.contains("Events:\n  none"), "{text}");
        }
        assert_eq!(harbour.says(&["get", "svc", "web", "-o", "name"]), "default/web\n");
        assert!(harbour.says(&["get", "services", "-A", "-o", "name"]).contains("default/web\n"));
        assert_eq!(harbour.says(&["get", "services", "-l", "tier=front", "-o", "name"]), "default/web\n");
        assert!(harbour.says(&["get", "service", "web", "-o", "yaml"]).contains("serving: 1"));
        assert_eq!(harbour.says(&["get", "services", "-n", "nowhere"]), "");

        let (mut running, mut lines) = watch(harbour, &["services", "web"]);
        assert_eq!(lines.next().as_deref(), Some("default/web"));
        harbour.cluster.apply(&slice("true")).unwrap();
        assert_eq!(lines.next().as_deref(), Some("default/web"), "its endpoints have changed");
        assert_eq!(endpoints(harbour), "2/2 yes");
        running.kill().unwrap();
        running.wait().unwrap();

        for (arguments, code, message) in [
            (&["get", "services", "wbe"][..], 3, "service \"wbe\" does not exist; did you mean "),
            (&["describe", "service", "wbe"], 3, "service \"default/wbe\" does not exist; did you mean web?"),
            (&["describe", "service", "web", "-n", "defaults"], 3, "did you mean default/web?"),
            (
                &["describe", "service", "wbe", "-n", "defaults"],
                3,
                "namespace \"defaults\" has no Services; did you mean default?",
            ),
            (&["describe", "service", "a/b/c"], 2, "\"a/b/c\" is no Service; write NAME or NAMESPACE/NAME"),
            (&["describe", "service", "/web"], 2, "\"/web\" is no Service"),
        ] {
            let (refused, said) = harbour.refuses(arguments);
            assert!(refused == code && said.contains(message), "{arguments:?}: {refused}: {said}");
        }
    });
}
