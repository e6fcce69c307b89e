//! Queries of OVN's databases, over `unix:`, `tcp:` or `ssl:`. Nothing is kept and nothing is written.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ovn_schema::nb;
use ovn_schema::sb::{Chassis, DatapathBinding, Encap, LogicalFlow, PortBinding};
use ovsdb::{Client, Endpoints, Members, OperationResult, Status, TlsFiles};
use ovsdb_core::column::ClauseOf;
use ovsdb_core::{Clause, Operation, Row, SmolStr, Transaction, TypedRow, Uuid};
use portolan_plan::tag;

use crate::error::OvnError;
use crate::observed::{Binding, Datapath, DatapathKind, Rows, prefix};
use crate::ovn_trace::output::Flow;

/// How long a database may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// The tables whose rows logical flows are made for.
const RULE_TABLES: [&str; 9] = [
    nb::LogicalRouterStaticRoute::TABLE,
    nb::LogicalRouterPolicy::TABLE,
    nb::Acl::TABLE,
    nb::LoadBalancer::TABLE,
    nb::Nat::TABLE,
    nb::LogicalRouterPort::TABLE,
    nb::LogicalSwitchPort::TABLE,
    nb::LogicalRouter::TABLE,
    nb::LogicalSwitch::TABLE,
];

/// The northbound database.
#[derive(Clone)]
pub(crate) struct Northbound(Database);

/// The southbound database.
#[derive(Clone)]
pub(crate) struct Southbound(Database);

#[derive(Clone)]
struct Database {
    name: &'static str,
    client: Client,
}

impl Database {
    fn connect(
        name: &'static str,
        schema: &'static str,
        endpoints: Endpoints,
        tls: Option<&TlsFiles>,
    ) -> Self {
        let builder = Client::builder(schema, endpoints).members(Members::Any);
        let builder = match tls {
            Some(tls) => builder.tls(tls.clone()),
            None => builder,
        };
        Self { name, client: builder.connect() }
    }

    /// The rows that each query finds.
    async fn select(&self, queries: Vec<Operation>) -> Result<Vec<Vec<Row>>, OvnError> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let mut transaction = Transaction::new();
        for query in queries {
            transaction.push(query);
        }
        let answer = async {
            self.client.ready().await;
            self.client.transact(&transaction).await
        };
        let reply = match tokio::time::timeout(DEADLINE, answer).await {
            Ok(reply) => reply.map_err(|source| OvnError::Refused { database: self.name, source })?,
            Err(_) => return Err(OvnError::Unreachable { database: self.name, why: self.why_not_ready() }),
        };
        let rows = reply.results.into_iter().map(|result| match result {
            OperationResult::Rows(rows) => rows,
            _ => Vec::new(),
        });
        Ok(rows.collect())
    }

    fn why_not_ready(&self) -> String {
        match &*self.client.status().borrow() {
            Status::Connecting { error: Some(error), .. } => error.to_string(),
            _ => format!("no answer within {} s", DEADLINE.as_secs()),
        }
    }
}

fn query(table: &'static str, condition: Vec<Clause>) -> Operation {
    Operation::Select { table: SmolStr::new_static(table), condition, columns: None }
}

fn typed<R: TypedRow>(clauses: impl IntoIterator<Item = ClauseOf<R>>) -> Operation {
    query(R::TABLE, clauses.into_iter().map(ClauseOf::into_clause).collect())
}

impl Northbound {
    pub(crate) fn connect(endpoints: Endpoints, tls: Option<&TlsFiles>) -> Self {
        Self(Database::connect("northbound", "OVN_Northbound", endpoints, tls))
    }

