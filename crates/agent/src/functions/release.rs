//! Takes functions back from pods.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use portolan_host::rtnetlink::LinkSettings;
use portolan_host::{Error, Link, MacAddress, PciAddress, Result, Rtnetlink, guard};
use portolan_plan::host::{FormerLink, Function, Note, Use};

use super::{Functions, address_of};
use crate::links::with_causes;
use crate::steps::{Reporter, Step};

/// The kernel's numbers of errors.
const EEXIST: i32 = 17;
const ENODEV: i32 = 19;
/// A name of which the kernel chooses the number.
const ANY_NAME: &str = "dev%d";

impl Functions {
    /// Brings a function back from its sandbox and releases its representor. What is done already is no error. A function whose sandbox's
    /// namespace nobody names comes back when that ends; then this is to be called again.
    pub(crate) fn release(&self, note: &Note) -> Result<()> {
        let Some(function) = &note.function else { return Ok(()) };
        let address = address_of(function)?;
        let _claim = self.claim(&address)?;
        let netns = self.namespaces().get(&note.sandbox).cloned();
        self.release_claimed(note, &address, netns.as_deref())
    }

    pub(super) fn release_claimed(
        &self,
        note: &Note,
        address: &PciAddress,
        netns: Option<&OwnedFd>,
    ) -> Result<()> {
        let Some(function) = &note.function else { return Ok(()) };
        let unit = note.link();
        let mut host = Rtnetlink::open()?;
        let links = host.links()?;
        let noted = |link: &Link| {
            let note = link.alias.as_deref()?.parse::<Note>().ok()?;
            self.may_be_host_side(link).then_some(note)
        };
        // By the note: somebody may have renamed it.
        let representor = links.iter().find(|link| noted(link).is_some_and(|found| found.link() == unit));
        let is_same =
            |other: &Note| other.function.as_ref().is_some_and(|other| other.address == function.address);
        if representor.is_none() && links.iter().filter_map(noted).any(|other| is_same(&other)) {
            // Another pod has the function by now.
            return Ok(());
        }
        let steps = Reporter::new(&self.steps, &note.sandbox.container);
        let is_back = steps.during_work(Step::ReturnFunction, || match &function.link {
            None => {
                self.restore_mac(&mut host, address, function.mac);
                Ok(true)
            }
            Some(former) => self.bring_back(&mut host, &note.interface, address, former, netns),
        })?;
        let Some(representor) = representor else { return Ok(()) };
        steps.during_work(Step::ReleaseFunction, || {
            if is_back {
                if representor.up {
                    host.set_down(representor)?;
                }
                guard::ipv6_as_new(&representor.name)?;
                // Before the note goes with the name: it is all that says what is to be restored.
                restore(&mut host, representor, &function.representor);
                return rename_or_any(&mut host, representor, &function.representor.name);
            }
            let is_returning = |note: &Note| {
                note.function.as_ref().is_some_and(|function| function.used == Use::Returning)
            };
            if noted(representor).is_some_and(|note| is_returning(&note)) {
                // It was seen to: changing it again would only be reported again.
                return if representor.up { host.set_down(representor) } else { Ok(()) };
            }
            let sandbox = &note.sandbox.container;
            tracing::info!(device = %address, sandbox, "the function comes back when the pod's network namespace ends");
            let function = Function { used: Use::Returning, ..function.clone() };
            let text = Note { function: Some(function), ..note.clone() }.to_string();
            // Of a link that is down the kernel does not report that it was noted.
            let settings = LinkSettings { alias: Some(&text), up: true, ..LinkSettings::default() };
            host.set_link(&representor.name, settings)?;
            host.set_down(representor)
        })
    }

    /// Restores the MAC address of a function without a link, if it is known. The next pod sets its own: if this fails nothing is lost.
    fn restore_mac(&self, host: &mut Rtnetlink, address: &PciAddress, mac: Option<MacAddress>) {
        let Some(mac) = mac else { return };
        let restored = self.sysfs.virtual_function(address).and_then(|found| {
            let uplink = host.link(&found.uplink)?.ok_or_else(|| Error::NoLink(found.uplink.clone()))?;
            host.set_function_mac(&uplink, found.index, mac)
        });
        if let Err(error) = restored {
            let error = with_causes(&error);
            tracing::warn!(device = %address, error, "cannot restore the MAC address of a function");
        }
    }

