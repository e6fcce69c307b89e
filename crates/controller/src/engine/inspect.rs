//! What the engine knows, for people who look for the reason of something.

use portolan_model::{Requester, Unit};
use portolan_plan::{Plan, Rows, plan};
use serde_json::{Value, json};

use super::{Engine, Subject};

impl Engine {
    /// How much there is of everything.
    pub fn inspect_world(&self) -> Value {
        let (world, queues) = (&self.world, self.queues());
        let unlisted: Vec<String> = self.unlisted.iter().map(|kind| format!("{kind:?}")).collect();
        json!({
            "active": !self.stands_by(),
            "unlisted": unlisted,
            "counts": {
                "vpcs": world.vpcs().count(),
                "peerings": world.peerings().count(),
                "subnets": world.subnets().count(),
                "attachments": world.attachments().count(),
                "nodes": world.nodes().count(),
                "locks": world.locks().count(),
                "unreadableLocks": world.unreadable_locks().count(),
                "unsatisfiedRequesters": world.unsatisfied().count(),
            },
            "queues": {
                "requesters": queues.requesters,
                "requestersWaiting": queues.requesters_waiting,
                "units": queues.units,
                "unitsWaiting": queues.units_waiting,
                "locksCreating": queues.locks_creating,
                "locksReleasing": queues.locks_releasing,
            },
        })
    }

    /// What is known of a unit.
    pub fn inspect_unit(&self, unit: &Unit) -> Value {
        json!({
            "unit": unit.to_string(),
            "state": format!("{:?}", self.world.state(unit)),
            "owner": self.world.owner(unit).as_deref(),
            "toBeCompared": self.northbound.is_pending(unit),
            "value": self.world.view(unit).map(|view| format!("{view:#?}")),
        })
    }

    /// Who waits for what: the first so many of each. Why the requesters wait, [`Engine::inspect_requesters`] says.
    pub fn inspect_waiting(&self, most: usize) -> (Value, Vec<Requester>) {
        let requesters: Vec<Requester> = self.world.unsatisfied().take(most).cloned().collect();
        let units: Vec<Value> = self
            .northbound
            .waiting_units()
            .take(most)
            .map(|(unit, row)| json!({"unit": unit.to_string(), "row": row.to_string()}))
            .collect();
        let terminating = self.finalizers.terminating().take(most);
        let terminating: Vec<Value> = terminating
            .map(|(Subject { api_version, kind, name, .. }, users)| {
                json!({"apiVersion": api_version, "kind": kind, "name": name, "knownUsers": users})
            })
            .collect();
        let releasing: Vec<&String> = self.releasing.keys().take(most).collect();
        let waiting = json!({
            "requesters": [],
            "requestersInTotal": self.world.unsatisfied().count(),
            "units": units,
            "unitsInTotal": self.northbound.waiting(),
            "locksBeingCreated": self.creating.names().take(most).collect::<Vec<_>>(),
            "locksBeingReleased": releasing,
            "terminating": terminating,
        });
        (waiting, requesters)
    }

    /// Why these requesters wait. Each costs a decision.
    pub fn inspect_requesters(&self, requesters: &[Requester]) -> Vec<Value> {
        requesters.iter().map(|requester| self.inspect_requester(requester)).collect()
    }

    fn inspect_requester(&self, requester: &Requester) -> Value {
        let Subject { kind, namespace, name, .. } = Subject::from(requester);
        let decision = self.ipam.decide(&self.world, requester);
        let reasons: Vec<Value> = decision
            .refusals
            .iter()
            .map(|refusal| json!({"reason": refusal.reason(), "message": refusal.to_string()}))
            .collect();
        let keys: Vec<String> = self.waiters.waits_for(requester).map(|key| format!("{key:?}")).collect();
        json!({"kind": kind, "namespace": namespace, "name": name, "reasons": reasons, "inLineFor": keys})
    }

    /// What a unit should have in the northbound database.
    pub fn desired(&self, unit: &Unit) -> Plan<Rows> {
        plan(unit, &self.world, &self.plan_settings)
    }
}
