//! Who asks for interfaces, and what exactly.

use std::fmt;
use std::net::IpAddr;

use portolan_api::finalizer::IN_USE;
use portolan_api::portolan::{Holder, LockUser};
use portolan_api::{AddressPair, FieldError, GuestRoute, IpRange, Mac, Provider};

use crate::node_subnet::node_of_subnet;

/// Who asks for interfaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requester {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A `NetworkAttachment`.
    NetworkAttachment {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node, for its own port.
    Node {
        /// Its name.
        name: String,
    },
    /// A Subnet, for the addresses of its gateway.
    Subnet {
        /// Its name.
        name: String,
    },
    /// A Vip of `kubeovn.io`.
    Vip {
        /// Its name.
        name: String,
    },
    /// A virtual machine. Its pods ask in its place; without them it still holds.
    VirtualMachine {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Requester {
    /// A pod.
    pub fn pod(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Requester::Pod { namespace: namespace.into(), name: name.into() }
    }

    /// A `NetworkAttachment`.
    pub fn network_attachment(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Requester::NetworkAttachment { namespace: namespace.into(), name: name.into() }
    }

    /// A node.
    pub fn node(name: impl Into<String>) -> Self {
        Requester::Node { name: name.into() }
    }

    /// A Subnet.
    pub fn subnet(name: impl Into<String>) -> Self {
        Requester::Subnet { name: name.into() }
    }

    /// A Vip.
    pub fn vip(name: impl Into<String>) -> Self {
        Requester::Vip { name: name.into() }
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requester::Pod { namespace, name } => write!(f, "pod/{namespace}/{name}"),
            Requester::NetworkAttachment { namespace, name } => {
                write!(f, "networkattachment/{namespace}/{name}")
            }
            Requester::Node { name } => write!(f, "node/{name}"),
            Requester::Subnet { name } => write!(f, "subnet/{name}"),
            Requester::Vip { name } => write!(f, "vip/{name}"),
            Requester::VirtualMachine { namespace, name } => write!(f, "vm/{namespace}/{name}"),
        }
    }
}

/// What someone asks for, whole. Nothing is decided while there are problems or waits: the locks of a pod list all of its
/// interfaces, so all must be known first.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks.
    pub requester: Requester,
    /// Who is to hold the addresses; `interface` is left open.
    pub holder: Holder,
    /// Who would hold them if the pod did not ask for addresses that only the pod itself can hold: what that one has is given back.
    pub former: Option<Holder>,
    /// For a holder that outlives its pods: the pod that asks.
    pub user: Option<LockUser>,
    /// The node where they are used.
    pub node: String,
    /// That node's address.
    pub host_ip: Option<IpAddr>,
    /// The interfaces that Portolan makes, in order.
    pub interfaces: Vec<InterfaceRequest>,
    /// What is wrong, for the Events of who asks. Someone must change something.
    pub problems: Vec<FieldError>,
    /// What is not there yet, for the Events of who asks. It goes on by itself once that is there.
    pub waits: Vec<Wait>,
    /// What was written and has no effect.
    pub warnings: Vec<FieldError>,
}

/// Whether a requester needs anything of Portolan's.
#[derive(Clone, Debug, PartialEq)]
pub enum Needs {
    /// Nothing is known of it: it was not seen, or has no node yet.
    Unknown,
    /// It needs nothing: it asks for no network of Portolan's, is on its node's network, or has finished.
    Nothing {
        /// What was written and has no effect.
        warnings: Vec<FieldError>,
    },
    /// It asks for interfaces, or for something that is not known yet.
    Interfaces(Box<Request>),
}

impl Request {
    /// Who is to hold the addresses of an interface.
    pub fn holder_of<'a>(&'a self, interface: &'a InterfaceRequest) -> &'a Holder {
        interface.holder.as_ref().unwrap_or(&self.holder)
    }

    /// Everyone who holds addresses for this request, or gives them back.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        let of_interfaces = self.interfaces.iter().filter_map(|interface| interface.holder.as_ref());
        std::iter::once(&self.holder).chain(&self.former).chain(of_interfaces)
    }

    /// The interfaces whose addresses only the pod itself can hold.
    pub(crate) fn interfaces_of_pod(&self) -> impl Iterator<Item = &str> {
        let own = self.interfaces.iter().filter(|interface| interface.holder.is_some());
        own.map(|interface| interface.interface.as_str())
    }

    /// True if all of it is known and nothing is wrong with it.
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty() && self.waits.is_empty()
    }
}

/// One interface that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceRequest {
    /// Its name in the pod.
    pub interface: String,
    /// The subnet it is to be on.
    pub subnet: String,
    /// The provider by which it was asked for.
    pub provider: Option<Provider>,
    /// Who is to hold its addresses, if not the holder of the request.
    pub holder: Option<Holder>,
    /// Addresses it is to have, in order. Several of one family are allowed; of a family that is not named, `count` are chosen.
    pub addresses: Vec<IpAddr>,
    /// How many addresses it is to have of a family of which it names none.
    pub count: usize,
    /// Addresses to choose from.
    pub pool: Pool,
    /// MAC address it is to have.
    pub mac: Option<Mac>,
    /// Routes by this interface, as the requester asks for them.
    pub routes: Vec<GuestRoute>,
    /// Routes by this interface, as its network attachment definition has them.
    pub network_routes: Vec<GuestRoute>,
    /// The default route goes by this interface: by these routers, or by the subnet's gateway if there are none.
    pub default_route: Option<Vec<IpAddr>>,
    /// The default route goes by this interface unless another one is asked to take it: it is the one in the VPC of the pod's namespace.
    pub is_way_out: bool,
    /// Where in the object it was asked for.
    pub path: String,
}

