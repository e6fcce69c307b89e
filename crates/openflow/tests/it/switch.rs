//! Open vSwitch with its userspace datapath, and guests whose packets make it track connections.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use openflow::{Connection, ConnectionError, Event};
use portolan_testbed::{Node, TestLab, Underlay, VethGuest};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A node whose bridge `br-int` is a switch for tests.
pub(crate) struct Switch {
    // Dropped, and so ended, before the underlay.
    pub(crate) node: Node,
    _underlay: Underlay,
}

impl Switch {
    pub(crate) fn start(lab: &TestLab) -> Switch {
        let underlay = Underlay::start(lab).unwrap();
        let node = Node::builder("switch").start(&underlay).unwrap();
        Switch { node, _underlay: underlay }
    }

    /// Where it takes OpenFlow connections.
    pub(crate) fn socket(&self) -> PathBuf {
        self.node.run_directory().join("openvswitch/br-int.mgmt")
    }

    pub(crate) fn add_flow(&self, flow: &str) {
        self.node.command("ovs-ofctl").args(["add-flow", "br-int", flow]).read().unwrap();
    }

    /// A guest with these addresses on a port of the bridge.
    pub(crate) fn guest(&self, name: &str, mac: &str, addresses: &[&str]) -> VethGuest {
        let guest = VethGuest::new(&self.node, name).unwrap();
        for address in addresses {
            guest.configure(mac, address, 1400).unwrap();
        }
        self.node.vsctl(&["add-port", "br-int", guest.node_link()]).unwrap();
        guest
    }

    pub(crate) fn appctl(&self, arguments: &[&str]) -> String {
        let command = self.node.command("ovs-appctl").arg("--target=/run/openvswitch/ovs-vswitchd.ctl");
        command.args(arguments).read().unwrap()
    }

    /// The connections that it tracks of a protocol, as it shows them.
    pub(crate) fn tracked(&self, protocol: &str) -> BTreeSet<String> {
        let all = self.appctl(&["dpctl/dump-conntrack"]);
        let is_it = |line: &&str| line.split(',').next() == Some(protocol);
        all.lines().filter(is_it).map(str::to_owned).collect()
    }
}

/// Sends a datagram and waits until `to` has it: by then the switch tracks the connection.
pub(crate) fn send(from: (&VethGuest, SocketAddr), to: (&VethGuest, SocketAddr), addressed_to: SocketAddr) {
    let (receiver, address) = to;
    let receiver = receiver.namespace().run(move || UdpSocket::bind(address)).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let (sender, address) = from;
    let sender = sender.namespace().run(move || UdpSocket::bind(address)).unwrap();
    sender.send_to(b"packet", addressed_to).unwrap();
    assert_eq!(receiver.recv(&mut [0; 16]).unwrap(), 6);
}

pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)
}

/// A connection that a test drives by itself.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    stream: UnixStream,
}

impl Peer {
    pub(crate) fn connect(switch: &Switch) -> Peer {
        let stream = UnixStream::connect(switch.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { connection: Connection::new(), stream }
    }

    pub(crate) fn write(&mut self) {
        let output = self.connection.output();
        self.stream.write_all(output).unwrap();
        self.connection.sent(output.len());
    }

    /// Hands the next bytes to the connection, and returns them too.
    pub(crate) fn read(&mut self) -> Result<Vec<u8>, ConnectionError> {
        let mut bytes = vec![0; 4096];
        let count = self.stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "the switch closed the connection");
        bytes.truncate(count);
        self.connection.receive(&bytes).map(|()| bytes)
    }

    pub(crate) fn next_event(&mut self) -> Result<Event, ConnectionError> {
        loop {
            if let Some(event) = self.connection.next_event() {
                return Ok(event);
            }
            self.write();
            self.read()?;
        }
    }
}
