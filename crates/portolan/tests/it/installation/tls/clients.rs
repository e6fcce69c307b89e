//! Who gets where with which certificate.

use k8s_openapi::api::core::v1::Secret;
use portolan_authority::Authority;
use portolan_testbed::{Node, Result};
use serde_json::json;

use super::stage::{Central, Stage, files};

/// The northbound database is for controllers alone, and so is all of the southbound one.
pub(super) fn each_reaches_what_it_may(stage: &Stage<'_>, central: &Central<'_>) -> Result<()> {
    let central_authority = stage.authority("ovn-central-authority")?;
    let chassis_authority = stage.authority("ovn-chassis-authority")?;
    let foreign = Authority::make("ovn-central-authority", None, jiff::Timestamp::now()).unwrap();
    let foreign = Authority::read(&Secret { data: Some(foreign), ..Secret::default() }).unwrap();

    let controller = stage.client(&central_authority, "portolan-controller", 0);
    assert!(central.nbctl_as(&controller, &["ls-list"])?.contains("harbour"));
    central.sbctl_as(&controller, 6643, &["set", "Chassis", "node1", "external_ids:by=a-controller"])?;

    let chassis = stage.client(&chassis_authority, "node1", 0);
    let refused = [
        ("a chassis", &chassis),
        ("somebody whose authority has the same name", &stage.client(&foreign, "portolan-controller", 0)),
        ("a controller that stopped long ago", &stage.client(&central_authority, "portolan-controller", 3)),
    ];
    for (who, client) in refused {
        assert!(central.nbctl_as(client, &["ls-list"]).is_err(), "{who} reads the northbound database");
        assert!(central.sbctl_as(client, 6643, &["show"]).is_err(), "{who} reads by the controllers' port");
    }
    assert!(central.sbctl_as(&chassis, 6642, &["show"])?.contains("node1"));
    for (who, client) in [
        ("a controller", &controller),
        ("an expired chassis", &stage.client(&chassis_authority, "node1", 3)),
        ("a foreign chassis", &stage.client(&foreign, "node1", 0)),
    ] {
        assert!(central.sbctl_as(client, 6642, &["show"]).is_err(), "{who} gets in by the chassis' port");
    }
    // Without a certificate, or without TLS at all.
    for port in ["6641", "6642", "6643"] {
        let url = format!("https://172.31.0.1:{port}/");
        let answer = stage.lab.command("curl").args(["-sSk", "-m5", "--data", "{}", &url]).read();
        assert!(answer.is_err(), "{port}: {answer:?}");
        let plain = format!("--db=tcp:172.31.0.1:{port}");
        let plain = stage.lab.command("ovn-sbctl").args([&plain, "--timeout=3", "--no-leader-only", "show"]);
        assert!(plain.read().is_err(), "{port} answers in the clear");
    }
    Ok(())
}

/// By the very certificate that ovn-controller got.
pub(super) fn a_chassis_changes_its_own_rows_and_no_others(
    stage: &Stage<'_>,
    central: &Central<'_>,
    node: &Node,
) -> Result<()> {
    // Another chassis, as a controller or northd could make it.
    let victim =
        ["chassis-add", "victim", "geneve", "172.31.0.99", "--", "--id=@p", "create", "Chassis_Private"];
    central.sbctl(&[&victim[..], &["name=victim", "nb_cfg=7"]].concat())?;
    let own = files(&node.file("/run/ovn/ovn-controller-tls"));
    let encap = central.sbctl(&["--bare", "--columns=_uuid", "find", "Encap", "chassis_name=victim"])?;
    let before = rows(central)?;
    let mut through = Vec::new();
    for attack in [
        &["set", "Chassis", "victim", "external_ids:owned=yes"][..],
        &["set", "Chassis", "victim", "name=node9"],
        &["chassis-del", "victim"],
        &["destroy", "Chassis", "victim"],
        &["set", "Chassis_Private", "victim", "nb_cfg=9"],
        &["destroy", "Chassis_Private", "victim"],
        &["set", "Encap", encap.trim(), "ip=172.31.0.66"],
        &["chassis-add", "somebody", "geneve", "172.31.0.98"],
        &["set", "SB_Global", ".", "options:x=y"],
        &["--all", "destroy", "RBAC_Role"],
        &["--all", "destroy", "Datapath_Binding"],
    ] {
        match central.sbctl_as(&own, 6642, attack) {
            Ok(_) => through.push(attack.join(" ")),
            Err(error) => assert!(error.to_string().contains("RBAC rules"), "{attack:?}: {error}"),
        }
    }
    assert_eq!(through, Vec::<String>::new());
    // Rows that exist only as long as others refer to them: ovn-sbctl leaves their deletion to the server, and an attacker does not.
    for (table, condition) in
        [("Encap", json!(["chassis_name", "==", "victim"])), ("Connection", json!(["role", "!=", ""]))]
    {
        let delete =
            json!(["OVN_Southbound", {"op": "delete", "table": table, "where": [condition]}]).to_string();
        let client = stage.lab.command("ovsdb-client").args(&own.arguments);
        let said = client.args(["transact", "ssl:172.31.0.1:6642", &delete]).read()?;
        assert!(said.contains("RBAC rules"), "{table}: {said}");
    }
    assert_eq!(rows(central)?, before);
    central.sbctl_as(&own, 6642, &["set", "Chassis", "node1", "external_ids:by=itself"])?;
    // The same as another.
    let other = stage.client(&stage.authority("ovn-chassis-authority")?, "victim", 0);
    central.sbctl_as(&other, 6642, &["set", "Chassis", "victim", "external_ids:by=itself"])?;
    assert!(central.sbctl_as(&other, 6642, &["set", "Chassis", "node1", "external_ids:by=another"]).is_err());
    Ok(())
}

/// What a chassis must not change.
fn rows(central: &Central<'_>) -> Result<String> {
    let list = |table: &str, columns: &str| {
        central.sbctl(&["--bare", &format!("--columns={columns}"), "find", table, "name=victim"])
    };
    let encap = central.sbctl(&["--bare", "--columns=ip,type", "find", "Encap", "chassis_name=victim"])?;
    let global = central.sbctl(&["--bare", "--columns=target,role", "list", "Connection"])?;
    Ok([list("Chassis", "name,external_ids")?, list("Chassis_Private", "name,nb_cfg")?, encap, global]
        .concat())
}
