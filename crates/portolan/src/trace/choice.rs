//! Who talks with whom, by which addresses: pods by name, and of their interfaces and addresses the ones that fit.

use std::fmt;
use std::net::IpAddr;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use portolan_api::{Family, Provider};
use portolan_model::Requester;

use super::guest::{Guest, Interface};
use crate::cluster::Snapshot;
use crate::get::attachments::why;
use crate::near;
use crate::output::plain;

/// A pod as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The two addresses of a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation<'g, 'w> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The interface that the first packet leaves by, if that is not left to the pod's routes.
    pub(crate) by: Option<&'g Interface<'w>>,
}

impl PodName {
    /// Reads `POD` or `NAMESPACE/POD`.
    pub(crate) fn parse(text: &str, namespace: &str) -> anyhow::Result<Self> {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            bail!("{text:?} names no pod; write POD, or NAMESPACE/POD");
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The pod with its interfaces, or why it has none.
    pub(crate) fn find<'w>(&self, snapshot: &'w Snapshot) -> anyhow::Result<Guest<'w>> {
        let world = &snapshot.world;
        let Some(pod) = world.pod(&self.namespace, &self.name) else { return Err(self.missing(snapshot)) };
        if pod.host_network {
            bail!("pod {self} uses its node's network, and has no interface of Portolan's");
        }
        if pod.finished {
            bail!("pod {self} has finished, and has no interface any more");
        }
        if let Some(guest) = Guest::find(world, &self.namespace, &self.name) {
            if self.phase(snapshot) != Some("Running") {
                bail!("pod {self} does not run yet; `portolan describe pod` says what it waits for");
            }
            return Ok(guest);
        }
        if pod.node.is_none() {
            bail!("pod {self} is on no node yet, and so has no interface; `kubectl describe pod` says why");
        }
        let Some(request) = world.request(&Requester::pod(&self.namespace, &self.name)) else {
            bail!(
                "pod {self} has no interface of Portolan's, and asks for none; the annotation k8s.v1.cni.cncf.io/networks asks for one"
            );
        };
        Err(anyhow!("pod {self} has no interface of Portolan's yet: {}", plain(&why(&request).message)))
    }

    fn phase<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s str> {
        let is_it = |pod: &&Pod| {
            pod.metadata.name.as_ref() == Some(&self.name)
                && pod.metadata.namespace.as_ref() == Some(&self.namespace)
        };
        snapshot.lists.pods.iter().find(is_it)?.status.as_ref()?.phase.as_deref()
    }

    pub(crate) fn missing(&self, snapshot: &Snapshot) -> anyhow::Error {
        let pods = &snapshot.lists.pods;
        let elsewhere =
            pods.iter().filter(|pod| pod.name_any() == self.name).filter_map(ResourceExt::namespace);
        let elsewhere: Vec<_> = elsewhere.map(|namespace| format!("{namespace}/{}", self.name)).collect();
        if !elsewhere.is_empty() {
            return anyhow!("there is no pod {self}; did you mean {}?", elsewhere.join(" or "));
        }
        let here = pods.iter().filter(|pod| pod.namespace().as_deref() == Some(&self.namespace));
        let names: Vec<_> = here.map(ResourceExt::name_any).collect();
        let hint = near::suggest(&self.name, names.iter().map(String::as_str));
        let hint = hint.replace("; there are none", "; there is no pod in this namespace");
        anyhow!("there is no pod {self}{hint}")
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", plain(&self.namespace), plain(&self.name))
    }
}

impl<'g, 'w> Conversation<'g, 'w> {
    /// Chooses addresses: on the named network; else on one that both are on; else those that the sender has a route to.
    pub(crate) fn choose(
        from: &'g Guest<'w>,
        to: &'g Guest<'w>,
        network: Option<&str>,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let provider = network.map(|network| {
            let (namespace, name) = network.split_once('/').unwrap_or((namespace, network));
            Provider::nad(namespace, name)
        });
        let on_network =
            |interface: &&Interface<'w>| provider.is_none() || interface.subnet.config.provider == provider;
        let receivers: Vec<_> = to.interfaces.iter().filter(on_network).collect();
        if let (Some(network), true) = (network, receivers.is_empty()) {
            let networks = to.interfaces.iter().filter_map(|one| one.subnet.config.provider.as_ref());
            let networks: Vec<_> = networks.map(ToString::to_string).collect();
            bail!("pod {} is not on network {network:?}; it is on: {}", to.name, networks.join(", "));
        }
        let by = from.interfaces.iter().find(|interface| provider.is_some() && on_network(interface));
        let mut candidates: Vec<_> = receivers
            .iter()
            .flat_map(|receiver| {
                receiver.attachment.addresses.iter().map(move |address| (receiver, *address))
            })
            .filter_map(|(receiver, destination)| {
                let exit = match by {
                    Some(interface) => interface.exit(destination),
                    None => from.exit(destination),
                };
                let leaves = exit.map(|exit| exit.interface).or(by).or_else(|| {
                    from.interfaces.iter().find(|one| address_of(one, Family::of(destination)).is_some())
                })?;
                let source = address_of(leaves, Family::of(destination))?;
                // The best first: one switch, then a route, then any.
                let one_switch = leaves.subnet.name == receiver.subnet.name;
                Some(((!one_switch, exit.is_none()), Self { source, destination, by }))
            })
            .collect();
        candidates.sort_by_key(|(rank, _)| *rank);
        let best = candidates.into_iter().next().map(|(_, conversation)| conversation);
        best.ok_or_else(|| {
            anyhow!(
                "pods {} and {} have no addresses of one family: one has IPv4 only, the other IPv6 only",
                from.name,
                to.name
            )
        })
    }
}

fn address_of(interface: &Interface<'_>, family: Family) -> Option<IpAddr> {
    interface.attachment.addresses_of(family).next()
}
