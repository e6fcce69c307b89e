//! ADD: from a pod's locks to interfaces that carry traffic.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ipnet::IpNet;
use portolan_api::{Family, Mac};
use portolan_cni::{AddResult, CniError, Code, Interface, IpConfig};
use portolan_host::Route;
use portolan_model::doors::pod::FIRST_INTERFACE;
use portolan_model::{Attachment, InterfaceRequest, Requester, World};
use tokio::sync::RwLock;

use crate::call::{NetworkConfig, PodName, Sandbox, Selection};
use crate::links::{self, PodEnd};
use crate::server::Agent;
use crate::steps::Steps;
use crate::vswitch::{Datapath, NewPort, VswitchError};

/// What one ADD works on.
pub(crate) struct Add<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) sandbox: Sandbox,
    pub(crate) pod: PodName,
    pub(crate) config: NetworkConfig,
    pub(crate) netns: Arc<OwnedFd>,
    /// The namespace's path, for the answer to repeat.
    pub(crate) netns_path: Option<String>,
    pub(crate) steps: Steps,
    /// Held by every thread that works on links, so that undoing can wait for them: they cannot be cancelled.
    pub(crate) working: Arc<RwLock<()>>,
}

/// An interface to be made.
#[derive(Clone, Debug, PartialEq)]
struct Planned {
    interface: String,
    iface_id: String,
    pod_uid: String,
    end: PodEnd,
    gateways: Vec<std::net::IpAddr>,
}

