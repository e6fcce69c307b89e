//! Elements of maps and sets, as nft's commands have them and as it lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Address, Clients, Element, FAMILY, Protocol, TABLE};
use crate::nft::Ip;

/// A set, or one of the two maps that translate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Set {
    NodePorts(Clients, Part),
    Addresses(Clients, Part),
    Guarded,
    Admitted,
    Pods,
    Nodes,
}

/// What a map has of where something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Address,
    Port,
}

impl Set {
    pub(super) const ALL: [Set; 12] = [
        Set::NodePorts(Clients::All, Part::Address),
        Set::NodePorts(Clients::All, Part::Port),
        Set::NodePorts(Clients::Outside, Part::Address),
        Set::NodePorts(Clients::Outside, Part::Port),
        Set::Addresses(Clients::All, Part::Address),
        Set::Addresses(Clients::All, Part::Port),
        Set::Addresses(Clients::Outside, Part::Address),
        Set::Addresses(Clients::Outside, Part::Port),
        Set::Guarded,
        Set::Admitted,
        Set::Pods,
        Set::Nodes,
    ];

    pub(super) fn name(self, family: Ip) -> String {
        let (name, part) = match self {
            Set::NodePorts(Clients::All, part) => ("node-ports", Some(part)),
            Set::NodePorts(Clients::Outside, part) => ("outside-node-ports", Some(part)),
            Set::Addresses(Clients::All, part) => ("addresses", Some(part)),
            Set::Addresses(Clients::Outside, part) => ("outside-addresses", Some(part)),
            Set::Guarded => ("guarded", None),
            Set::Admitted => ("admitted", None),
            Set::Pods => ("pods", None),
            Set::Nodes => ("nodes", None),
        };
        let version = match family {
            Ip::V4 => "v4",
            Ip::V6 => "v6",
        };
        let part = if part == Some(Part::Port) { "-port" } else { "" };
        format!("{name}-{version}{part}")
    }
}

impl Protocol {
    /// Its number: whether a host has names for it is not known.
    fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
}

impl Address {
    fn json(&self) -> [Value; 3] {
        [json!(self.ip), json!(self.protocol.number()), json!(self.port)]
    }
}

impl Element {
    /// What it is in which sets. Of a map: what is translated, and to what.
    fn entries(&self) -> impl Iterator<Item = (Set, Ip, Value, Option<Value>)> {
        let concat = |parts: &[Value]| json!({ "concat": parts });
        let translated = |key: Value, to: &SocketAddr, set: &dyn Fn(Part) -> Set| {
            let family = Ip::of(to.ip());
            let address = (set(Part::Address), family, key.clone(), Some(json!(to.ip())));
            vec![address, (set(Part::Port), family, key, Some(json!(to.port())))]
        };
        let entries = match self {
            Element::NodePort { from, protocol, port, to } => {
                let key = concat(&[json!(protocol.number()), json!(port)]);
                translated(key, to, &|part| Set::NodePorts(*from, part))
            }
            Element::Address { from, address, to } => {
                translated(concat(&address.json()), to, &|part| Set::Addresses(*from, part))
            }
            Element::Guarded(address) => {
                vec![(Set::Guarded, Ip::of(address.ip), concat(&address.json()), None)]
            }
            Element::Admitted(address, network) => {
                let [ip, protocol, port] = address.json();
                let key = concat(&[ip, protocol, port, prefix(network)]);
                vec![(Set::Admitted, Ip::of(address.ip), key, None)]
            }
            Element::Pods(network) => vec![(Set::Pods, Ip::of(network.addr()), prefix(network), None)],
            Element::Node(address) => vec![(Set::Nodes, Ip::of(*address), json!(address), None)],
        };
        entries.into_iter()
    }
}

fn prefix(network: &IpNet) -> Value {
    json!({ "prefix": { "addr": network.network(), "len": network.prefix_len() } })
}

/// Commands that add or delete elements: one for each set.
pub(super) fn commands<'a>(
    verb: &'a str,
    elements: impl IntoIterator<Item = &'a Element>,
) -> impl Iterator<Item = Value> {
    let mut by_set = BTreeMap::<(Set, Ip), Vec<Value>>::new();
    for (set, family, key, data) in elements.into_iter().flat_map(Element::entries) {
        let element = match data.filter(|_| verb == "add") {
            Some(data) => json!([key, data]),
            None => key,
        };
        by_set.entry((set, family)).or_default().push(element);
    }
    by_set.into_iter().map(move |((set, family), elements)| {
        json!({ verb: { "element": { "family": FAMILY, "table": TABLE, "name": set.name(family), "elem": elements } } })
    })
}

/// An element of a set with this name, whichever way it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fact(String, Vec<Atom>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    Network(IpNet),
    Number(u64),
    /// What no element of ours has.
    Other(String),
}

pub(super) fn facts<'a>(elements: impl IntoIterator<Item = &'a Element>) -> BTreeSet<Fact> {
    let entries = elements.into_iter().flat_map(Element::entries);
    let fact = |(set, family, key, data): (Set, Ip, Value, Option<Value>)| {
        let mut atoms = Vec::new();
        read(&key, &mut atoms);
        data.iter().for_each(|data| read(data, &mut atoms));
        Fact(set.name(family), atoms)
    };
    entries.map(fact).collect()
}

/// Takes the elements out of objects of a listing.
pub(super) fn take_facts(objects: &mut [Value]) -> BTreeSet<Fact> {
    let mut facts = BTreeSet::new();
    for fields in objects.iter_mut().filter_map(Value::as_object_mut).flat_map(|object| object.values_mut()) {
        let name = fields["name"].as_str().unwrap_or_default().to_owned();
        let elements = fields.as_object_mut().and_then(|fields| fields.remove("elem"));
        for element in elements.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let mut atoms = Vec::new();
            read(element, &mut atoms);
            facts.insert(Fact(name.clone(), atoms));
        }
    }
    facts
}

/// nft writes an address for a network of one, and names for numbers where the host has some.
fn read(value: &Value, atoms: &mut Vec<Atom>) {
    let network = |prefix: &Value| -> Option<IpNet> {
        format!("{}/{}", prefix["addr"].as_str()?, prefix["len"]).parse().ok()
    };
    match value {
        Value::Array(parts) => parts.iter().for_each(|part| read(part, atoms)),
        Value::Object(fields) if fields.contains_key("concat") => read(&fields["concat"], atoms),
        Value::Number(number) => atoms.extend(number.as_u64().map(Atom::Number)),
        Value::String(text) => atoms.push(match text.as_str() {
            "tcp" => Atom::Number(Protocol::Tcp.number().into()),
            "udp" => Atom::Number(Protocol::Udp.number().into()),
            "sctp" => Atom::Number(Protocol::Sctp.number().into()),
            text => match text.parse::<IpAddr>() {
                Ok(address) => Atom::Network(address.into()),
                Err(_) => Atom::Other(text.to_owned()),
            },
        }),
        other => atoms.push(match network(&other["prefix"]) {
            Some(network) => Atom::Network(network),
            None => Atom::Other(other.to_string()),
        }),
    }
}
