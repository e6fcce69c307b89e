//! The node's Open vSwitch: ports of OVN's bridge, by its database.

use std::collections::BTreeMap;

use ovn_schema::vswitch::{Bridge, Interface, Port};
use ovsdb::{Cache, Client, Endpoint, Index, Monitor, Rows, Status, TransactError, Transaction, Uuid};

use crate::call::Sandbox;

/// `external_ids` of ports and interfaces that agents make.
const SANDBOX: &str = "portolan/sandbox";
const CALL: &str = "portolan/call";
const INTERFACE: &str = "portolan/interface";
const NETWORK: &str = "portolan/network";
const OWNER: &str = "portolan/owner";
const POD: &str = "portolan/pod";
/// What OVN reads and writes there.
const IFACE_ID: &str = "iface-id";
const IFACE_ID_VER: &str = "iface-id-ver";
const INSTALLED: &str = "ovn-installed";

/// How frames get from links to flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datapath {
    /// In the kernel.
    System,
    /// In ovs-vswitchd, which reads them by packet sockets.
    Netdev,
}

/// The node's Open vSwitch.
#[derive(Clone)]
pub(crate) struct Vswitch {
    client: Client,
    bridge: String,
}

/// A port to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewPort<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) interface: &'a str,
    pub(crate) network: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) pod_uid: &'a str,
    pub(crate) iface_id: &'a str,
}

/// A port that an agent made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnPort {
    pub(crate) uuid: Uuid,
    /// Also that of its link.
    pub(crate) name: String,
    pub(crate) sandbox: Sandbox,
    pub(crate) interface: String,
    pub(crate) network: String,
}

