//! The symbols of OVN's match expressions: `man 5 ovn-sb`, "Symbols".

/// How a symbol can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Its bits can be looked at one by one: every comparison, and subfields.
    Ordinal,
    /// Equality alone, and only in a positive sense.
    Nominal,
    /// A shorthand for an expression that can be negated.
    Boolean,
    /// A shorthand for an expression with a nominal field in it, so that it cannot.
    NominalPredicate,
    /// A text, compared as a nominal field.
    Text,
}

/// A symbol: its level, and its width in bits if it is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) width: u32,
}

const fn ordinal(name: &'static str, width: u32) -> Symbol {
    Symbol { name, level: Level::Ordinal, width }
}

const fn nominal(name: &'static str, width: u32) -> Symbol {
    Symbol { name, level: Level::Nominal, width }
}

const fn boolean(name: &'static str) -> Symbol {
    Symbol { name, level: Level::Boolean, width: 1 }
}

const fn predicate(name: &'static str) -> Symbol {
    Symbol { name, level: Level::NominalPredicate, width: 1 }
}

const fn text(name: &'static str) -> Symbol {
    Symbol { name, level: Level::Text, width: 0 }
}

/// The symbol of a name, or the known one that is most like it.
pub(super) fn symbol(name: &str) -> Result<Symbol, Option<&'static str>> {
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| symbol.name == name) {
        return Ok(*symbol);
    }
    let names = SYMBOLS.iter().map(|symbol| symbol.name);
    let nearest = names.map(|known| (distance(name, known), known)).min();
    Err(nearest
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len() / 2)
        .map(|(_, known)| known))
}

/// How many letters must be added, removed, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    // No symbol is long; a text that is would only cost time.
    if a.len() > 40 {
        return usize::MAX;
    }
    let (a, b): (Vec<_>, Vec<_>) = (a.bytes().collect(), b.bytes().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[rustfmt::skip]
const SYMBOLS: &[Symbol] = &[
    text("inport"), text("outport"),
    ordinal("reg0", 32), ordinal("reg1", 32), ordinal("reg2", 32), ordinal("reg3", 32), ordinal("reg4", 32),
    ordinal("reg5", 32), ordinal("reg6", 32), ordinal("reg7", 32), ordinal("reg8", 32), ordinal("reg9", 32),
    ordinal("xreg0", 64), ordinal("xreg1", 64), ordinal("xreg2", 64), ordinal("xreg3", 64), ordinal("xreg4", 64),
    ordinal("xxreg0", 128), ordinal("xxreg1", 128),
    ordinal("flags.loopback", 1), ordinal("pkt.mark", 32),
    ordinal("eth.src", 48), ordinal("eth.dst", 48), nominal("eth.type", 16),
    boolean("eth.bcast"), ordinal("eth.mcast", 1), boolean("eth.mcastv6"),
    ordinal("vlan.tci", 16), ordinal("vlan.vid", 12), ordinal("vlan.pcp", 3), boolean("vlan.present"),
    predicate("ip"), predicate("ip4"), predicate("ip6"),
    nominal("ip.proto", 8), nominal("ip.dscp", 6), nominal("ip.ecn", 2), nominal("ip.ttl", 8), ordinal("ip.frag", 2),
    boolean("ip.is_frag"), boolean("ip.later_frag"), boolean("ip.first_frag"),
    ordinal("ip4.src", 32), ordinal("ip4.dst", 32), boolean("ip4.src_mcast"), boolean("ip4.mcast"),
    ordinal("ip6.src", 128), ordinal("ip6.dst", 128), ordinal("ip6.label", 20), boolean("ip6.mcast"),
    predicate("arp"), nominal("arp.op", 16), ordinal("arp.spa", 32), ordinal("arp.tpa", 32),
    ordinal("arp.sha", 48), ordinal("arp.tha", 48),
    predicate("rarp"), nominal("rarp.op", 16), ordinal("rarp.spa", 32), ordinal("rarp.tpa", 32),
    ordinal("rarp.sha", 48), ordinal("rarp.tha", 48),
    predicate("tcp"), ordinal("tcp.src", 16), ordinal("tcp.dst", 16), ordinal("tcp.flags", 12),
    predicate("udp"), ordinal("udp.src", 16), ordinal("udp.dst", 16),
    predicate("sctp"), ordinal("sctp.src", 16), ordinal("sctp.dst", 16),
    predicate("icmp"), predicate("icmp4"), nominal("icmp4.type", 8), nominal("icmp4.code", 8),
    predicate("icmp6"), nominal("icmp6.type", 8), nominal("icmp6.code", 8),
    predicate("igmp"), predicate("mldv1"), predicate("mldv2"),
    predicate("nd"), predicate("nd_ns"), predicate("nd_na"), predicate("nd_rs"), predicate("nd_ra"),
    ordinal("nd.target", 128), ordinal("nd.sll", 48), ordinal("nd.tll", 48),
    ordinal("ct_mark", 32), ordinal("ct_label", 128), ordinal("ct_state", 32),
    ordinal("ct.trk", 1), ordinal("ct.new", 1), ordinal("ct.est", 1), ordinal("ct.rel", 1), ordinal("ct.rpl", 1),
    ordinal("ct.inv", 1), ordinal("ct.dnat", 1), ordinal("ct.snat", 1),
];
