//! Settings of Open vSwitch that make the node a chassis, and OVN's bridge.

use std::collections::BTreeMap;

use ovn_schema::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use ovsdb::{Rows, Transaction, Uuid};
use portolan_plan::host::Datapath;
use portolan_plan::row_uuid;

use super::{Vswitch, find_bridge, root};
use crate::chassis::{Chassis, datapath_name};

const SECURE: &str = "secure";
const DISABLE_IN_BAND: (&str, &str) = ("disable-in-band", "true");

impl Vswitch {
    /// `external_ids` of Open vSwitch, the datapath of OVN's bridge if there is one, and Open vSwitch's version.
    pub(crate) fn chassis_found(&self) -> (BTreeMap<String, String>, Option<Datapath>, Option<String>) {
        let cache = self.client.read();
        let row = root(&cache).map(|(_, row)| row).unwrap_or_default();
        (row.external_ids, self.datapath(&cache), row.ovs_version)
    }

    /// Makes settings and bridge as they should be; false if they are.
    pub(crate) async fn assert_chassis(&self, chassis: &Chassis) -> Result<bool, String> {
        let transaction = self.chassis_transaction(chassis);
        if transaction.is_empty() {
            return Ok(false);
        }
        let outcome = self.client.transact(&transaction).await;
        outcome.map(|_| true).map_err(|error| error.to_string())
    }

    fn chassis_transaction(&self, chassis: &Chassis) -> Transaction {
        let cache = self.client.read();
        let mut transaction = Transaction::new();
        let owned = |(key, value): (&&'static str, &String)| ((*key).to_owned(), value.clone());
        let Some((root, row)) = root(&cache) else {
            // A database that is new has no rows at all.
            let external_ids = chassis.external_ids.iter().map(owned).collect();
            let row = OpenVSwitch { external_ids, ..OpenVSwitch::default() };
            transaction.insert(row_uuid("Open_vSwitch", "", &self.bridge, ""), &row);
            return transaction;
        };
        let differs = |(key, value): &(&&'static str, &String)| row.external_ids.get(**key) != Some(*value);
        let different: Vec<_> = chassis.external_ids.iter().filter(differs).map(owned).collect();
        if !different.is_empty() {
            // An insertion leaves a key alone that is there.
            let keys = different.iter().map(|(key, _)| key.clone());
            let changes = [
                OpenVSwitch::EXTERNAL_IDS.delete_keys(keys),
                OpenVSwitch::EXTERNAL_IDS.insert(different.clone()),
            ];
            transaction.mutate(Rows::uuid(root), changes).any();
        }
        match find_bridge(&cache, &self.bridge) {
            None => self.insert_bridge(&mut transaction, root, chassis.datapath),
            Some((bridge, row)) => {
                if row.fail_mode.as_deref() != Some(SECURE) {
                    let secure = Bridge::FAIL_MODE.set(&Some(SECURE.to_owned()));
                    transaction.update(Rows::uuid(bridge), [secure]).any();
                }
                let (key, value) = DISABLE_IN_BAND;
                if row.other_config.get(key).is_none_or(|is| is != value) {
                    let changes = [
                        Bridge::OTHER_CONFIG.delete_keys([key.to_owned()]),
                        Bridge::OTHER_CONFIG.insert([(key.to_owned(), value.to_owned())]),
                    ];
                    transaction.mutate(Rows::uuid(bridge), changes).any();
                }
            }
        }
        transaction
    }

    /// With the port that every bridge has.
    fn insert_bridge(&self, transaction: &mut Transaction, root: Uuid, datapath: Datapath) {
        let name = &self.bridge;
        let [bridge, port, interface] =
            ["Bridge", "Port", "Interface"].map(|table| row_uuid(table, "", name, ""));
        let (key, value) = DISABLE_IN_BAND;
        transaction.require::<OpenVSwitch>(root);
        transaction.insert(
            interface,
            &Interface { name: name.clone(), r#type: "internal".into(), ..Interface::default() },
        );
        transaction
            .insert(port, &Port { name: name.clone(), interfaces: [interface].into(), ..Port::default() });
        transaction.insert(
            bridge,
            &Bridge {
                name: name.clone(),
                ports: [port].into(),
                datapath_type: datapath_name(datapath).into(),
                fail_mode: Some(SECURE.into()),
                other_config: BTreeMap::from([(key.to_owned(), value.to_owned())]),
                ..Bridge::default()
            },
        );
        transaction.mutate(Rows::uuid(root), [OpenVSwitch::BRIDGES.insert([bridge])]).expect(1);
    }
}
