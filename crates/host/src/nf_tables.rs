//! nf_tables by netlink, as far as guards need it: transactions on chains of links, and chains with their rules as the kernel has them.
//!
//! A process of `nft` takes some 5 ms, and reads all chains that there are before it adds one; a pod's guard would take longer than everything
//! else that its interface needs. By netlink it is one message of a few hundred bytes.

use std::collections::BTreeMap;

use nix::libc::ENOENT;
use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{
    ACK, APPEND, Attributes, CREATE, DUMP, Message, Request, Socket, attribute, attributes,
};

/// The part of nfnetlink that is nf_tables, and its messages.
const SUBSYSTEM: u8 = 10;
const NEW_TABLE: u16 = message(0);
const DELETE_TABLE: u16 = message(2);
const NEW_CHAIN: u16 = message(3);
const GET_CHAIN: u16 = message(4);
const DELETE_CHAIN: u16 = message(5);
const NEW_RULE: u16 = message(6);
const GET_RULE: u16 = message(7);
const DELETE_RULE: u16 = message(8);

/// `NFPROTO_NETDEV`: chains of what comes in by a link, before anything else sees it.
const NETDEV: u8 = 5;
/// What every message begins with: family, version, and a number that only batches use.
const HEADER: [u8; 4] = [NETDEV, 0, 0, 0];

const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_LINK: u16 = 3;
/// `NF_NETDEV_INGRESS`
const INGRESS: u32 = 0;
/// `NF_DROP` and `NF_ACCEPT`
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// `NFT_REG_1`, by which one expression passes a value to the next, and `NFT_REG_VERDICT`.
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;
/// `NFT_META_PROTOCOL`
const META_PROTOCOL: u32 = 1;
/// `NFT_FIB_RESULT_ADDRTYPE`, `NFTA_FIB_F_DADDR` and `NFTA_FIB_F_IIF`
const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_OF_DESTINATION: u32 = 2;
const FIB_BY_LINK: u32 = 8;
/// `RTN_LOCAL`
const LOCAL: u32 = 2;

const fn message(number: u16) -> u16 {
    ((SUBSYSTEM as u16) << 8) | number
}

/// Changes of which the kernel makes all or none.
#[derive(Debug, Default)]
pub(crate) struct Transaction(Vec<Request>);

/// A part of a rule. What comes after one that does not match is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// The frame is of this protocol, by the number that its Ethernet header has.
    Protocol(u16),
    /// It is for an address of the link that it came in by.
    ForThatLink,
    /// It passes.
    Accept,
}

/// A chain of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) name: String,
    /// Whether what no rule accepts is dropped.
    pub(crate) drops: bool,
    /// Its rules, in order; none of one that has other expressions than these.
    pub(crate) rules: Vec<Option<Vec<Expression>>>,
}

impl Transaction {
    /// Makes a table, unless it is there.
    pub(crate) fn add_table(self, table: &str) -> Self {
        self.with(NEW_TABLE, CREATE, &Attributes::default().text(TABLE_NAME, table))
    }

    /// Removes a table and all that is in it.
    pub(crate) fn delete_table(self, table: &str) -> Self {
        self.with(DELETE_TABLE, 0, &Attributes::default().text(TABLE_NAME, table))
    }

    /// Makes a chain that drops what comes in by a link and no rule accepts. One that is there keeps its rules.
    pub(crate) fn add_dropping_chain(self, table: &str, chain: &str, link: &str, priority: i32) -> Self {
        let hook = Attributes::default()
            .push(HOOK_NUMBER, &INGRESS.to_be_bytes())
            .push(HOOK_PRIORITY, &priority.to_be_bytes())
            .text(HOOK_LINK, link);
        let chain = Attributes::default()
            .text(CHAIN_TABLE, table)
            .text(CHAIN_NAME, chain)
            .nest(CHAIN_HOOK, &hook)
            .push(CHAIN_POLICY, &DROP.to_be_bytes())
            .text(CHAIN_TYPE, "filter");
        self.with(NEW_CHAIN, CREATE, &chain)
    }

    /// Removes a chain and its rules.
    pub(crate) fn delete_chain(self, table: &str, chain: &str) -> Self {
        let chain = Attributes::default().text(CHAIN_TABLE, table).text(CHAIN_NAME, chain);
        self.with(DELETE_CHAIN, 0, &chain)
    }

