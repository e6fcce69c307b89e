//! Virtual functions of network cards as pods' ends of interfaces, with their representors as host-side links. All of it blocks.
//!
//! ```text
//!  take     representor: down, renamed and noted, guarded    function's link ──▶ pod    representor: up
//!  release  function's link ──▶ node, its own name           representor: down, its own name, nothing noted
//! ```
//!
//! A representor is renamed and noted in one step, and the note has what both links were called before. So whenever the agent is killed,
//! the next one finds the note, and releases both when the runtime ends the sandbox.

mod release;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portolan_host::{Error, Link, PciAddress, Result, Rtnetlink, Sysfs};
use portolan_plan::host::{Function, Sandbox};

use crate::steps::StepHook;

/// The functions of the node's network cards.
#[derive(Debug)]
pub(crate) struct Functions {
    sysfs: Sysfs,
    steps: StepHook,
    /// Those that are being taken or released.
    claimed: Mutex<BTreeSet<PciAddress>>,
    /// The namespaces of calls in progress: what is released meanwhile is brought back from there. They are not kept for longer, as a
    /// namespace lives as long as somebody has it open.
    namespaces: Mutex<BTreeMap<Sandbox, Arc<OwnedFd>>>,
}

/// A call in progress names the namespace of its sandbox.
pub(crate) struct NamespaceOf<'a> {
    functions: &'a Functions,
    sandbox: Sandbox,
}

/// Nobody else takes or releases the function meanwhile.
struct Claim<'a> {
    functions: &'a Functions,
    address: PciAddress,
}

impl Functions {
    pub(crate) fn new(sysfs: Sysfs, steps: StepHook) -> Self {
        Self { sysfs, steps, claimed: Mutex::default(), namespaces: Mutex::default() }
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<Sandbox, Arc<OwnedFd>>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claimed(&self) -> MutexGuard<'_, BTreeSet<PciAddress>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until the answer is dropped, this is the namespace of a sandbox. Calls for one sandbox take turns.
    pub(crate) fn namespace_of(&self, sandbox: &Sandbox, netns: Option<Arc<OwnedFd>>) -> NamespaceOf<'_> {
        if let Some(netns) = netns {
            self.namespaces().insert(sandbox.clone(), netns);
        }
        NamespaceOf { functions: self, sandbox: sandbox.clone() }
    }

    /// Whether a call in progress names the namespace of a sandbox.
    pub(crate) fn knows_namespace(&self, sandbox: &Sandbox) -> bool {
        self.namespaces().contains_key(sandbox)
    }

    fn claim(&self, address: &PciAddress) -> Result<Claim<'_>> {
        if self.claimed().insert(address.clone()) {
            return Ok(Claim { functions: self, address: address.clone() });
        }
        Err(in_use(address, "is being given to or taken from a pod at this moment".into()))
    }

    /// Whether a function's link is on the node, of whose links `is_link` knows the names.
    pub(crate) fn is_on_node(&self, function: &Function, is_link: impl Fn(&str) -> bool) -> bool {
        let address = function.link.as_ref().and_then(|_| function.address.parse().ok());
        address.is_some_and(|address| self.sysfs.links_of(&address).iter().any(|name| is_link(name)))
    }

    /// Whether a link may be that of a function.
    pub(crate) fn may_be_function(&self, link: &Link) -> bool {
        self.sysfs.may_be_of_device(link)
    }

    /// Whether a link can be a host-side link. That of a function cannot: a pod had it, and may have named and noted it as it liked.
    pub(crate) fn may_be_host_side(&self, link: &Link) -> bool {
        !self.sysfs.is_of_function(link)
    }

    fn link_on_node(&self, host: &mut Rtnetlink, address: &PciAddress) -> Result<Option<Link>> {
        for name in self.sysfs.links_of(address) {
            if let Some(link) = host.link(&name)? {
                return Ok(Some(link));
            }
        }
        Ok(None)
    }
}

impl Drop for NamespaceOf<'_> {
    fn drop(&mut self) {
        self.functions.namespaces().remove(&self.sandbox);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.functions.claimed().remove(&self.address);
    }
}

fn in_use(address: &PciAddress, by: String) -> Error {
    Error::DeviceInUse { address: address.to_string(), by }
}

fn address_of(function: &Function) -> Result<PciAddress> {
    let wrong = |error: portolan_host::pci::NotAPciAddress| Error::Device {
        address: function.address.clone(),
        problem: format!("cannot be found: {error}"),
    };
    function.address.parse().map_err(wrong)
}
