//! Services of every kind, with endpoints that get traffic and others that do not.

use serde_json::{Value, json};

use super::Scene;

/// A cluster with two nodes that have no zone, and two that have.
pub(crate) fn market() -> Scene {
    let mut scene = Scene::of(MARKET);
    for zone in ["east", "west"] {
        let metadata = json!({"name": format!("{zone}1"), "labels": {"topology.kubernetes.io/zone": zone}});
        scene.add(json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata}));
    }
    let (ready, not_ready) = (json!({"ready": true}), json!({"ready": false, "serving": false}));
    let terminating = json!({"ready": false, "serving": true, "terminating": true});
    let ended = json!({"ready": false, "serving": false, "terminating": true});
    let http = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
    let both = json!([{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9100, "protocol": "TCP"}]);
    let only = json!([{"name": "", "port": 8080, "protocol": "TCP"}]);
    let on = |address: &str, node: &str, conditions: &Value| endpoint(address, node, conditions);

    let mut stray = on("fd00:1::9", "node1", &ready);
    stray["targetRef"] = Value::Null;
    scene.slice(
        "web-a",
        "web",
        &both,
        &[on("10.1.0.1", "node1", &ready), on("10.1.0.2", "node2", &not_ready)],
    );
    scene.slice(
        "web-b",
        "web",
        &http,
        &[on("10.1.0.3", "node1", &terminating), on("10.1.0.4", "node2", &ended)],
    );
    scene.slice("web-c", "web", &both, &[stray]);

    let mut nowhere = on("10.1.1.4", "", &ready);
    nowhere["nodeName"] = Value::Null;
    let local =
        [("10.1.1.1", "node1", &ready), ("10.1.1.2", "node1", &terminating), ("10.1.1.3", "node9", &ready)];
    let local: Vec<_> =
        local.into_iter().map(|(address, node, conditions)| on(address, node, conditions)).collect();
    scene.slice("local-a", "local", &only, &[&local[..], &[nowhere]].concat());

    scene.slice(
        "shop-a",
        "shop",
        &http,
        &[on("10.1.2.1", "node1", &ready), on("10.1.2.2", "node2", &terminating)],
    );
    scene.slice("old-a", "old", &only, &[on("10.1.3.1", "node1", &ready)]);

    let hinted = |address: &str, node: &str, zone: &str| {
        let mut hinted = on(address, node, &ready);
        hinted["zone"] = json!(zone);
        hinted["hints"] = json!({"forZones": [{"name": zone}]});
        hinted
    };
    let zoned = [hinted("10.1.4.1", "east1", "east"), hinted("10.1.4.2", "west1", "west")];
    scene.slice("zoned-a", "zoned", &only, &zoned);
    let for_nodes = |address: &str, node: &str, nodes: &[&str]| {
        let mut hinted = on(address, node, &ready);
        let nodes: Vec<_> = nodes.iter().map(|name| json!({"name": name})).collect();
        hinted["hints"] = json!({"forNodes": nodes});
        hinted
    };
    let all = for_nodes("10.1.5.1", "node1", &["node1", "node2", "east1", "west1"]);
    scene.slice("stuck-a", "stuck", &only, &[all, for_nodes("10.1.5.2", "node2", &["node9"])]);

    scene.slice("named-a", "named", &http, &[on("10.1.6.1", "node1", &ready)]);
    scene.slice("empty-a", "empty", &only, &[]);
    scene.slice("headless-a", "headless", &only, &[on("10.1.7.1", "node1", &ready)]);
    scene
}

/// An endpoint whose pod is called after the last part of its address.
fn endpoint(address: &str, node: &str, conditions: &Value) -> Value {
    let pod = address.rsplit(['.', ':']).next().map(|last| format!("pod-{last}"));
    json!({"addresses": [address], "nodeName": node, "conditions": conditions, "targetRef": {"kind": "Pod", "name": pod}})
}

impl Scene {
    fn slice(&mut self, name: &str, service: &str, ports: &Value, endpoints: &[Value]) {
        let is_v6 = endpoints.first().is_some_and(|one| one["addresses"][0].to_string().contains(':'));
        let labels = json!({"kubernetes.io/service-name": service});
        self.add(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name, "labels": labels},
            "addressType": if is_v6 { "IPv6" } else { "IPv4" }, "ports": ports, "endpoints": endpoints,
        }));
    }
}

const MARKET: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, labels: {tier: front}}
spec:
  type: ClusterIP
  selector: {app: web}
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  internalTrafficPolicy: Cluster
  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}, {name: metrics, port: 9090, targetPort: scrape, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: local}
spec:
  type: ClusterIP
  selector: {app: local}
  clusterIPs: [10.96.0.2]
  internalTrafficPolicy: Local
  ports: [{port: 53, targetPort: 8080, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  type: LoadBalancer
  selector: {app: shop, tier: front}
  clusterIPs: [10.96.0.3, "fd96::3"]
  externalIPs: [192.0.2.1]
  internalTrafficPolicy: Cluster
  externalTrafficPolicy: Local
  healthCheckNodePort: 32000
  loadBalancerSourceRanges: [203.0.113.0/24]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}
  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP, nodePort: 30080}]
status:
  loadBalancer: {ingress: [{ip: 198.51.100.1}, {ip: 198.51.100.2, ipMode: Proxy}, {hostname: lb.example.com}]}
---
apiVersion: v1
kind: Service
metadata: {name: old, creationTimestamp: "2025-01-01T00:00:00Z"}
spec: {clusterIPs: [10.96.0.4], externalIPs: [192.0.2.1], selector: {app: old}, ports: [{port: 80, targetPort: 8080, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: zoned}
spec: {clusterIPs: [10.96.0.5], trafficDistribution: PreferClose, selector: {app: zoned}, ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: stuck}
spec: {clusterIPs: [10.96.0.6], trafficDistribution: PreferClose, selector: {app: stuck}, ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: named}
spec: {clusterIPs: [10.96.0.7], selector: {app: named}, ports: [{name: https, port: 443, targetPort: tls, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec: {clusterIPs: [10.96.0.8], selector: {app: empty}, ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: unmade}
spec: {clusterIPs: [10.96.0.9], selector: {app: unmade}, ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: manual}
spec: {clusterIPs: [10.96.0.10], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: db}, ports: [{port: 5432, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: db.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: foreign, labels: {service.kubernetes.io/service-proxy-name: mesh}}
spec: {clusterIPs: [10.96.0.11], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: going, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {clusterIPs: [10.96.0.12], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: backoffice}
spec: {clusterIPs: [10.96.0.13], selector: {app: api}, ports: [{port: 80, protocol: TCP}]}
"#;
