//! What is known, for people.

use portolan_plan::host::Tag;
use serde_json::{Value, json};

use super::Engine;

impl Engine {
    /// How many units there are, and of how many the last change failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.observed.units().len(), state.failures.len())
    }

    /// What is known of every unit.
    pub(crate) fn dump(&self) -> Value {
        let state = self.state();
        let units = state.observed.units().into_iter().map(|unit| {
            let observed = &state.observed;
            let note = observed.note(&unit);
            let value = json!({
                "sandbox": note.map(|note| &note.sandbox.container),
                "interface": note.map(|note| &note.interface),
                "networkAttachment": match observed.tag(&unit) {
                    Some(Tag::Holder(holder)) => Some(holder.name.as_ref().map(|(namespace, name)| {
                        format!("{namespace}/{name}")
                    })),
                    _ => None,
                },
                "podUid": note.and_then(|note| note.pod_uid.as_ref()),
                "pod": observed.port(&unit).map(|port| &port.pod),
                "ifaceId": observed.port(&unit).and_then(|port| port.iface_id.as_ref()),
                "link": observed.link(&unit).map(|link| link.index),
                "port": observed.port(&unit).is_some(),
                "guard": observed.is_guarded(&unit),
                "function": note.and_then(|note| note.function.as_ref()).map(|function| &function.address),
                "returning": observed.is_returning(&unit),
                "ended": note.is_some_and(|note| state.ended.contains(&note.sandbox)),
                "changing": state.applying.contains_key(&unit),
                "failure": state.failures.get(&unit),
            });
            (unit.to_string(), value)
        });
        Value::Object(units.collect())
    }
}