    /// Removes the rules of a chain.
    pub(crate) fn flush(self, table: &str, chain: &str) -> Self {
        let rules = Attributes::default().text(RULE_TABLE, table).text(RULE_CHAIN, chain);
        self.with(DELETE_RULE, 0, &rules)
    }

    /// Adds a rule at the end of a chain.
    pub(crate) fn add_rule(self, table: &str, chain: &str, expressions: &[Expression]) -> Self {
        let list = expressions.iter().fold(Attributes::default(), |list, one| one.push_to(list));
        let rule = Attributes::default()
            .text(RULE_TABLE, table)
            .text(RULE_CHAIN, chain)
            .nest(RULE_EXPRESSIONS, &list);
        self.with(NEW_RULE, CREATE | APPEND, &rule)
    }

    fn with(mut self, kind: u16, flags: u16, attributes: &Attributes) -> Self {
        self.0.push(Request { kind, flags, payload: [&HEADER[..], &attributes.0].concat() });
        self
    }

    /// Has the kernel make the changes, in the calling thread's network namespace.
    pub(crate) fn commit(self, what: impl Fn() -> String) -> Result<()> {
        Socket::open(SockProtocol::NetlinkNetFilter)?.transact(SUBSYSTEM, &self.0, what)
    }
}

impl Expression {
    fn push_to(self, list: Attributes) -> Attributes {
        let number = |kind, value: u32| Attributes::default().push(kind, &value.to_be_bytes());
        let is = |value: &[u8]| {
            let value = Attributes::default().push(1, value);
            number(1, REGISTER).push(2, &0_u32.to_be_bytes()).nest(3, &value)
        };
        match self {
            Expression::Protocol(protocol) => {
                // Into the register, which is to be equal.
                let load = number(1, REGISTER).push(2, &META_PROTOCOL.to_be_bytes());
                element(element(list, "meta", &load), "cmp", &is(&protocol.to_be_bytes()))
            }
            Expression::ForThatLink => {
                // The type of the destination as seen from the link, a number of the machine's byte order.
                let load = number(1, REGISTER)
                    .push(2, &FIB_ADDRESS_TYPE.to_be_bytes())
                    .push(3, &(FIB_OF_DESTINATION | FIB_BY_LINK).to_be_bytes());
                element(element(list, "fib", &load), "cmp", &is(&LOCAL.to_ne_bytes()))
            }
            Expression::Accept => {
                let verdict = Attributes::default().nest(2, &number(1, ACCEPT));
                element(list, "immediate", &number(1, VERDICT).nest(2, &verdict))
            }
        }
    }
}

/// Adds an expression of the kernel's to a list.
fn element(list: Attributes, name: &str, data: &Attributes) -> Attributes {
    let expression = Attributes::default().text(EXPRESSION_NAME, name).nest(EXPRESSION_DATA, data);
    list.nest(LIST_ELEMENT, &expression)
}

/// Asks about chains of links in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Lister(Socket);

impl Lister {
    pub(crate) fn open() -> Result<Self> {
        Socket::open(SockProtocol::NetlinkNetFilter).map(Self)
    }

    /// All chains of a table, in the kernel's order.
    pub(crate) fn chains(&mut self, table: &str, what: impl Fn() -> String) -> Result<Vec<Chain>> {
        let answer = self.0.ask(GET_CHAIN, DUMP, &HEADER, &what)?;
        let mut chains: Vec<_> = answer.iter().filter_map(|message| read_chain(message, table)).collect();
        let of_table = Attributes::default().text(RULE_TABLE, table);
        let rules = self.0.ask(GET_RULE, DUMP, &[&HEADER[..], &of_table.0].concat(), &what)?;
        let mut of_chains = BTreeMap::<String, Vec<_>>::new();
        for (chain, rule) in rules.iter().filter_map(|message| read_rule(message, table)) {
            of_chains.entry(chain).or_default().push(rule);
        }
        for chain in &mut chains {
            chain.rules = of_chains.remove(&chain.name).unwrap_or_default();
        }
        Ok(chains)
    }