    /// Adds the rows of these tables and UUIDs that are there.
    pub(crate) async fn read(
        &self,
        wanted: impl IntoIterator<Item = (&'static str, Uuid)>,
        rows: &mut Rows,
    ) -> Result<(), OvnError> {
        // Rows are found by UUID without a look at the others.
        let queries =
            wanted.into_iter().map(|(table, uuid)| query(table, vec![Clause::uuid(uuid)])).collect();
        rows.extend(self.0.select(queries).await?.into_iter().flatten());
        Ok(())
    }

    /// Adds the rows that logical flows were made for, by the first 32 bits of their UUIDs. What is not found is noted.
    pub(crate) async fn read_rules(&self, prefixes: &BTreeSet<u32>, rows: &mut Rows) -> Result<(), OvnError> {
        let unknown: Vec<u32> =
            prefixes.iter().copied().filter(|prefix| rows.by_prefix(*prefix).is_none()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        // Only UUIDs are read of all rows: it happens for rows that Portolan did not plan.
        let uuids = RULE_TABLES.map(|table| Operation::Select {
            table: SmolStr::new_static(table),
            condition: Vec::new(),
            columns: Some(vec![SmolStr::new_static("_uuid")]),
        });
        let found = self.0.select(uuids.into()).await?;
        let tables = RULE_TABLES.into_iter().zip(found);
        let wanted: Vec<_> = tables
            .flat_map(|(table, found)| found.into_iter().map(move |row| (table, row.uuid())))
            .filter(|(_, uuid)| unknown.contains(&prefix(*uuid)))
            .collect();
        self.read(wanted, rows).await?;
        for prefix in unknown {
            if rows.by_prefix(prefix).is_none() {
                rows.is_missing(prefix);
            }
        }
        Ok(())
    }
}

impl Southbound {
    pub(crate) fn connect(endpoints: Endpoints, tls: Option<&TlsFiles>) -> Self {
        Self(Database::connect("southbound", "OVN_Southbound", endpoints, tls))
    }

    /// Where logical ports are; none of a port that is not there.
    pub(crate) async fn bindings(&self, ports: &[&str]) -> Result<Vec<Option<Binding>>, OvnError> {
        let queries = ports.iter().map(|port| typed([PortBinding::LOGICAL_PORT.equals(&(*port).to_owned())]));
        let found = self.0.select(queries.collect()).await?;
        let found: Vec<Option<PortBinding>> =
            found.iter().map(|rows| rows.first().and_then(|row| PortBinding::decode(row).ok())).collect();
        let chassis = found.iter().flatten().filter_map(|binding| binding.chassis);
        let queries = chassis.map(|uuid| query(Chassis::TABLE, vec![Clause::uuid(uuid)])).collect();
        let chassis: HashMap<Uuid, String> = self
            .0
            .select(queries)
            .await?
            .into_iter()
            .flatten()
            .filter_map(|row| Some((row.uuid(), row.get("name").ok()?)))
            .collect();
        let binding = |binding: PortBinding| Binding {
            chassis: binding.chassis.and_then(|uuid| chassis.get(&uuid).cloned()),
            up: binding.up == Some(true),
        };
        Ok(found.into_iter().map(|found| found.map(binding)).collect())
    }

    /// The ends of the tunnel between two chassis: `geneve 172.31.0.11 → 172.31.0.12`; none if they have no common one.
    pub(crate) async fn tunnel(&self, from: &str, to: &str) -> Result<Option<String>, OvnError> {
        let of = |chassis: &str| typed([Encap::CHASSIS_NAME.equals(&chassis.to_owned())]);
        let found = self.0.select(vec![of(from), of(to)]).await?;
        let decoded =
            found.iter().map(|rows| rows.iter().filter_map(|row| Encap::decode(row).ok()).collect());
        let [from, to]: [Vec<Encap>; 2] = decoded.collect::<Vec<_>>().try_into().unwrap_or_default();
        let pair =
            from.iter().find_map(|one| Some((one, to.iter().find(|other| other.r#type == one.r#type)?)));
        Ok(pair.map(|(one, other)| format!("{} {} → {}", one.r#type, one.ip, other.ip)))
    }

    /// Logical switches and routers by name, each with the UUID of its row in the northbound database.
    pub(crate) async fn datapaths(
        &self,
        names: &BTreeSet<&str>,
    ) -> Result<Vec<(String, Uuid, DatapathKind, Uuid)>, OvnError> {
        let by_name = |name: &&str| {
            let id = [("name".to_owned(), (*name).to_owned())].into();
            typed([DatapathBinding::EXTERNAL_IDS.includes(&id)])
        };
        let found = self.0.select(names.iter().map(by_name).collect()).await?;
        let datapaths = names.iter().zip(found).filter_map(|(name, rows)| {
            let row = rows.into_iter().next()?;
            let ids = DatapathBinding::decode(&row).ok()?.external_ids;
            let uuid = |key: &str| ids.get(key).and_then(|uuid| uuid.parse().ok());
            let (kind, northbound) = uuid("logical-switch")
                .map(|uuid| (DatapathKind::Switch, uuid))
                .or_else(|| Some((DatapathKind::Router, uuid("logical-router")?)))?;
            Some(((*name).to_owned(), row.uuid(), kind, northbound))
        });
        Ok(datapaths.collect())
    }

    /// Of logical flows by the first 32 bits of their UUIDs: the first 32 bits of the UUID of the row that they were made for.
    pub(crate) async fn hints(&self, flows: &[&Flow]) -> Result<HashMap<u32, u32>, OvnError> {
        let of_flow = |flow: &&Flow| {
            typed([
                LogicalFlow::PIPELINE.equals(&flow.pipeline.name().to_owned()),
                LogicalFlow::TABLE_ID.equals(&flow.table),
                LogicalFlow::PRIORITY.equals(&flow.priority.unwrap_or_default()),
                LogicalFlow::MATCH.equals(&flow.matches),
            ])
        };
        let found = self.0.select(flows.iter().map(of_flow).collect()).await?;
        Ok(found.iter().flatten().filter_map(|row| Some((prefix(row.uuid()), hint(row)?))).collect())
    }

    /// The rows for which a router has routing flows, by the first 32 bits of their UUIDs. `flow` is one of its routing table;
    /// the next table has the next hops of routes that share the load.
    pub(crate) async fn routes_in_effect(
        &self,
        router: Uuid,
        flow: &Flow,
    ) -> Result<BTreeSet<u32>, OvnError> {
        let flows = |table: i64| {
            typed([
                LogicalFlow::LOGICAL_DATAPATH.equals(&Some(router)),
                LogicalFlow::PIPELINE.equals(&flow.pipeline.name().to_owned()),
                LogicalFlow::TABLE_ID.equals(&table),
            ])
        };
        let found = self.0.select(vec![flows(flow.table), flows(flow.table + 1)]).await?;
        Ok(found.iter().flatten().filter_map(hint).collect())
    }
}

fn hint(row: &Row) -> Option<u32> {
    let flow = LogicalFlow::decode(row).ok()?;
    u32::from_str_radix(flow.external_ids.get("stage-hint")?, 16).ok()
}

/// A datapath with what its row in the northbound database says.
pub(crate) fn datapath(kind: DatapathKind, row: Option<&Row>) -> Datapath {
    let unit = row.and_then(tag::unit_of).and_then(|unit| unit.parse().ok());
    Datapath { unit, kind }
}
