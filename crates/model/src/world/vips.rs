//! Vips. Each holds addresses of its own, and has no port.

use portolan_api::portolan::{Holder, HolderKind};

use super::evaluation::Evaluation;
use super::{Source, World};
use crate::attachment::{AttachmentId, VIP_INTERFACE};
use crate::dirty::Dirty;
use crate::doors;
use crate::holder::Read;
use crate::request::{InterfaceRequest, Requester};
use crate::unreadable::Unreadable;
use crate::vip::Vip;

impl World {
    /// A Vip.
    pub fn vip(&self, name: &str) -> Option<&Vip> {
        self.vips.get(name)
    }

    /// What holds the addresses of a Vip.
    pub fn vip_id(vip: &Vip) -> Option<AttachmentId> {
        AttachmentId::new(&holder(vip), VIP_INTERFACE)
    }

    pub(super) fn set_vip(&mut self, name: &str, new: Option<Vip>, dirty: &mut Dirty) {
        if self.vips.get(name) == new.as_ref() {
            return;
        }
        match new {
            Some(vip) => drop(self.vips.insert(name.to_owned(), vip)),
            None => drop(self.vips.remove(name)),
        }
        self.reconsider(&Requester::vip(name), dirty);
    }

    pub(super) fn evaluate_vip(&self, name: &str, requester: &Requester) -> Option<Evaluation<'_>> {
        let vip = self.vips.get(name)?;
        let mut evaluation = Evaluation::new(self, requester, "", String::new());
        evaluation.topics.clear();
        evaluation.request.holder = holder(vip);
        match &vip.config {
            Err(errors) => evaluation.request.problems.extend(errors.iter().cloned()),
            Ok(config) => {
                if evaluation.usable(&config.subnet, "spec.subnet").is_some() {
                    evaluation.request.interfaces.push(InterfaceRequest {
                        addresses: config.addresses.clone(),
                        mac: config.mac,
                        path: "spec".to_owned(),
                        ..InterfaceRequest::new(VIP_INTERFACE, &config.subnet)
                    });
                }
            }
        }
        Some(evaluation)
    }
}

fn holder(vip: &Vip) -> Holder {
    Holder {
        kind: HolderKind::Vip,
        namespace: None,
        name: vip.name.clone(),
        uid: vip.uid.clone(),
        interface: None,
    }
}

impl Source for Vip {
    type Key = String;
    fn key(&self) -> String {
        self.name.clone()
    }
    fn put(&self, world: &mut World, dirty: &mut Dirty) {
        world.set_vip(&self.name, Some(self.clone()), dirty);
    }
    fn put_unreadable(object: &Unreadable<'_>, world: &mut World, dirty: &mut Dirty) {
        doors::kubeovn::unreadable_vip(object).put(world, dirty);
    }
    fn remove(key: &String, world: &mut World, dirty: &mut Dirty) {
        world.set_vip(key, None, dirty);
    }
    fn keys(world: &World) -> Vec<String> {
        world.vips.keys().cloned().collect()
    }
    fn read(key: &String) -> Option<Read> {
        Some(Read::Vip { name: key.clone() })
    }
}
