//! ADD: from a pod's locks to interfaces that carry traffic.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use portolan_api::Mac;
use portolan_cni::{AddResult, CniError, Code, Interface, IpConfig};
use portolan_host::PciAddress;
use portolan_model::node::LEAST_MTU;
use portolan_plan::host::{Datapath, Note, Sandbox};

use crate::call::{NetworkConfig, PodArgs, Selection};
use crate::calls::Threads;
use crate::cluster::Known;
use crate::confirm::{BETWEEN_READS, pod_ends};
use crate::server::Agent;
use crate::steps::{Step, Steps};
use crate::vswitch::UnusableLink;
use crate::wanted::{Call, Planned, Wanted, pod_ended, wanted};
use crate::{device, links};

/// How long a thread that makes links keeps its place: one that hangs holds up nobody for longer.
const LATE: Duration = Duration::from_secs(2);

/// What one ADD works on.
pub(crate) struct Add<'a> {
    pub(crate) agent: &'a Arc<Agent>,
    pub(crate) sandbox: Sandbox,
    pub(crate) pod: PodArgs,
    pub(crate) config: NetworkConfig,
    pub(crate) netns: Arc<OwnedFd>,
    /// The namespace's path, for the answer to repeat.
    pub(crate) netns_path: Option<String>,
    /// The device that is to be the pod's end of the interface that the call names; otherwise that is made.
    pub(crate) device: Option<PciAddress>,
    pub(crate) steps: Steps,
    /// The threads that work on links, for undoing to wait for: they cannot be cancelled.
    pub(crate) threads: Threads,
}

/// The link of an interface, as it was made.
struct Made {
    note: Note,
    /// Of the node's end.
    mtu: u16,
}

