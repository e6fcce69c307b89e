//! How much a guest may receive and send: on one node and between nodes, and while it runs.

use ovn_schema::nb::QoS;
use portolan_testbed::{Pod, Testbed};

use crate::charter::guests::{assert_connected, assert_told, guests, in_a_cluster};

const OBJECTS: &str = include_str!("rates.yaml");
const INGRESS: &str = "meter.default.ovn.kubernetes.io/ingress_rate";
const EGRESS: &str = "meter.default.ovn.kubernetes.io/egress_rate";

#[test]
fn guests_receive_and_send_as_much_as_their_rates_say() {
    in_a_cluster(Testbed::builder().nodes(2), &[OBJECTS], |cluster| {
        let [limited, near, far] = guests(cluster, ["limited", "near", "far"]);
        let northbound = cluster.northbound();
        let rules = move |wanted: usize| {
            northbound.wait_until(move |cache| cache.rows::<QoS>().count() == wanted);
        };
        rules(2);
        for other in [&near, &far] {
            cluster.throughput(other, &limited).settles_at(20);
            cluster.throughput(&limited, other).settles_at(10);
            assert_connected(cluster, &limited, other);
        }
        // A connection finds the rate by itself; and by the other family.
        cluster.throughput(&far, &limited).of_tcp().over_ipv6().settles_at(20);
        cluster.throughput(&limited, &far).of_tcp().over_ipv6().settles_at(10);
        // While it runs: another rate, one that is none, and none.
        annotate(cluster, &limited, &[(INGRESS, "10"), (EGRESS, "1e9")]);
        rules(1);
        let wrong = format!(r#"metadata.annotations[{EGRESS}]: "1e9" is not a rate"#);
        assert_told(cluster, "default", "limited", "NoEffect", &[&wrong, "from 1 to 4294967"]);
        cluster.throughput(&far, &limited).settles_at(10);
        cluster.throughput(&limited, &far).exceeds(30);
        cluster
            .kubectl()
            .unwrap()
            .args(["annotate", "pod", "limited", &format!("{INGRESS}-")])
            .read()
            .unwrap();
        rules(0);
        cluster.throughput(&far, &limited).exceeds(30);
        assert_connected(cluster, &limited, &far);
    });
}

fn annotate(cluster: &Testbed, guest: &Pod, annotations: &[(&str, &str)]) {
    let pairs = annotations.iter().map(|(key, value)| format!("{key}={value}"));
    let words = ["annotate", "--overwrite", "pod", guest.name()].map(str::to_owned);
    cluster.kubectl().unwrap().args(words.into_iter().chain(pairs)).read().unwrap();
}
