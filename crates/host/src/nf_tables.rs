//! nf_tables by netlink, as far as guards need it: transactions on chains of links, and the list of chains.
//!
//! A process of `nft` takes some 5 ms, and reads all chains that there are before it adds one; a pod's guard would take longer than everything
//! else that its interface needs. By netlink it is one message of a few hundred bytes.

use nix::sys::socket::SockProtocol;

use crate::error::Result;
use crate::netlink::{APPEND, Attributes, CREATE, DUMP, Message, Request, Socket, attribute};

/// The part of nfnetlink that is nf_tables, and its messages.
const SUBSYSTEM: u8 = 10;
const NEW_TABLE: u16 = message(0);
const DELETE_TABLE: u16 = message(2);
const NEW_CHAIN: u16 = message(3);
const GET_CHAIN: u16 = message(4);
const DELETE_CHAIN: u16 = message(5);
const NEW_RULE: u16 = message(6);
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

const fn message(number: u16) -> u16 {
    ((SUBSYSTEM as u16) << 8) | number
}

/// Changes of which the kernel makes all or none.
#[derive(Debug, Default)]
pub(crate) struct Transaction(Vec<Request>);

/// A part of a rule. What comes after one that does not match is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expression {
    /// The frame is of this protocol, by the number that its Ethernet header has.
    Protocol(u16),
    /// It is for an address of the link that it came in by.
    ForThatLink,
    /// It passes.
    Accept,
}

/// A chain, or what is left of one in the notification of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) table: String,
    pub(crate) name: String,
    /// Whether what no rule accepts is dropped.
    pub(crate) drops: bool,
}

/// What a notification about a chain says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChainNews {
    Present(Chain),
    Removed(Chain),
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
                // `NFT_META_PROTOCOL` into the register, which is to be equal.
                let load = number(1, REGISTER).push(2, &1_u32.to_be_bytes());
                element(element(list, "meta", &load), "cmp", &is(&protocol.to_be_bytes()))
            }
            Expression::ForThatLink => {
                // The type of the destination as seen from the link: `NFT_FIB_RESULT_ADDRTYPE` by `NFTA_FIB_F_DADDR` and
                // `NFTA_FIB_F_IIF`, which is to be `RTN_LOCAL`, a number of the machine's byte order.
                let load =
                    number(1, REGISTER).push(2, &3_u32.to_be_bytes()).push(3, &(2_u32 | 8).to_be_bytes());
                element(element(list, "fib", &load), "cmp", &is(&2_u32.to_ne_bytes()))
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

/// The chains of links in the calling thread's network namespace.
pub(crate) fn chains(what: impl Fn() -> String) -> Result<Vec<Chain>> {
    let answer = Socket::open(SockProtocol::NetlinkNetFilter)?.ask(GET_CHAIN, DUMP, &HEADER, what)?;
    let chains = answer.iter().filter_map(|message| match read_chain(message)? {
        ChainNews::Present(chain) => Some(chain),
        ChainNews::Removed(_) => None,
    });
    Ok(chains.collect())
}

/// What a message says about a chain of a link, if it is about one.
pub(crate) fn read_chain(message: &Message) -> Option<ChainNews> {
    let news = match message.kind {
        NEW_CHAIN => ChainNews::Present,
        DELETE_CHAIN => ChainNews::Removed,
        _ => return None,
    };
    let (header, attributes) = message.payload().split_first_chunk::<4>()?;
    if header[0] != NETDEV {
        return None;
    }
    let drops = attribute(attributes, CHAIN_POLICY) == Some(&DROP.to_be_bytes()[..]);
    Some(news(Chain { table: text(attributes, CHAIN_TABLE)?, name: text(attributes, CHAIN_NAME)?, drops }))
}

fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let value = attribute(attributes, kind)?;
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    std::str::from_utf8(value).ok().map(str::to_owned)
}
