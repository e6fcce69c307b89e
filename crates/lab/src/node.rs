//! A node: a machine with Open vSwitch and OVN's controller at the paths they have on a real one.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::command::Command;
use crate::error::Result;
use crate::installed::OPEN_VSWITCH_SCHEMA;
use crate::machine::{LINK, Machine, link_mac};
use crate::namespace::Namespace;
use crate::ovn_central::OvnCentral;
use crate::ovsdb_server::{Layout, OvsdbServer};
use crate::process::{Daemon, Process};
use crate::readiness::Ready;
use crate::underlay::Underlay;

/// For how long an ovn-controller that starts leaves the flows alone that it finds. New ports wait for as long.
const FLOWS_STAY_MS: u32 = 2000;

/// A running node, on a [`Machine`].
#[derive(Debug)]
pub struct Node {
    // Declared, and so dropped, in the order in which the daemons need each other.
    ovn_controller: Option<Process>,
    vswitchd: Process,
    ovsdb_server: OvsdbServer,
    machine: Machine,
}

/// How a node shall be.
#[derive(Debug)]
#[must_use = "no node runs until it is started"]
pub struct NodeBuilder<'a> {
    name: String,
    address: Option<Ipv4Addr>,
    central: Option<&'a OvnCentral>,
    datapath: Datapath,
}

/// Who forwards packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Datapath {
    /// ovs-vswitchd itself, which every kernel can do.
    #[default]
    Netdev,
    /// The kernel, which must have Open vSwitch and geneve.
    System,
}

impl Datapath {
    /// As Open vSwitch names it.
    fn name(self) -> &'static str {
        match self {
            Datapath::Netdev => "netdev",
            Datapath::System => "system",
        }
    }
}

impl Node {
    /// A node of this name, which must be unique in the lab, with Open vSwitch and without OVN.
    pub fn builder<'a>(name: impl Into<String>) -> NodeBuilder<'a> {
        NodeBuilder { name: name.into(), address: None, central: None, datapath: Datapath::default() }
    }

    /// Its name, which is also that of its chassis.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Its address on the underlay.
    pub fn address(&self) -> Ipv4Addr {
        self.machine.address()
    }

    /// The machine it is.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its namespaces.
    pub fn namespace(&self) -> &Namespace {
        self.machine.namespace()
    }

    /// A command to run on the node.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.machine.command(program)
    }

    /// Runs ovs-vsctl on the node, and waits as it does until ovs-vswitchd has done what was asked.
    pub fn vsctl(&self, arguments: &[&str]) -> Result<String> {
        vsctl(self.namespace(), arguments)
    }

    /// The node's `/run` as seen from outside: Unix sockets in it can be connected to from anywhere.
    pub fn run_directory(&self) -> &Path {
        self.machine.run_directory()
    }

    /// Any path of the node, as seen from outside.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.machine.file(path)
    }

    /// The node's ovsdb-server, for the database Open_vSwitch.
    pub fn ovsdb_server(&self) -> &OvsdbServer {
        &self.ovsdb_server
    }

    /// ovs-vswitchd. The datapath lives in it: while it is gone, so is all traffic.
    pub fn vswitchd(&self) -> &Process {
        &self.vswitchd
    }

    /// ovn-controller, if the node is part of an OVN.
    pub fn ovn_controller(&self) -> Option<&Process> {
        self.ovn_controller.as_ref()
    }
}

impl<'a> NodeBuilder<'a> {
    /// Makes the node a chassis of this OVN.
    pub fn ovn(mut self, central: &'a OvnCentral) -> Self {
        self.central = Some(central);
        self
    }

    /// Gives it this address, which is one of [`Underlay::node_address`]: for nodes that are started at the same time and are
    /// to have their addresses in order. Without this it takes the next.
    pub fn address(mut self, address: Ipv4Addr) -> Self {
        self.address = Some(address);
        self
    }

    /// Who forwards its packets; ovs-vswitchd unless set.
    pub fn datapath(mut self, datapath: Datapath) -> Self {
        self.datapath = datapath;
        self
    }

    /// Starts it on an underlay. Returns when Open vSwitch works and, with OVN, when the chassis is in the southbound
    /// database.
    pub fn start(self, underlay: &Underlay) -> Result<Node> {
        let machine = Machine::builder(&self.name);
        let machine = match self.address {
            Some(address) => machine.address(address),
            None => machine,
        };
        let machine = machine.start(underlay)?;
        self.start_on(machine, underlay)
    }

    /// Starts Open vSwitch and OVN on a machine that has none yet, or had them before it was switched off.
    pub fn start_on(self, machine: Machine, underlay: &Underlay) -> Result<Node> {
        let (namespace, name, run) = (machine.namespace(), machine.name(), machine.run_directory());
        let ovsdb_server = start_ovsdb_server(&machine)?;
        let vswitchd = start_vswitchd(namespace, name, run)?;
        make_bridges(namespace, machine.address(), self.datapath)
            .map_err(|error| if vswitchd.is_alive() { error } else { vswitchd.not_ready() })?;
        let ovn_controller = match self.central {
            None => None,
            Some(central) => {
                Some(join_ovn(namespace, name, machine.address(), underlay, central, self.datapath)?)
            }
        };
        Ok(Node { ovn_controller, vswitchd, ovsdb_server, machine })
    }
}

