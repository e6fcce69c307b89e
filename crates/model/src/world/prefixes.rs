//! Names by prefix: what overlaps a prefix is found without a look at the others.

use ipnet::IpNet;

use super::index::Index;

/// Names by prefix. Prefixes may overlap, and several names may have one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prefixes(Index<IpNet, String>);

impl Prefixes {
    pub(crate) fn insert(&mut self, net: IpNet, name: &str) {
        self.0.insert(net.trunc(), name.to_owned());
    }

    pub(crate) fn remove(&mut self, net: IpNet, name: &str) {
        self.0.remove(&net.trunc(), name);
    }

    /// The prefixes that overlap this one, with their names: those around it, the longest first, then those within, in order.
    pub(crate) fn overlapping(&self, net: IpNet) -> impl Iterator<Item = (IpNet, &str)> {
        let net = net.trunc();
        let around = std::iter::successors(net.supernet().and_then(|above| self.covering(above)), |found| {
            self.covering(found.supernet()?)
        });
        let last = IpNet::new(net.broadcast(), net.max_prefix_len()).unwrap_or(net);
        let around = around.flat_map(|found| self.0.range(found..=found));
        around
            .chain(self.0.range(net..=last))
            .flat_map(|(net, names)| names.into_iter().map(|name| (*net, name.as_str())))
    }

    /// The longest prefix that contains this one, itself included.
    fn covering(&self, net: IpNet) -> Option<IpNet> {
        let mut at = net;
        loop {
            // Prefixes are in the order of their first addresses, a shorter one before a longer one.
            let (found, _) = self.0.range(..=at).next_back()?;
            if found.contains(&net) {
                return Some(*found);
            }
            // What contains both is all that is left; prefixes never overlap by half.
            at = at.supernet()?;
            while !at.contains(found) {
                at = at.supernet()?;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_is_what_a_look_at_all_finds() {
        let mut random = 1_u64;
        let mut below = |bound: u64| {
            // A linear congruence is random enough.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        for _ in 0..200 {
            let mut net = |least: u64| -> IpNet {
                let bits = below(1 << 12);
                let text = match below(3) {
                    0 => format!("fd00::{bits:x}/{}", 128 - below(13 - least)),
                    _ => format!("10.0.{}.{}/{}", bits >> 8, bits & 255, 32 - below(13 - least)),
                };
                text.parse().unwrap()
            };
            let mut prefixes = Prefixes::default();
            let all: Vec<(IpNet, String)> = (0..20).map(|n| (net(2), format!("name-{}", n / 2))).collect();
            let gone: Vec<(IpNet, String)> = (20..24).map(|n| (net(0), format!("name-{n}"))).collect();
            all.iter().chain(&gone).for_each(|(net, name)| prefixes.insert(*net, name));
            gone.iter().for_each(|(net, name)| prefixes.remove(*net, name));
            for _ in 0..20 {
                let asked = net(0);
                let overlap =
                    |other: &IpNet| other.contains(&asked.network()) || asked.contains(&other.network());
                let mut expected: Vec<_> = all
                    .iter()
                    .filter(|(net, _)| overlap(net))
                    .map(|(net, name)| (net.trunc(), name.as_str()))
                    .collect();
                expected.sort();
                expected.dedup();
                let mut found: Vec<_> = prefixes.overlapping(asked).collect();
                found.sort();
                assert_eq!(found, expected, "{asked} among {all:?}");
            }
        }
    }
}
