//! Prints what changes in the logical switches of OVN.

use ovsdb::{Client, Endpoint, Monitor};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let endpoints = std::env::args().nth(1).unwrap_or_else(|| "unix:/run/ovn/ovnnb_db.sock".to_owned());
    let endpoints = Endpoint::parse_list(&endpoints).expect("an endpoint");
    let switches = Monitor::table("Logical_Switch").columns(["name", "ports"]);
    let client = Client::builder("OVN_Northbound", endpoints).monitor(switches).connect();
    let mut changes = client.changes();
    while let Some(batch) = changes.next().await {
        for change in &batch.changes {
            match (&change.old, &change.new) {
                (None, Some(_)) => println!("+ {}", change.uuid()),
                (Some(_), None) => println!("- {}", change.uuid()),
                _ => println!("~ {}", change.uuid()),
            }
            for (column, value) in change.row().iter() {
                println!("    {column} = {value}");
            }
        }
    }
}