fn start_ovsdb_server(machine: &Machine) -> Result<OvsdbServer> {
    let database = Path::new("/var/lib/openvswitch/conf.db");
    // One that was switched off has it.
    if !machine.file(database).exists() {
        machine.command("ovsdb-tool").arg("create").arg(database).arg(OPEN_VSWITCH_SCHEMA).read()?;
    }
    let run = machine.run_directory().join("openvswitch");
    let layout = Layout {
        socket: run.join("db.sock"),
        control: run.join("ovsdb-server.ctl"),
        pidfile: run.join("ovsdb-server.pid"),
        databases: vec![database.into()],
    };
    let server = OvsdbServer::spawn(
        &format!("{}/ovsdb-server", machine.name()),
        machine.namespace(),
        layout,
        None,
        &[],
    )?;
    server.wait_until_ready()?;
    Ok(server)
}

fn start_vswitchd(namespace: &Namespace, node: &str, run: &Path) -> Result<Process> {
    Daemon::new(format!("{node}/ovs-vswitchd"), "ovs-vswitchd")
        .args(["-vsyslog:off", "--pidfile", "--unixctl=/run/openvswitch/ovs-vswitchd.ctl"])
        .arg("unix:/run/openvswitch/db.sock")
        .ready(Ready::Socket(run.join("openvswitch/ovs-vswitchd.ctl")))
        .start(namespace)
}

/// The userspace datapath looks up the way to a tunnel's far end among its own ports: so the underlay's link is a port of a
/// bridge, and the node's address is on that bridge. The kernel's asks the kernel, so there the address is on the link itself.
fn make_bridges(namespace: &Namespace, address: Ipv4Addr, datapath: Datapath) -> Result<()> {
    let datapath_type = format!("datapath_type={}", datapath.name());
    // That of the link, as a bridge on hardware has it: with another at each start, tunnels of other nodes would lead nowhere for as long as
    // they remember the last.
    let mac = format!("other-config:hwaddr=\"{}\"", link_mac(address));
    let integration =
        ["--", "--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", &datapath_type]
            .into_iter()
            .chain(["fail-mode=secure", "other-config:disable-in-band=true"]);
    // Made anew on a machine that was switched off, so that ovs-vsctl waits: for what the database has already, it does not.
    let underlay = ["--", "--if-exists", "del-br", "br-und", "--", "add-br", "br-und"].into_iter().chain([
        "--",
        "set",
        "Bridge",
        "br-und",
        &datapath_type,
        &mac,
        "--",
        "add-port",
        "br-und",
        LINK,
    ]);
    let address = format!("{address}/{}", Underlay::PREFIX_LENGTH);
    match datapath {
        Datapath::Netdev => {
            vsctl(namespace, &underlay.chain(integration).collect::<Vec<_>>())?;
            namespace.checksum_offload_off("br-und")?;
            namespace.ip(&format!("address add {address} dev br-und\nlink set br-und up"))
        }
        Datapath::System => {
            vsctl(namespace, &integration.collect::<Vec<_>>())?;
            namespace.ip(&format!("address add {address} dev {LINK}"))
        }
    }
}

fn join_ovn(
    namespace: &Namespace,
    node: &str,
    address: Ipv4Addr,
    underlay: &Underlay,
    central: &OvnCentral,
    datapath: Datapath,
) -> Result<Process> {
    let remote = central.sb().tcp_endpoint(underlay.home_address().into());
    vsctl(
        namespace,
        &[
            "set",
            "Open_vSwitch",
            ".",
            &format!("external-ids:system-id={node}"),
            &format!("external-ids:hostname={node}"),
            &format!("external-ids:ovn-remote=\"{remote}\""),
            "external-ids:ovn-encap-type=geneve",
            &format!("external-ids:ovn-encap-ip={address}"),
            &format!("external-ids:ovn-bridge-datapath-type={}", datapath.name()),
            // A controller that starts again leaves the flows of the one before until it has computed its own.
            &format!("external-ids:ovn-ofctrl-wait-before-clear={FLOWS_STAY_MS}"),
        ],
    )?;
    let controller = Daemon::new(format!("{node}/ovn-controller"), "ovn-controller")
        .args(["-vsyslog:off", "--pidfile", "unix:/run/openvswitch/db.sock"])
        .start(namespace)?;
    central
        .sbctl(&["wait-until", "Chassis", node])
        .map_err(|error| if controller.is_alive() { error } else { controller.not_ready() })?;
    Ok(controller)
}

fn vsctl(namespace: &Namespace, arguments: &[&str]) -> Result<String> {
    namespace.command("ovs-vsctl").arg("--timeout=30").args(arguments).read()
}