/// Why a port could not be made or does not work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VswitchError {
    #[error("Open vSwitch has no bridge {0}; ovn-controller makes it")]
    NoBridge(String),
    #[error("Open vSwitch cannot use link {link}: {error}")]
    Link { link: String, error: String },
    #[error("the port of {0} was removed by someone else")]
    Removed(String),
    #[error(transparent)]
    Transact(#[from] TransactError),
    #[error("Open vSwitch answers what cannot be understood")]
    Convert(#[from] ovsdb::ConvertError),
}

impl Vswitch {
    pub(crate) fn connect(endpoint: Endpoint, bridge: &str) -> Self {
        let client = Client::builder("Open_vSwitch", [endpoint])
            .monitor(Monitor::of::<Bridge>().columns(["datapath_type", "name", "ports"]))
            .monitor(
                Monitor::of::<Port>()
                    .columns(["external_ids", "interfaces", "name"])
                    .index(Index::map_key("external_ids", SANDBOX)),
            )
            .monitor(
                Monitor::of::<Interface>()
                    .columns(["error", "external_ids", "name"])
                    .index(Index::map_key("external_ids", IFACE_ID)),
            )
            .connect();
        Self { client, bridge: bridge.to_owned() }
    }

    /// Waits until the copy of the database is in step.
    pub(crate) async fn ready(&self) {
        self.client.ready().await;
    }

    /// Why the copy of the database is not in step, if it is not.
    pub(crate) fn behind(&self) -> Option<String> {
        match &*self.client.status().borrow() {
            Status::Ready { .. } => None,
            Status::Connecting { error: Some(error), .. } => Some(format!("Open vSwitch: {error}")),
            Status::Connecting { error: None, .. } => Some("Open vSwitch is being connected".into()),
            Status::Closed => Some("the connection to Open vSwitch has ended".into()),
        }
    }

    /// The datapath of the bridge; that of the kernel while there is no bridge.
    pub(crate) fn datapath(&self) -> Datapath {
        let cache = self.client.read();
        match self.find_bridge(&cache) {
            Some((_, bridge)) if bridge.datapath_type == "netdev" => Datapath::Netdev,
            _ => Datapath::System,
        }
    }

    /// Waits until there is the bridge, and says what datapath it has.
    pub(crate) async fn bridge_datapath(&self) -> Datapath {
        self.client.wait_for(|cache| self.find_bridge(cache).map(drop)).await;
        self.datapath()
    }

    /// Makes a port with its interface, in one transaction, and takes its `iface-id` off any other that still has it: OVN would
    /// regard both as invalid.
    pub(crate) async fn plug(&self, new: &NewPort<'_>) -> Result<(), VswitchError> {
        let transaction = self.plugging(new)?;
        self.client.transact(&transaction).await?;
        Ok(())
    }

    fn plugging(&self, new: &NewPort<'_>) -> Result<Transaction, VswitchError> {
        let (port, interface) =
            (new.sandbox.row("Port", new.interface), new.sandbox.row("Interface", new.interface));
        let cache = self.client.read();
        let (bridge, _) =
            self.find_bridge(&cache).ok_or_else(|| VswitchError::NoBridge(self.bridge.clone()))?;
        let tags: BTreeMap<String, String> = [
            (SANDBOX, new.sandbox.id.as_str()),
            (CALL, &new.sandbox.call),
            (INTERFACE, new.interface),
            (NETWORK, new.network),
            (OWNER, new.pod_uid),
            (POD, new.pod),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let mut external_ids = tags.clone();
        external_ids.insert(IFACE_ID.into(), new.iface_id.into());
        external_ids.insert(IFACE_ID_VER.into(), new.pod_uid.into());
        let name = new.sandbox.link(new.interface);

        let mut transaction = Transaction::new();
        transaction.require::<Bridge>(bridge);
        let key = ovsdb::Atom::from(new.iface_id);
        for (other, _) in cache.find::<Interface>("external_ids:iface-id", &key) {
            if other != interface {
                let without = Interface::EXTERNAL_IDS.delete_keys([IFACE_ID.to_owned()]);
                transaction.mutate(Rows::uuid(other), [without]).any();
            }
        }
        transaction
            .insert(interface, &Interface { name: name.clone(), external_ids, ..Interface::default() });
        transaction.insert(
            port,
            &Port { name, interfaces: [interface].into(), external_ids: tags, ..Port::default() },
        );
        transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.insert([port])]).expect(1);
        Ok(transaction)
    }

    /// Waits until OVN has installed the flows of an interface.
    pub(crate) async fn installed(&self, sandbox: &Sandbox, interface: &str) -> Result<(), VswitchError> {
        let uuid = sandbox.row("Interface", interface);
        let look = |cache: &Cache| match cache.get::<Interface>(uuid) {
            Err(error) => Some(Err(error.into())),
            Ok(None) => Some(Err(VswitchError::Removed(interface.to_owned()))),
            Ok(Some(row)) => match row.error {
                Some(error) => Some(Err(VswitchError::Link { link: row.name, error })),
                None if row.external_ids.get(INSTALLED).is_some_and(|value| value == "true") => Some(Ok(())),
                None => None,
            },
        };
        self.client.wait_for(look).await
    }

    /// Whether OVN has installed the flows of an interface.
    pub(crate) fn is_installed(&self, sandbox: &Sandbox, interface: &str) -> bool {
        let row = self.client.read().get::<Interface>(sandbox.row("Interface", interface));
        matches!(row, Ok(Some(row)) if row.external_ids.get(INSTALLED).is_some_and(|value| value == "true"))
    }

    /// Waits until the copy of the database has all that was asked for before, by calls that were given up too.
    pub(crate) async fn settle(&self) -> Result<(), VswitchError> {
        let mut nothing = Transaction::new();
        nothing.comment("portolan-agent: what was asked for before?");
        self.client.transact(&nothing).await?;
        Ok(())
    }

    /// The ports of a container, whichever call made them.
    pub(crate) fn ports_of(&self, sandbox: &str) -> Vec<OwnPort> {
        let cache = self.client.read();
        let key = ovsdb::Atom::from(sandbox);
        let ports = cache.find::<Port>("external_ids:portolan/sandbox", &key);
        ports.filter_map(|(uuid, row)| OwnPort::of(uuid, row.ok()?)).collect()
    }

    /// All ports that agents made.
    pub(crate) fn ports(&self) -> Vec<OwnPort> {
        let cache = self.client.read();
        cache.rows::<Port>().filter_map(|(uuid, row)| OwnPort::of(uuid, row.ok()?)).collect()
    }

    /// Takes ports away, whether or not they are there; their rows go with the last reference to them.
    pub(crate) async fn unplug(&self, ports: &[Uuid]) -> Result<(), VswitchError> {
        if ports.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new();
        let bridges: Vec<Uuid> = self.client.read().rows::<Bridge>().map(|(uuid, _)| uuid).collect();
        for bridge in bridges {
            transaction.mutate(Rows::uuid(bridge), [Bridge::PORTS.delete(ports.iter().copied())]).any();
        }
        if !transaction.is_empty() {
            self.client.transact(&transaction).await?;
        }
        Ok(())
    }

    fn find_bridge(&self, cache: &Cache) -> Option<(Uuid, Bridge)> {
        cache
            .rows::<Bridge>()
            .find_map(|(uuid, row)| Some((uuid, row.ok().filter(|row| row.name == self.bridge)?)))
    }
}

impl OwnPort {
    fn of(uuid: Uuid, row: Port) -> Option<Self> {
        let mut tags = row.external_ids;
        Some(Self {
            uuid,
            name: row.name,
            sandbox: Sandbox { id: tags.remove(SANDBOX)?, call: tags.remove(CALL)? },
            interface: tags.remove(INTERFACE)?,
            network: tags.remove(NETWORK).unwrap_or_default(),
        })
    }
}
