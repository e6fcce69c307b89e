//! Chains of nftables that drop what the host should forward. Those of legacy iptables are not among them: nft does not know them.

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::nft::nft;

/// The base chains of the hook `forward` whose policy is to drop, as `ip filter FORWARD`.
pub fn forward_chains_that_drop() -> Result<Vec<String>> {
    let what = || "list chains".to_owned();
    let answer = nft(&[json!({"list": {"chains": null}})], what)?;
    let answer: Value = serde_json::from_slice(&answer)
        .map_err(|error| Error::Answer { what: what(), reason: error.to_string() })?;
    Ok(that_drop(&answer))
}

fn that_drop(answer: &Value) -> Vec<String> {
    let chains = answer["nftables"].as_array().into_iter().flatten().map(|item| &item["chain"]);
    let drops = chains.filter(|chain| chain["hook"] == "forward" && chain["policy"] == "drop");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    drops
        .map(|chain| format!("{} {} {}", text(&chain["family"]), text(&chain["table"]), text(&chain["name"])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_base_chains_that_drop_what_is_forwarded_count() {
        let chain = |name: &str, hook: &str, policy: &str| json!({"chain": {"family": "ip", "table": "filter", "name": name, "hook": hook, "policy": policy}});
        let answer = json!({"nftables": [
            {"metainfo": {}},
            chain("FORWARD", "forward", "drop"),
            chain("INPUT", "input", "drop"),
            chain("DOCKER", "forward", "accept"),
            {"chain": {"family": "ip", "table": "filter", "name": "MINE"}},
        ]});
        assert_eq!(that_drop(&answer), ["ip filter FORWARD"]);
        assert!(that_drop(&json!({})).is_empty());
    }
}