impl Add<'_> {
    /// Makes the interfaces. If it fails or is dropped, the caller undoes it.
    pub(crate) async fn run(&self) -> Result<AddResult, CniError> {
        if self.config.selection == Selection::Further && self.config.asks_for_nothing {
            return Ok(AddResult::default());
        }
        tokio::select! {
            result = self.make() => result,
            // Its sandbox is not needed any more.
            () = pod_ends(&self.agent.client, &self.agent.cluster, &self.pod) => Err(pod_ended(&self.pod)),
            refusal = self.cannot_be_known() => Err(refusal),
        }
    }

    async fn make(&self) -> Result<AddResult, CniError> {
        // What a call for the same container that was interrupted left.
        self.agent.engine.end(&self.sandbox);
        self.agent.engine.is_removed(&self.sandbox, self.agent.vswitch.revision()).await;
        self.agent.engine.begin(&self.sandbox);
        // The interface that the call names is begun while its addresses are awaited, if they have to be. After another plugin there is none,
        // and whether it may be a device is not known yet.
        let is_known = self.agent.cluster.read(|known| self.interfaces(known).is_some());
        let early = !is_known && self.config.selection.makes_named() && self.device.is_none();
        let early_link = async {
            match early {
                true => {
                    let note = self.note(&self.sandbox.call, self.pod.uid.clone());
                    self.make_link(note, LEAST_MTU).await.map(Some)
                }
                false => Ok(None),
            }
        };
        let wanted = async {
            let waiting = format!("the addresses of pod {}", self.pod);
            let interfaces = self.agent.cluster.wait_for(|known| self.interfaces(known));
            self.steps.wait(Step::Locks, waiting, interfaces).await
        };
        let (early, (pod_uid, planned)) = tokio::try_join!(early_link, wanted)?;
        let (pod_uid, early) = (&pod_uid, &early);
        let notes = futures::future::try_join_all(planned.iter().map(|plan| async move {
            let note = self.note(&plan.interface, Some(pod_uid.clone()));
            let made = match early {
                Some(Made { mtu, .. }) if plan.interface == self.sandbox.call => {
                    if self.pod.uid.as_ref() != Some(pod_uid) {
                        let note = note.clone();
                        self.work(Step::Link, format!("link {}", plan.interface), move || {
                            links::set_note(&note)
                        })
                        .await?;
                    }
                    Made { note, mtu: *mtu }
                }
                _ => self.make_link(note, plan.end.mtu).await?,
            };
            self.connect(plan, &made).await.map(|()| made.note)
        }))
        .await?;
        self.steps.report(&self.sandbox.container, &self.pod.to_string());
        let pod = (self.pod.namespace.clone(), self.pod.name.clone());
        // A call for one definition comes from Multus or its like, which makes the others.
        if matches!(self.config.selection, Selection::All | Selection::Further) {
            let foreign = &self.agent.foreign;
            self.agent.cluster.read(|known| foreign.note(known, &pod, self.config.previous.as_ref()));
        }
        self.agent.network_status.check(pod);
        Ok(self.result(&planned, &notes))
    }

    fn note(&self, interface: &str, pod_uid: Option<String>) -> Note {
        let (sandbox, network) = (self.sandbox.clone(), self.config.name.clone());
        Note { sandbox, interface: interface.to_owned(), pod_uid, network, function: None }
    }

    fn wanted(&self, known: &Known) -> Wanted {
        let config = &self.agent.config;
        let call = Call {
            node: &config.node,
            pod: &self.pod,
            interface: &self.sandbox.call,
            selection: &self.config.selection,
            cluster_networks: &config.cluster_networks,
            service_networks: &config.service_networks,
        };
        wanted(&call, known)
    }

    /// The interfaces to be made, with the pod's UID; none while something that they depend on is missing.
    fn interfaces(&self, known: &Known) -> Option<Result<(String, Vec<Planned>), CniError>> {
        match self.wanted(known) {
            Wanted::Nothing => Some(Ok(Default::default())),
            Wanted::Interfaces { pod_uid, interfaces } => Some(match &self.device {
                Some(device) => device::permit(device, &self.pod, &self.sandbox.call, known)
                    .map(|()| (pod_uid, interfaces)),
                None => Ok((pod_uid, interfaces)),
            }),
            Wanted::Refused(refusal) => Some(Err(refusal)),
            Wanted::Missing(_) => None,
        }
    }

    /// Ends if a live read finds that a pod which was not seen yet does not exist; and if something is missing while the API server,
    /// from which it would come, cannot be reached. Nobody could say how long that lasts: the runtime tries again.
    async fn cannot_be_known(&self) -> CniError {
        let PodArgs { namespace, name, .. } = &self.pod;
        let (client, cluster) = (&self.agent.client, &self.agent.cluster);
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        let mut changes = cluster.status().changes();
        loop {
            let missing = cluster.read(|known| match self.wanted(known) {
                Wanted::Missing(what) => Some((what, known.pods.get(namespace, name).is_none())),
                _ => None,
            });
            let behind = !cluster.status().is_in_step();
            let doubtful = missing.filter(|(_, unseen)| *unseen || behind);
            if let Some((what, _)) = doubtful {
                match portolan_watch::get(client, &api, name).await {
                    Ok(None) => {
                        let msg = format!("pod {} does not exist", self.pod);
                        return CniError::new(Code::UnknownContainer, msg, "the API server does not have it");
                    }
                    Err(error) if is_unreachable(&error) => {
                        let error = portolan_watch::Plain(&error);
                        let msg = format!("the API server cannot be reached: {error}");
                        return CniError::new(Code::TryAgainLater, msg, what.join("; "));
                    }
                    Ok(Some(_)) | Err(_) => tokio::time::sleep(BETWEEN_READS).await,
                }
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Makes an interface's link with this MTU, or takes that of a device.
    async fn make_link(&self, note: Note, mtu: u16) -> Result<Made, CniError> {
        let datapath: Datapath = self
            .steps
            .wait(Step::Bridge, format!("bridge {} of Open vSwitch", self.agent.config.bridge), async {
                self.agent.vswitch.ready().await;
                self.agent.vswitch.bridge_datapath().await
            })
            .await;
        let waiting = format!("link {}", note.interface);
        let (agent, netns) = (Arc::clone(self.agent), Arc::clone(&self.netns));
        let device = self.device.clone().filter(|_| note.interface == self.sandbox.call);
        let is_device = device.is_some();
        let steps = self.steps.reporter.clone();
        let make = move || match device {
            Some(device) => agent
                .functions
                .take(&device, note, &netns, datapath, &agent.engine)
                .map(|note| Made { note, mtu: LEAST_MTU }),
            None => links::make(&note, &netns, mtu, datapath, (&agent.engine, &steps))
                .map(|()| Made { note, mtu }),
        };
        let made = self.work(Step::Link, waiting, make).await;
        made.map_err(|error| if is_device { of_device(error) } else { error })
    }

    /// Configures an interface whose links exist, and waits until it carries traffic. The engine gives it its port.
    async fn connect(&self, plan: &Planned, Made { note, mtu }: &Made) -> Result<(), CniError> {
        let (vswitch, steps, interface) = (&self.agent.vswitch, &self.steps, plan.interface.as_str());
        let (link, netns, end) = (note.link(), Arc::clone(&self.netns), plan.end.clone());
        let (name, noted, mtu, agent) = (interface.to_owned(), note.clone(), *mtu, Arc::clone(self.agent));
        let configure = move || match has_link(&noted) {
            true => links::configure((&link, mtu), &name, &netns, &end).map(Some),
            false => agent.functions.configure_without_link(&noted, end.mac, end.mtu).map(|()| None),
        };
        let is_link = has_link(note);
        let configure = self.work(Step::Configure, format!("addresses of {interface}"), configure);
        let configure =
            async { configure.await.map_err(|error| if is_link { error } else { of_device(error) }) };
        let installed = async {
            let waiting = format!("port {} of Open vSwitch", note.link());
            steps.wait(Step::Plug, waiting, vswitch.plugged(note)).await;
            let waiting = format!("OVN to install port {}", plan.iface_id);
            let installed = async {
                vswitch.installed(note).await?;
                // In the kernel's datapath it is set up once it is a port.
                self.agent.engine.is_up(&note.link()).await;
                Ok(())
            };
            let installed: Result<(), UnusableLink> = steps.wait(Step::Installed, waiting, installed).await;
            installed.map_err(|error| CniError::new(Code::Setup, error.to_string(), ""))
        };
        let (link, ()) = tokio::try_join!(configure, installed)?;
        let Some(link) = link else { return Ok(()) };
        let (netns, end) = (Arc::clone(&self.netns), plan.end.clone());
        let announce = move || links::announce(&netns, &link, &end);
        self.work(Step::Announce, format!("announcements of {interface}"), announce).await
    }

    /// Runs a step that blocks, on a thread that may.
    async fn work<T: Send + 'static>(
        &self,
        step: Step,
        waiting_for: String,
        body: impl FnOnce() -> portolan_host::Result<T> + Send + 'static,
    ) -> Result<T, CniError> {
        let reporter = self.steps.reporter.clone();
        let done = async {
            let working = self.threads.begin().await;
            let place = match step {
                Step::Link => Some(self.agent.calls.place_for_links().await),
                _ => None,
            };
            // The thread has its place until it ends, also if the call is given up meanwhile; but not for long.
            let place = Arc::new(Mutex::new(place));
            let of_thread = Arc::clone(&place);
            let mut done = tokio::task::spawn_blocking(move || {
                let _working = working;
                let done = reporter.during_work(step, body);
                drop(of_thread.lock().unwrap_or_else(PoisonError::into_inner).take());
                done
            });
            if let Ok(done) = tokio::time::timeout(LATE, &mut done).await {
                return done;
            }
            drop(place.lock().unwrap_or_else(PoisonError::into_inner).take());
            done.await
        };
        let unfinished = |error: tokio::task::JoinError| {
            CniError::new(Code::Setup, "the agent is shutting down", error.to_string())
        };
        let done = self.steps.time(step, waiting_for, done).await;
        done.map_err(unfinished)?.map_err(|error| host_failed(&error))
    }

    /// What is missing for the call to end.
    pub(crate) fn missing(&self) -> String {
        let agent = self.agent;
        let mut missing: Vec<String> =
            agent.vswitch.behind().into_iter().chain(self.steps.at_work()).collect();
        match agent.cluster.read(|known| self.wanted(known)) {
            Wanted::Missing(what) => missing.extend(what),
            Wanted::Interfaces { pod_uid, interfaces } if missing.is_empty() => {
                missing.extend(interfaces.iter().filter_map(|plan| {
                    let note = self.note(&plan.interface, Some(pod_uid.clone()));
                    agent.vswitch.obstacle(&note, &plan.iface_id)
                }));
            }
            _ => {}
        }
        if missing.is_empty() {
            missing = self.steps.waiting_for();
        }
        let behind = agent.cluster.status().behind();
        missing.extend(behind.iter().map(|kind| format!("the agent's copy of {kind}")));
        missing.join("; ")
    }

    fn result(&self, planned: &[Planned], notes: &[Note]) -> AddResult {
        let mut result = AddResult::default();
        for (plan, note) in planned.iter().zip(notes) {
            let mtu = Some(u32::from(plan.end.mtu));
            result.interfaces.push(Interface {
                name: self.sandbox.link(&plan.interface).to_string(),
                mac: String::new(),
                mtu,
                sandbox: None,
                pci_id: None,
            });
            let interface = result.interfaces.len();
            result.interfaces.push(Interface {
                name: plan.interface.clone(),
                mac: Mac::to_string(&plan.end.mac),
                mtu,
                sandbox: self.netns_path.clone().filter(|_| has_link(note)),
                pci_id: note.function.as_ref().map(|function| function.address.clone()),
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

/// The error of what was done with the device that the configuration names.
fn of_device(error: CniError) -> CniError {
    CniError { msg: format!("deviceID: {}", error.msg), ..error }
}

/// Whether the pod's end of an interface is a link. A function that a driver for user space has is none.
fn has_link(note: &Note) -> bool {
    note.function.as_ref().is_none_or(|function| function.link.is_some())
}

/// Whether an error says that the API server gave no answer, or could not.
fn is_unreachable(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500,
        kube::Error::SerdeError(_)
        | kube::Error::FromUtf8(_)
        | kube::Error::LinesCodecMaxLineLengthExceeded => false,
        _ => true,
    }
}

/// The error of a call that the kernel refused.
pub(crate) fn host_failed(error: &portolan_host::Error) -> CniError {
    let source = std::error::Error::source(error);
    let sources = std::iter::successors(source, |error| error.source());
    let details = sources.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    CniError::new(code_of(error), error.to_string(), details)
}

/// What a machine lacks for a moment is no fault of the call.
fn code_of(error: &portolan_host::Error) -> Code {
    const NO_MEMORY: i32 = 12;
    const TOO_MANY_FILES_OF_ALL: i32 = 23;
    const TOO_MANY_FILES: i32 = 24;
    if matches!(error, portolan_host::Error::DeviceInUse { .. }) {
        return Code::TryAgainLater;
    }
    match error.os_error() {
        Some(NO_MEMORY | TOO_MANY_FILES_OF_ALL | TOO_MANY_FILES) => Code::TryAgainLater,
        _ => Code::Setup,
    }
}
