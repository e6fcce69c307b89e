use proptest::prelude::*;

use super::*;

fn datapaths(traced: &Traced) -> Vec<&str> {
    traced.passages.iter().map(|passage| passage.datapath.as_str()).collect()
}

#[test]
fn a_packet_is_followed_from_switch_to_router_to_port() {
    let traced = read(
        r#"# icmp,reg14=0x2,vlan_tci=0x0000,dl_src=0a:58:0a:00:00:57

ingress(dp="subnet:web", inport="port:default/a/net1/1cd0b8a3")
---------------------------------------------------------------
 0. ls_in_check_port_sec (northd.c:8432): 1, priority 50, uuid 0cd30e51
    reg0[15] = check_in_port_sec();
    next;
25. ls_in_l2_lkup (northd.c:9193): eth.dst == 0a:58:0a:00:00:01, priority 50, uuid 51c97a72
    outport = "subnet:web/vpc:blue";
    output;

egress(dp="subnet:web", inport="port:default/a/net1/1cd0b8a3", outport="subnet:web/vpc:blue")
---------------------------------------------------------------------------------------------
 9. ls_out_apply_port_sec (northd.c:5777): 1, priority 0, uuid 2cf56474
    output;
    /* output to "subnet:web/vpc:blue", type "patch" */

ingress(dp="vpc:blue", inport="vpc:blue/subnet:web")
----------------------------------------------------
21. lr_in_arp_request (northd.c:12948): 1, priority 0, uuid f166f771
    output;

egress(dp="vpc:blue", inport="vpc:blue/subnet:web", outport="vpc:blue/subnet:db")
---------------------------------------------------------------------------------
 6. lr_out_delivery (northd.c:12995): outport == "vpc:blue/subnet:db", priority 100, uuid afeb983a
    output;
    /* output to "vpc:blue/subnet:db", type "patch" */

ingress(dp="subnet:db", inport="subnet:db/vpc:blue")
----------------------------------------------------
25. ls_in_l2_lkup (northd.c:9122): eth.dst == 0a:58:0a:09:00:eb, priority 50, uuid 1b708271
    outport = "port:default/d/net1/8217aeab";
    output;

egress(dp="subnet:db", inport="subnet:db/vpc:blue", outport="port:default/d/net1/8217aeab")
-------------------------------------------------------------------------------------------
 2. ls_out_pre_stateful (northd.c:6143): reg0[0] == 1, priority 100, uuid e55be5e1
    ct_next;

ct_next(ct_state=new|trk)
-------------------------
 9. ls_out_apply_port_sec (northd.c:5777): 1, priority 0, uuid 2cf56474
    output;
    /* output to "port:default/d/net1/8217aeab", type "" */
"#,
    );
    let traced = traced.unwrap();
    assert_eq!(datapaths(&traced), ["subnet:web", "vpc:blue", "subnet:db"]);
    let lookup = &traced.passages[2].flows[0];
    assert_eq!((lookup.stage.as_str(), lookup.table, lookup.uuid), ("ls_in_l2_lkup", 25, Some(0x1b70_8271)));
    assert_eq!(lookup.assigned("outport"), Some("\"port:default/d/net1/8217aeab\""));
    let tracked = traced.passages[2].flows.last().unwrap();
    assert_eq!((tracked.pipeline, tracked.stage.as_str()), (Pipeline::Egress, "ls_out_apply_port_sec"));
    assert_eq!(traced.end, End::Output { port: "port:default/d/net1/8217aeab".into() });
}

#[test]
fn a_drop_has_its_stage_priority_and_match() {
    let traced = read(
        r#"ingress(dp="vpc:blue", inport="vpc:blue/subnet:web")
----------------------------------------------------
14. lr_in_ip_routing_ecmp (northd.c:12046): reg8[0..15] == 0, priority 150, uuid 76e68fde
    next;
15. lr_in_policy (northd.c:9526): ip4.src == 10.0.0.0/24 && tcp.dst == {23, 24}, priority 100, uuid a36e692e
    drop;
"#,
    );
    let traced = traced.unwrap();
    assert_eq!(traced.end, End::Dropped);
    let expected = Flow {
        pipeline: Pipeline::Ingress,
        table: 15,
        stage: "lr_in_policy".into(),
        priority: Some(100),
        uuid: Some(0xa36e_692e),
        matches: "ip4.src == 10.0.0.0/24 && tcp.dst == {23, 24}".into(),
        actions: vec!["drop;".into()],
    };
    assert_eq!(traced.last_flow(), Some(&expected));
}

#[test]
fn a_packet_that_matches_no_flow_is_dropped() {
    let traced = read(
        "ingress(dp=\"vpc:blue\", inport=\"vpc:blue/subnet:web\")\n 0. lr_in_admission: no match (implicit drop)\n",
    );
    let traced = traced.unwrap();
    let flow = traced.last_flow().unwrap();
    assert_eq!((&traced.end, flow.stage.as_str(), flow.priority), (&End::Dropped, "lr_in_admission", None));
}

#[test]
fn the_next_hops_that_share_the_load_are_counted() {
    let traced = read(
        r#"ingress(dp="vpc:blue", inport="vpc:blue/subnet:web")
13. lr_in_ip_routing (northd.c:12045): reg7 == 0 && ip4.dst == 10.77.0.0/16, priority 48, uuid 198f2bcc
    ip.ttl--;
    flags.loopback = 1;
    reg8[0..15] = 1;
    reg8[16..31] = select(1, 2, 3);
    reg8[16..31] = 2 /* Randomly selected. Use --select-id to specify. */;
"#,
    );
    assert_eq!(traced.unwrap().next_hops, Some(3));
}

#[test]
fn a_solicitation_for_the_neighbour_is_not_the_packet() {
    let traced = read(
        r#"ingress(dp="vpc:green", inport="vpc:green/vpc:blue")
----------------------------------------------------
21. lr_in_arp_request (northd.c:12929): eth.dst == 00:00:00:00:00:00 && ip4, priority 100, uuid a1496ed8
    arp { eth.dst = ff:ff:ff:ff:ff:ff; arp.spa = reg1; arp.tpa = reg0; arp.op = 1; output; };

arp
---
    eth.dst = ff:ff:ff:ff:ff:ff;
    output;

egress(dp="vpc:green", inport="vpc:green/vpc:blue", outport="vpc:green/subnet:far")
-----------------------------------------------------------------------------------
    /* output to "vpc:green/subnet:far", type "patch" */

ingress(dp="subnet:far", inport="subnet:far/vpc:green")
    egress(dp="subnet:far", inport="subnet:far/vpc:green", outport="port:default/d/net1/8217aeab")
            /* output to "port:default/d/net1/8217aeab", type "" */
"#,
    );
    let traced = traced.unwrap();
    assert_eq!((&traced.end, datapaths(&traced)), (&End::NeighbourUnknown, vec!["vpc:green"]));
}

#[test]
fn text_that_is_no_trace_is_refused() {
    for text in
        ["", "unknown datapath \"subnet:zz\"\n", "ingress(dp=", "ingress(dp=\"", "\u{0}\u{1b}[", "1. 2: 3"]
    {
        assert_eq!(read(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(
        text in r#"((in|e)gress\(dp="?|"|, | 1[0-9]?\. |ls_in_acl|: |priority [0-9]{0,12}|/\* output to |type "patch"|arp|\n|\PC){0,60}"#
    ) {
        if let Some(traced) = read(&text) {
            prop_assert!(!traced.passages.is_empty());
        }
    }
}
