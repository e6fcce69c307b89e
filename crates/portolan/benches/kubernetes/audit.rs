//! Requests that write, by the API server's audit log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::adds::rest;
use crate::side::Side;

/// How many requests wrote what, as in `create pods/binding`.
pub(crate) type Writes = BTreeMap<String, usize>;

/// Where the log ends.
pub(crate) fn end(side: &Side) -> u64 {
    side.cluster.api_server().audit_log().unwrap().metadata().unwrap().len()
}

/// What was written since the log ended there, but for what nodes and leaders say of themselves every few seconds.
pub(crate) fn writes(side: &Side, from: u64) -> Writes {
    let log = rest(side.cluster.api_server().audit_log().unwrap(), from);
    let mut writes = Writes::new();
    for request in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let verb = request["verb"].as_str().unwrap_or_default();
        let object = &request["objectRef"];
        let resource = object["resource"].as_str().unwrap_or_default();
        let subresource = object["subresource"].as_str();
        let is_write = ["create", "update", "patch", "delete"].contains(&verb);
        let done = request["stage"] == "ResponseComplete";
        let of_pods = resource != "leases" && (resource, subresource) != ("nodes", Some("status"));
        // Asking for a right is a request that creates nothing.
        let asks = resource.ends_with("reviews");
        if is_write && done && of_pods && !asks {
            let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
            *writes.entry(format!("{verb} {resource}{subresource}")).or_default() += 1;
        }
    }
    writes
}