    /// Gives a function's link its own name on the node, wherever it is; false if that cannot be found out.
    fn bring_back(
        &self,
        host: &mut Rtnetlink,
        interface: &str,
        address: &PciAddress,
        former: &FormerLink,
        netns: Option<&OwnedFd>,
    ) -> Result<bool> {
        if let Some(link) = self.link_on_node(host, address)? {
            if link.name == former.name && link.alias.is_none() {
                restore(host, &link, former);
                return Ok(true);
            }
            if link.up {
                host.set_down(&link)?;
            }
            restore(host, &link, former);
            return rename_or_any(host, &link, &former.name).map(|()| true);
        }
        let Some(netns) = netns else { return Ok(false) };
        let mut pod = Rtnetlink::open_in(netns.as_fd())?;
        // A pod may have renamed it.
        let Some(link) = self.find(&mut pod, address, interface)? else { return Ok(false) };
        if let Some(link) = self.move_home(host, &mut pod, &link, address, &former.name)? {
            restore(host, &link, former);
        }
        Ok(true)
    }

    /// The link of a function in a namespace. Where no device is named, its name there is all there is to go by.
    fn find(&self, namespace: &mut Rtnetlink, address: &PciAddress, name: &str) -> Result<Option<Link>> {
        let is_it = |link: &Link| {
            self.sysfs.is_link_of(link, address) && (link.device.is_some() || link.name == name)
        };
        Ok(namespace.links()?.into_iter().find(is_it))
    }

    /// Moves a link out of a pod, under its own name, or under another one if that is taken. Answers it as it is on the node, if that is known.
    fn move_home(
        &self,
        host: &mut Rtnetlink,
        pod: &mut Rtnetlink,
        link: &Link,
        address: &PciAddress,
        name: &str,
    ) -> Result<Option<Link>> {
        let path = "/proc/thread-self/ns/net";
        let node =
            File::open(path).map_err(|source| Error::Kernel { what: format!("open {path}"), source })?;
        match pod.move_link(link, node.as_fd(), name) {
            Err(error) if error.os_error() == Some(EEXIST) => {
                tracing::warn!(name, "a function cannot have its own name again, which another link has");
                match pod.move_link(link, node.as_fd(), ANY_NAME) {
                    // It was moved, and is on the node under the name that the pod gave it, which must not stay.
                    Err(error) if error.os_error() == Some(ENODEV) => {
                        let Some(moved) = self.find(host, address, &link.name)? else { return Err(error) };
                        host.rename(&moved, ANY_NAME, None, None).map(|()| Some(moved))
                    }
                    outcome => outcome.map(|()| None),
                }
            }
            outcome => outcome.and_then(|()| host.link(name)),
        }
    }
}

/// Gives a link that is down its own name, or any if that is taken: it must not stay what it was.
fn rename_or_any(host: &mut Rtnetlink, link: &Link, name: &str) -> Result<()> {
    match host.rename(link, name, None, None) {
        Err(error) if error.os_error() == Some(EEXIST) => {
            tracing::warn!(
                link = link.name,
                name,
                "a link cannot have its own name again, which another one has"
            );
            host.rename(link, ANY_NAME, None, None)
        }
        outcome => outcome,
    }
}

/// Restores what was set of a link for a pod, or by it. The next pod sets what it needs: if this fails nothing is lost.
fn restore(host: &mut Rtnetlink, link: &Link, former: &FormerLink) {
    let Some((mac, mtu)) = former.settings else { return };
    let (mac, mtu) = (Some(mac).filter(|_| link.mac != Some(mac)), Some(mtu).filter(|_| link.mtu != mtu));
    if mac.is_none() && mtu.is_none() {
        return;
    }
    // By its number: another link may have its name.
    if let Err(error) = host.set_link_of(link, LinkSettings { mac, mtu, ..LinkSettings::default() }) {
        let error = with_causes(&error);
        tracing::warn!(link = link.name, error, "cannot restore the MAC address and the MTU of a link");
    }
}