/// Addresses to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pool {
    /// Any of the subnet that no pool keeps.
    #[default]
    Any,
    /// These, in order of preference.
    Listed(Vec<AddressPair>),
    /// Those of pools; of a family that they have none of, any that no pool keeps.
    Named {
        /// The names of the pools: one that the requester names, or all that are for its namespace.
        names: Vec<String>,
        /// Their addresses.
        ranges: Vec<IpRange>,
    },
}

/// Something that is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// A network attachment definition.
    Nad {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A subnet that serves a network attachment definition.
    SubnetOfProvider(Provider),
    /// A subnet.
    Subnet(String),
    /// A subnet that is there, to be found free of clashes.
    Validated(String),
    /// A subnet that is being deleted, to be gone and made again.
    Terminating(String),
    /// A subnet that is there, to get its finalizer.
    Protected(String),
    /// The VPC of a subnet, to get its finalizer.
    ProtectedVpc {
        /// The subnet.
        subnet: String,
        /// The VPC.
        vpc: String,
    },
    /// A subnet that is there, to be understood.
    Corrected(String),
    /// The VPC that a subnet names.
    Vpc {
        /// The subnet.
        subnet: String,
        /// The VPC.
        vpc: String,
    },
    /// A subnet for the pods of a namespace.
    DefaultSubnet {
        /// The namespace.
        namespace: String,
    },
    /// The virtual machine that a pod runs.
    VirtualMachine {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Another pod of the same virtual machine, which uses its addresses still.
    OtherPod {
        /// That pod.
        pod: String,
    },
    /// A node.
    Node(String),
    /// Prefixes for the pods of the node that asks, or a subnet that serves all nodes.
    NodePrefixes,
    /// A pool of addresses.
    IpPool(String),
    /// A pool of addresses that is there, to be understood.
    CorrectedIpPool(String),
    /// What the API server has of VPCs and Subnets: there may be one of a tenant for the pods of a namespace.
    Networks {
        /// The namespace.
        namespace: String,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Nad { namespace, name } => {
                write!(
                    f,
                    "waiting for network attachment definition {namespace}/{name}, which does not exist"
                )
            }
            Wait::SubnetOfProvider(provider) => {
                write!(f, "waiting for a Subnet with provider {provider}; there is none")
            }
            Wait::Subnet(name) | Wait::Validated(name) | Wait::Corrected(name)
                if let Some(node) = node_of_subnet(name) =>
            {
                let what = match self {
                    Wait::Subnet(_) => "to be allocated",
                    Wait::Validated(_) => "to be found free of clashes with other subnets",
                    _ => "to be corrected",
                };
                write!(f, "waiting for spec.podCIDRs of Node {node} {what}; see the Node's Events")
            }
            Wait::Subnet(name) => write!(f, "waiting for Subnet {name}, which does not exist"),
            Wait::Validated(name) => {
                write!(
                    f,
                    "waiting for Subnet {name}, which is not used; see its conditions Validated and Ready"
                )
            }
            Wait::Terminating(name) => {
                write!(
                    f,
                    "waiting for Subnet {name}, which is being deleted and gives no new addresses; make it again once it is gone, or use another"
                )
            }
            Wait::Protected(name) => {
                write!(f, "waiting for Subnet {name} to get the finalizer {IN_USE} from the controller")
            }
            Wait::ProtectedVpc { subnet, vpc } => {
                write!(
                    f,
                    "waiting for VPC {vpc} of Subnet {subnet} to get the finalizer {IN_USE} from the controller"
                )
            }
            Wait::Corrected(name) => {
                write!(f, "waiting for Subnet {name}, which is invalid and not used; see its condition Ready")
            }
            Wait::Vpc { subnet, vpc } => {
                write!(f, "waiting for VPC {vpc}, which Subnet {subnet} names and which does not exist")
            }
            Wait::DefaultSubnet { namespace } => write!(
                f,
                "waiting for a Subnet for the pods of namespace {namespace}; none names it in spec.namespaces, none is the default, and no spec.podCIDRs were allocated to the pod's Node"
            ),
            Wait::VirtualMachine { namespace, name } => {
                write!(f, "waiting for VirtualMachine {namespace}/{name}, which does not exist")
            }
            Wait::OtherPod { pod } => {
                write!(f, "waiting for pod {pod}, which runs the same virtual machine, to finish")
            }
            Wait::Node(name) => write!(f, "waiting for Node {name}, which does not exist"),
            Wait::NodePrefixes => f.write_str(
                "waiting for spec.podCIDRs, which kube-controller-manager allocates with --allocate-node-cidrs; or make a Subnet of the VPC ovn-cluster with spec.default, which serves all nodes"
            ),
            Wait::IpPool(name) => write!(f, "waiting for IPPool {name}, which does not exist"),
            Wait::CorrectedIpPool(name) => {
                write!(f, "waiting for IPPool {name} to be corrected; see its condition Ready")
            }
            Wait::Networks { namespace } => write!(
                f,
                "waiting for the API server to show all Subnets and VPCs again: one may be for the pods of namespace {namespace}, which are not made outside of their VPC; see /readyz of the controller"
            ),
        }
    }
}