impl Add<'_> {
    /// Makes the interfaces. Whatever goes wrong, or if the future is dropped, the caller undoes it.
    pub(crate) async fn run(&self) -> Result<AddResult, CniError> {
        let datapath = self
            .steps
            .step("vswitch", "Open vSwitch and its bridge".into(), async {
                self.agent.vswitch.ready().await;
                self.agent.vswitch.bridge_datapath().await
            })
            .await;
        // An interface that every call makes but one after another plugin's is begun while its locks are awaited.
        let early = self.config.selection != Selection::Further;
        let early_link =
            async { if early { self.make_link(&self.sandbox.call, datapath).await } else { Ok(()) } };
        let (early_link, planned) = tokio::join!(early_link, self.planned());
        early_link?;
        let planned = planned?;
        let made_early = |plan: &Planned| early && plan.interface == self.sandbox.call;
        if early && !planned.iter().any(made_early) {
            let names: Vec<_> = planned.iter().map(|plan| plan.interface.as_str()).collect();
            return Err(CniError::new(
                Code::InvalidConfig,
                format!("pod {} has no interface {} of Portolan's", self.pod, self.sandbox.call),
                format!("it has {}", names.join(", ")),
            ));
        }
        futures::future::try_join_all(planned.iter().map(|plan| async move {
            if !made_early(plan) {
                self.make_link(&plan.interface, datapath).await?;
            }
            self.connect(plan).await
        }))
        .await?;
        self.steps.report(&self.sandbox.id, &self.pod.to_string());
        Ok(self.result(&planned))
    }

    async fn make_link(&self, interface: &str, datapath: Datapath) -> Result<(), CniError> {
        let waiting = format!("link {interface}");
        let (sandbox, netns, mtu) = (self.sandbox.clone(), Arc::clone(&self.netns), self.agent.config.mtu);
        let interface = interface.to_owned();
        let make = move || links::make(&sandbox, &interface, &netns, mtu, datapath);
        self.steps.step("link", waiting, self.work(make)).await
    }

    /// The interfaces to be made, once the pod and all of its locks are known.
    async fn planned(&self) -> Result<Vec<Planned>, CniError> {
        let cluster = &self.agent.cluster;
        let waiting = format!("pod {} on node {}", self.pod, self.agent.config.node);
        let pod_uid = self.steps.step("pod", waiting, cluster.wait_for(|world| self.pod_uid(world))).await;
        let asks_nothing = |world: &World| {
            let pod = world.pod(&self.pod.namespace, &self.pod.name);
            pod.is_some_and(|pod| pod.annotations.is_empty())
        };
        if self.config.selection == Selection::Further && cluster.read(asks_nothing) {
            return Ok(Vec::new());
        }
        let waiting = format!("the addresses of pod {}, which the controller assigns", self.pod);
        let planned = cluster.wait_for(|world| self.plan(world, &pod_uid));
        self.steps.step("locks", waiting, planned).await
    }

    /// The pod's UID, if it is the pod that the runtime means.
    fn pod_uid(&self, world: &World) -> Option<String> {
        let pod = world.pod(&self.pod.namespace, &self.pod.name)?;
        self.pod.uid.as_ref().is_none_or(|uid| *uid == pod.uid).then(|| pod.uid.clone())
    }

    /// What is to be made; none while something that it depends on is missing.
    fn plan(&self, world: &World, pod_uid: &str) -> Option<Result<Vec<Planned>, CniError>> {
        let of_node = world.attachments_of_node(&self.agent.config.node);
        let attachments: Vec<_> = of_node.filter(|one| one.pod_uid() == Some(pod_uid)).collect();
        let first = attachments.first()?;
        let decided = &world.locks().find(|lock| lock.attachment == first.id)?.interfaces;
        let names: Vec<&str> = if decided.is_empty() {
            vec![first.id.interface()]
        } else {
            decided.iter().map(|one| one.interface.as_str()).collect()
        };
        let selected = names.into_iter().filter(|name| match self.config.selection {
            Selection::All => true,
            Selection::Further => *name != FIRST_INTERFACE,
            Selection::One(_) => *name == self.sandbox.call,
        });
        let pod = world.pod(&self.pod.namespace, &self.pod.name)?;
        let request = world.request(&Requester::pod(&pod.namespace, &pod.name));
        let requests = request.map(|request| request.interfaces).unwrap_or_default();
        let mut planned = Vec::new();
        for name in selected {
            let attachment = attachments.iter().find(|one| one.id.interface() == name)?;
            let request = requests.iter().find(|request| request.interface == name);
            // Routes are asked for by annotations, which name networks that may not be known here yet.
            if request.is_none() && !pod.annotations.is_empty() {
                return None;
            }
            let others_take_default =
                requests.iter().any(|other| other.interface != name && other.default_route.is_some());
            let takes_default = match request.and_then(|request| request.default_route.as_ref()) {
                Some(_) => true,
                None => name == FIRST_INTERFACE && !others_take_default,
            };
            planned.push(self.plan_interface(world, attachment, request, takes_default, pod_uid)?);
        }
        if let Selection::One(provider) = &self.config.selection {
            let fits = |plan: &Planned| {
                let attachment = attachments.iter().find(|one| one.id.interface() == plan.interface);
                let subnet = attachment.and_then(|one| world.subnet(&one.subnet));
                subnet.is_some_and(|subnet| subnet.config.provider.as_ref() == Some(provider))
            };
            if !planned.iter().all(fits) {
                let details = format!("its subnet does not have provider {provider}");
                let msg = format!("interface {} is of another network", self.sandbox.call);
                return Some(Err(CniError::new(Code::InvalidConfig, msg, details)));
            }
        }
        Some(Ok(planned))
    }

    fn plan_interface(
        &self,
        world: &World,
        attachment: &Attachment,
        request: Option<&InterfaceRequest>,
        takes_default: bool,
        pod_uid: &str,
    ) -> Option<Planned> {
        let subnet = &world.subnet(&attachment.subnet)?.config;
        let net = |address: std::net::IpAddr| {
            let net = subnet.cidr.net(Family::of(address))?;
            IpNet::new(address, net.prefix_len()).ok()
        };
        let addresses: Vec<IpNet> =
            attachment.addresses.iter().map(|address| net(*address)).collect::<Option<_>>()?;
        let families = |family: Family| addresses.iter().any(|address| Family::of_net(address) == family);
        let own_gateways = || subnet.gateway.addresses().filter(|gateway| families(Family::of(*gateway)));
        let asked = request.and_then(|request| request.default_route.clone()).unwrap_or_default();
        let gateways = if asked.is_empty() { own_gateways().collect() } else { asked };
        let guest = subnet.routes.iter().chain(request.into_iter().flat_map(|request| &request.routes));
        let mut routes: Vec<Route> = guest
            .filter(|route| families(Family::of_net(&route.destination)))
            .map(|route| {
                let own = || own_gateways().find(|gw| Family::of(*gw) == Family::of_net(&route.destination));
                Route { destination: route.destination, gateway: route.gateway.or_else(own) }
            })
            .collect();
        if takes_default {
            routes.extend(gateways.iter().map(|gateway| default_by(*gateway)));
        }
        let own_gateways = own_gateways().collect();
        Some(Planned {
            interface: attachment.id.interface().to_owned(),
            iface_id: attachment.iface_id.clone(),
            pod_uid: pod_uid.to_owned(),
            end: PodEnd {
                mac: attachment.mac,
                mtu: subnet.mtu.unwrap_or(self.agent.config.mtu),
                addresses,
                routes,
            },
            gateways: own_gateways,
        })
    }

    /// Plugs an interface whose links are there, configures it, and waits until it carries traffic.
    async fn connect(&self, plan: &Planned) -> Result<(), CniError> {
        let (vswitch, steps, interface) = (&self.agent.vswitch, &self.steps, plan.interface.as_str());
        let pod = self.pod.to_string();
        let new = NewPort {
            sandbox: &self.sandbox,
            interface,
            network: &self.config.name,
            pod: &pod,
            pod_uid: &plan.pod_uid,
            iface_id: &plan.iface_id,
        };
        let plug = steps.step("plug", format!("port {}", plan.iface_id), vswitch.plug(&new));
        let (sandbox, netns, end) = (self.sandbox.clone(), Arc::clone(&self.netns), plan.end.clone());
        let name = interface.to_owned();
        let configure = self.work(move || links::configure(&sandbox, &name, &netns, &end));
        let configure = steps.step("configure", format!("addresses of {interface}"), configure);
        let installed = async {
            plug.await.map_err(|error| failed(&error))?;
            let waiting = format!("OVN to install port {}", plan.iface_id);
            let installed = vswitch.installed(&self.sandbox, interface);
            steps.step("installed", waiting, installed).await.map_err(|error| failed(&error))
        };
        let (link, ()) = tokio::try_join!(configure, installed)?;
        let (netns, end) = (Arc::clone(&self.netns), plan.end.clone());
        let tell = self.work(move || links::tell(&netns, &link, &end));
        steps.step("announce", format!("announcements of {interface}"), tell).await
    }

    /// Does something that blocks, on a thread that may.
    async fn work<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
    ) -> Result<T, CniError> {
        let working = Arc::clone(&self.working).read_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _working = working;
            body()
        });
        let unfinished = |error: tokio::task::JoinError| {
            CniError::new(Code::Setup, "the agent is shutting down", error.to_string())
        };
        done.await.map_err(unfinished)?.map_err(|error| host_failed(&error))
    }

    fn result(&self, planned: &[Planned]) -> AddResult {
        let mut result = AddResult::default();
        for plan in planned {
            let mtu = Some(u32::from(plan.end.mtu));
            result.interfaces.push(Interface {
                name: self.sandbox.link(&plan.interface),
                mac: String::new(),
                mtu,
                sandbox: None,
            });
            let interface = result.interfaces.len();
            result.interfaces.push(Interface {
                name: plan.interface.clone(),
                mac: Mac::to_string(&plan.end.mac),
                mtu,
                sandbox: self.netns_path.clone(),
            });
            result.ips.extend(plan.end.addresses.iter().map(|address| IpConfig {
                interface,
                address: *address,
                gateway: plan.gateways.iter().copied().find(|gw| gw.is_ipv4() == address.addr().is_ipv4()),
            }));
            let routes = plan.end.routes.iter();
            result.routes.extend(
                routes.map(|route| portolan_cni::Route {
                    destination: route.destination,
                    gateway: route.gateway,
                }),
            );
        }
        result
    }
}

fn default_by(gateway: std::net::IpAddr) -> Route {
    let destination = match gateway {
        std::net::IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        std::net::IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    };
    Route { destination, gateway: Some(gateway) }
}

/// What the plugin says when Open vSwitch refuses.
pub(crate) fn failed(error: &VswitchError) -> CniError {
    let code = match error {
        VswitchError::NoBridge(_) | VswitchError::Transact(_) => Code::TryAgainLater,
        VswitchError::Link { .. } | VswitchError::Removed(_) | VswitchError::Convert(_) => Code::Setup,
    };
    CniError::new(code, error.to_string(), sources(error))
}

/// What the plugin says when the kernel refuses.
pub(crate) fn host_failed(error: &portolan_host::Error) -> CniError {
    CniError::new(Code::Setup, error.to_string(), sources(error))
}

fn sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