    /// One chain of a table, if it is there.
    pub(crate) fn chain(
        &mut self,
        table: &str,
        name: &str,
        what: impl Fn() -> String,
    ) -> Result<Option<Chain>> {
        let it = Attributes::default().text(CHAIN_TABLE, table).text(CHAIN_NAME, name);
        let answer = match self.0.ask(GET_CHAIN, ACK, &[&HEADER[..], &it.0].concat(), &what) {
            Err(error) if error.os_error() == Some(ENOENT) => return Ok(None),
            answer => answer?,
        };
        let Some(chain) = answer.iter().find_map(|message| read_chain(message, table)) else {
            return Ok(None);
        };
        let its = Attributes::default().text(RULE_TABLE, table).text(RULE_CHAIN, name);
        let rules = self.0.ask(GET_RULE, DUMP, &[&HEADER[..], &its.0].concat(), &what)?;
        let rules = rules.iter().filter_map(|message| read_rule(message, table));
        let rules = rules.filter(|(of, _)| of == name).map(|(_, rule)| rule).collect();
        Ok(Some(Chain { rules, ..chain }))
    }
}

/// The chain of links of a table that a notification concerns: it came or went, or it or its rules changed.
pub(crate) fn chain_concerned(message: &Message, table: &str) -> Option<String> {
    let (of_table, name) = match message.kind {
        NEW_CHAIN | DELETE_CHAIN => (CHAIN_TABLE, CHAIN_NAME),
        NEW_RULE | DELETE_RULE => (RULE_TABLE, RULE_CHAIN),
        _ => return None,
    };
    let attributes = attributes_of(message)?;
    (text(attributes, of_table)? == table).then(|| text(attributes, name)).flatten()
}

fn read_chain(message: &Message, table: &str) -> Option<Chain> {
    let attributes = attributes_of(message).filter(|_| message.kind == NEW_CHAIN)?;
    let name =
        text(attributes, CHAIN_NAME).filter(|_| text(attributes, CHAIN_TABLE).as_deref() == Some(table))?;
    let drops = attribute(attributes, CHAIN_POLICY) == Some(&DROP.to_be_bytes()[..]);
    Some(Chain { name, drops, rules: Vec::new() })
}

/// A rule, and the chain that it is in.
fn read_rule(message: &Message, table: &str) -> Option<(String, Option<Vec<Expression>>)> {
    let attributes = attributes_of(message).filter(|_| message.kind == NEW_RULE)?;
    let chain =
        text(attributes, RULE_CHAIN).filter(|_| text(attributes, RULE_TABLE).as_deref() == Some(table))?;
    Some((chain, read_expressions(attribute(attributes, RULE_EXPRESSIONS).unwrap_or_default())))
}

/// What the expressions of the kernel's mean together; none if one of them is no part of a guard.
fn read_expressions(list: &[u8]) -> Option<Vec<Expression>> {
    let number = |data: &[u8], kind: u16| Some(u32::from_be_bytes(attribute(data, kind)?.try_into().ok()?));
    let mut kernels = Vec::new();
    for (_, one) in attributes(list) {
        kernels.push((text(one, EXPRESSION_NAME)?, attribute(one, EXPRESSION_DATA).unwrap_or_default()));
    }
    let mut read = Vec::new();
    let mut rest = &kernels[..];
    while let Some(((name, data), after)) = rest.split_first() {
        rest = after;
        // A value that is loaded is compared next.
        let mut compared = || {
            let ((_, data), after) = rest.split_first().filter(|((name, _), _)| name == "cmp")?;
            rest = after;
            let is_equal = number(data, 1)? == REGISTER && number(data, 2)? == 0;
            attribute(data, 3).and_then(|value| attribute(value, 1)).filter(|_| is_equal)
        };
        read.push(match name.as_str() {
            "meta" if number(data, 1)? == REGISTER && number(data, 2)? == META_PROTOCOL => {
                Expression::Protocol(u16::from_be_bytes(compared()?.try_into().ok()?))
            }
            "fib"
                if number(data, 1)? == REGISTER
                    && number(data, 2)? == FIB_ADDRESS_TYPE
                    && number(data, 3)? == FIB_OF_DESTINATION | FIB_BY_LINK
                    && compared()? == LOCAL.to_ne_bytes() =>
            {
                Expression::ForThatLink
            }
            "immediate" if number(data, 1)? == VERDICT => {
                let verdict = attribute(data, 2).and_then(|value| attribute(value, 2))?;
                (number(verdict, 1)? == ACCEPT).then_some(Expression::Accept)?
            }
            _ => return None,
        });
    }
    Some(read)
}

/// The attributes of a message about chains of links.
fn attributes_of(message: &Message) -> Option<&[u8]> {
    let (header, attributes) = message.payload().split_first_chunk::<4>()?;
    (header[0] == NETDEV).then_some(attributes)
}

fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let value = attribute(attributes, kind)?;
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    std::str::from_utf8(value).ok().map(str::to_owned)
}
