//! Namespaces of tenants on Portolan as the primary network: probes, cluster DNS and Services for pods whose default route leads into a VPC,
//! with two VPCs of one prefix on the same nodes.

use std::time::Duration;

use portolan_testbed::Result;
use portolan_testbed::kubernetes::{Kubernetes, POD_CIDR};

use crate::pods::{self, WEB};
use crate::primary::{get, on_primary};

#[test]
fn pods_of_tenants_have_probes_dns_services_and_a_vpc_of_their_own() {
    on_primary(Duration::from_secs(400), |cluster, _| {
        cluster.start_dns()?;
        cluster.apply(WEB)?;
        for tenant in ["red", "blue"] {
            cluster.apply(&TENANT.replace("TENANT", tenant))?;
            let subnet = format!("subnets.portolan.dev/{tenant}");
            cluster.kubectl(&["wait", "--for=condition=Ready", &subnet, "--timeout=60s"])?;
            cluster.apply(&pod(tenant, "a", "node1", "10.1.0.10"))?;
            cluster.apply(&pod(tenant, "b", "node2", "10.1.0.20"))?;
        }
        pods::client(cluster, "client", "node2")?;
        pods::rolled_out(cluster, "web")?;
        // By the kubelets' probes, over HTTP and TCP.
        for (tenant, name) in PODS {
            let (namespace, pod) = (format!("-n={tenant}"), format!("pod/{tenant}-{name}"));
            cluster.kubectl(&["wait", &namespace, "--for=condition=Ready", &pod, "--timeout=120s"])?;
        }
        for (tenant, name) in PODS {
            // kubectl shows the address that the cluster knows it by, and the annotation all of them.
            let pod = format!("{tenant}-{name}");
            let shown = |path: &str| {
                let output = format!("-o=jsonpath={{{path}}}");
                cluster.kubectl(&["get", "pod", &pod, &format!("-n={tenant}"), &output])
            };
            let address = shown(".status.podIP")?;
            let first = POD_CIDR.split_once(".0.0/").unwrap().0;
            assert!(address.starts_with(first), "{pod}: {address}");
            // It is the agent's to write, off the way of pods.
            let written = "--for=jsonpath={.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status}";
            cluster.kubectl(&[
                "wait",
                &format!("-n={tenant}"),
                written,
                &format!("pod/{pod}"),
                "--timeout=30s",
            ])?;
            let status = shown(".metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status")?;
            assert!(status.contains("\"interface\": \"vpc0\"") && status.contains("10.1.0."), "{status}");

            // Cluster DNS and Services, and by those pods of every other namespace.
            assert!(exec(cluster, tenant, &pod, "web.default/hostname")?.starts_with("web-"), "{pod}");
            assert!(get(cluster, "client", &format!("web.{tenant}/hostname"))?.starts_with(tenant), "{pod}");

            // The other pod of its own tenant, on the other node: both tenants have one of each address.
            let (other, at) = if name == "a" { ("b", "10.1.0.20") } else { ("a", "10.1.0.10") };
            assert_eq!(exec(cluster, tenant, &pod, &format!("{at}/hostname"))?, format!("{tenant}-{other}"));
            let seen = exec(cluster, tenant, &pod, &format!("{at}/clientip"))?;
            let own = if name == "a" { "10.1.0.10:" } else { "10.1.0.20:" };
            assert!(seen.starts_with(own), "{pod} at {at}: {seen}");
        }

        let overlapping = OVERLAPPING.replace("PREFIX", POD_CIDR);
        cluster.apply(&overlapping)?;
        let refused =
            ["wait", "--for=condition=Validated=False", "subnets.portolan.dev/overlapping", "--timeout=60s"];
        cluster.kubectl(&refused)?;

        let restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
        let restarts = cluster.kubectl(&["get", "pods", "-A", "-o", restarts])?;
        assert!(restarts.split(' ').all(|count| count == "0"), "probes pass: {restarts}");

        // A Subnet whose namespaces change touches no pod that runs; new ones are outside.
        let other = r#"{"spec": {"namespaces": ["elsewhere"]}}"#;
        cluster.kubectl(&["patch", "subnets.portolan.dev/red", "--type=merge", "-p", other])?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "subnets.portolan.dev/red", "--timeout=60s"])?;
        assert_eq!(exec(cluster, "red", "red-a", "10.1.0.20/hostname")?, "red-b");
        // It waits for its users when it is deleted.
        cluster.kubectl(&["delete", "subnets.portolan.dev/red", "--wait=false"])?;
        cluster.kubectl(&[
            "wait",
            "--for=condition=Terminating",
            "subnets.portolan.dev/red",
            "--timeout=60s",
        ])?;
        assert_eq!(exec(cluster, "red", "red-a", "10.1.0.20/hostname")?, "red-b");
        cluster.kubectl(&["delete", "pods", "-n=red", "--all"])?;
        cluster.kubectl(&["wait", "--for=delete", "subnets.portolan.dev/red", "--timeout=60s"])?;
        assert_eq!(exec(cluster, "blue", "blue-a", "10.1.0.20/hostname")?, "blue-b");
        Ok(())
    });
}

const PODS: [(&str, &str); 4] = [("red", "a"), ("red", "b"), ("blue", "a"), ("blue", "b")];

/// What a web server answers to a pod.
fn exec(cluster: &Kubernetes, namespace: &str, pod: &str, what: &str) -> Result<String> {
    let curl = ["curl", "-sSm5", &format!("http://{what}")];
    cluster.kubectl_command()?.args(["exec", "-n", namespace, pod, "--"]).args(curl).read()
}

fn pod(tenant: &str, name: &str, node: &str, address: &str) -> String {
    let pod = POD.replace("TENANT", tenant).replace("NAME", name);
    pod.replace("NODE", node).replace("ADDRESS", address)
}

const TENANT: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: TENANT}
---
apiVersion: portolan.dev/v1alpha1
kind: Vpc
metadata: {name: TENANT}
---
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: TENANT}
spec: {vpc: TENANT, cidrBlock: 10.1.0.0/24, namespaces: [TENANT]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: TENANT}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: TENANT-NAME
  namespace: TENANT
  labels: {app: web}
  annotations: {ovn.kubernetes.io/ip_address: ADDRESS}
spec:
  nodeName: NODE
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: agnhost:1
    args: [netexec, --http-port=80]
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 80}, periodSeconds: 1, initialDelaySeconds: 3}
"#;

const OVERLAPPING: &str = r#"
apiVersion: portolan.dev/v1alpha1
kind: Subnet
metadata: {name: overlapping}
spec: {vpc: blue, cidrBlock: PREFIX, namespaces: [default]}
"#;
