//! Where the southbound database listens for nodes with TLS: with OVN's access control, by which a client may do what its role allows to
//! whom its certificate names.
//!
//! The role cannot be said on a command line, only by a row of the database itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::Error;
use crate::json_rpc::call;
use crate::ovn_central::OvnDatabase;
use crate::transport::Transport;

/// The argument that has the server listen as the rows say.
pub(crate) const REMOTE: &str = "--remote=db:OVN_Southbound,SB_Global,connections";
/// The role whose rights ovn-northd keeps in the database.
const ROLE: &str = "ovn-controller";
/// The database.
const DATABASE: &str = "OVN_Southbound";

/// Writes the row, and no others: whatever listens without a role would let everybody do everything. The same for every member of a
/// cluster, so it is at every address of this one's family.
pub(crate) async fn keep(socket: PathBuf, address: IpAddr) -> Result<(), Error> {
    let any = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let target = Transport::Tls.listen(any, OvnDatabase::Southbound.port());
    let columns = ["target", "role"];
    let select = json!({"op": "select", "table": "Connection", "where": [], "columns": columns});
    let found = call(&socket, "transact", &json!([DATABASE, select])).await?;
    if found[0]["rows"] == json!([{"target": target, "role": ROLE}]) {
        return Ok(());
    }
    // Refused if there is the one row already, which is as well: ovn-northd may have made it.
    let none = json!({"op": "wait", "table": "SB_Global", "where": [], "columns": ["_uuid"], "until": "==", "rows": [], "timeout": 0});
    let global = json!({"op": "insert", "table": "SB_Global", "row": {}});
    call(&socket, "transact", &json!([DATABASE, none, global])).await?;
    let row = json!({"target": target, "role": ROLE});
    let insert = json!({"op": "insert", "table": "Connection", "uuid-name": "row", "row": row});
    let only = json!({"connections": ["named-uuid", "row"]});
    let update = json!({"op": "update", "table": "SB_Global", "where": [], "row": only});
    let answer = call(&socket, "transact", &json!([DATABASE, insert, update])).await?;
    match failure(&answer) {
        None => {
            tracing::info!(listen = target, role = ROLE, "the southbound database listens for nodes");
            Ok(())
        }
        Some(said) => Err(Error::Tool { what: format!("writing where {DATABASE} listens for nodes"), said }),
    }
}

/// What an answer says is wrong, if something is.
fn failure(answer: &Value) -> Option<String> {
    let results = answer.as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = results.iter().find(|result| !result["error"].is_null());
    failed.map(ToString::to_string)
}
