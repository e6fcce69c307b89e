//! OVN: the central part, and nodes that carry traffic between pods.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use portolan_testbed::{Database, Node, OvnCentral, Underlay, VethGuest};

#[test]
fn northd_translates_what_is_written_to_the_northbound_database() {
    portolan_testbed::test(async |lab| {
        let central = OvnCentral::builder().start(&lab).unwrap();
        central.nbctl(&["--wait=sb", "ls-add", "harbour"]).unwrap();
        let datapaths =
            central.sbctl(&["--bare", "--columns=external_ids", "list", "Datapath_Binding"]).unwrap();
        assert!(datapaths.contains("name=harbour"), "{datapaths}");
        assert_eq!(central.northd_control("status", &[]).unwrap().trim(), "Status: active");
    });
}

#[test]
fn central_on_raft_survives_the_death_of_a_follower_of_each_database() {
    portolan_testbed::test(async |lab| {
        let central = OvnCentral::builder().raft().start(&lab).unwrap();
        central.nbctl(&["--wait=sb", "ls-add", "harbour"]).unwrap();
        for database in [central.nb(), central.sb()] {
            let Database::Raft(cluster) = database else { panic!("{database:?} is a cluster") };
            let leader = cluster.leader(Duration::from_secs(10)).unwrap();
            cluster.members()[(leader + 1) % 3].kill().unwrap();
        }
        central.nbctl(&["--wait=sb", "ls-add", "quay"]).unwrap();
        let datapaths =
            central.sbctl(&["--bare", "--columns=external_ids", "list", "Datapath_Binding"]).unwrap();
        assert!(datapaths.contains("name=quay"), "{datapaths}");
    });
}

#[test]
fn pods_on_two_nodes_reach_each_other_through_geneve() {
    portolan_testbed::test(async |lab| {
        let underlay = Underlay::start(&lab).unwrap();
        let central = OvnCentral::builder().start(&lab).unwrap();
        central.nbctl(&["ls-add", "sea"]).unwrap();
        let mut places: Vec<(Node, VethGuest)> = Vec::new();
        for index in 1..=2 {
            let (mac, ip) = (format!("0a:58:0a:00:00:0{index}"), format!("10.0.0.{index}"));
            let port = format!("port{index}");
            let addresses = format!("{mac} {ip}");
            central.nbctl(&["lsp-add", "sea", &port, "--", "lsp-set-addresses", &port, &addresses]).unwrap();
            let node = Node::builder(format!("node{index}")).ovn(&central).start(&underlay).unwrap();
            let pod = VethGuest::new(&node, &format!("pod{index}")).unwrap();
            // Geneve takes 58 bytes of the underlay's packets.
            pod.configure(&mac, &format!("{ip}/24"), Underlay::MTU - 58).unwrap();
            places.push((node, pod));
        }
        for (index, (node, pod)) in places.iter().enumerate() {
            pod.plug(node, &format!("port{}", index + 1)).unwrap();
        }
        central.nbctl(&["--wait=hv", "sync"]).unwrap();
        let (pod1, pod2) = (&places[0].1, &places[1].1);

        // The largest packet that fits passes whole; one byte more does not leave. The first ones of a tunnel are lost while
        // the datapath looks for its far end's MAC: ping until one is answered.
        let ping = |size: &str| {
            let ping = pod1.command("ping").args(["-c1", "-w10", "-i0.05", "-Mdo", "-s", size, "10.0.0.2"]);
            ping.output().unwrap().status
        };
        assert!(ping("1414").success());
        let too_large = pod1.command("ping").args(["-c1", "-W1", "-Mdo", "-s1415", "10.0.0.2"]).read();
        assert!(too_large.unwrap_err().to_string().contains("message too long"));

        const LENGTH: u64 = 4 << 20;
        let listener = pod2.namespace().run(|| TcpListener::bind("10.0.0.2:7000")).unwrap();
        let sender = pod1
            .namespace()
            .spawn_thread("sender", || {
                let mut stream = TcpStream::connect("10.0.0.2:7000").unwrap();
                stream.write_all(&vec![7; usize::try_from(LENGTH).unwrap()]).unwrap();
            })
            .unwrap();
        let (stream, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "10.0.0.1");
        let received = std::io::copy(&mut stream.take(LENGTH + 1), &mut std::io::sink()).unwrap();
        assert_eq!(received, LENGTH);
        sender.join().unwrap();

        // It was geneve that carried it.
        let tunnels = places[0].0.vsctl(&["--bare", "--columns=type", "find", "Interface", "type=geneve"]);
        assert_eq!(tunnels.unwrap(), "geneve");
    });
}

#[test]
fn what_a_node_writes_to_its_own_paths_stays_in_the_node() {
    portolan_testbed::test(async |lab| {
        let machine_had_cni = ["/etc/cni", "/opt/cni"].map(|path| Path::new(path).exists());
        let underlay = Underlay::start(&lab).unwrap();
        let node = Node::builder("node1").start(&underlay).unwrap();
        let other = Node::builder("node2").start(&underlay).unwrap();
        for directory in ["/run", "/var/run", "/var/lib", "/var/log", "/etc/cni/net.d", "/opt/cni/bin"] {
            let file = format!("{directory}/portolan-private-{}", std::process::id());
            node.command("touch").arg(&file).read().unwrap();
            assert!(node.file(&file).exists(), "{file} is in the node");
            assert!(!other.file(&file).exists(), "{file} is not in the other node");
            assert!(!Path::new(&file).exists(), "{file} is not on the machine");
        }
        assert_eq!(["/etc/cni", "/opt/cni"].map(|path| Path::new(path).exists()), machine_had_cni);
        assert!(node.file("/etc/passwd").exists(), "the machine's own files are there to read");
        assert!(node.run_directory().join("openvswitch/db.sock").exists());
        assert_eq!(node.command("ovs-vsctl").args(["br-exists", "br-int"]).read().unwrap(), "");
        // A mount of the node does not show on the machine either, and does in what the node starts.
        node.command("mount").args(["-t", "tmpfs", "lab", "/run/netns"]).read().unwrap();
        assert!(!std::fs::read_to_string("/proc/self/mounts").unwrap().contains("lab /run/netns"));
        let seen = node.command("unshare").args(["-m", "--propagation", "slave", "cat", "/proc/self/mounts"]);
        assert!(seen.read().unwrap().contains("lab /run/netns"));
    });
}
