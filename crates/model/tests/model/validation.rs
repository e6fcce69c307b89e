//! The words that users get about an object beside the others.

use portolan_api::kubeovn;
use portolan_api::portolan::{PolicyRoute, StaticRoute};
use portolan_model::fixtures::*;
use portolan_model::validate::{Findings, Validate, validate};
use portolan_model::{FirstInterface, Settings, World};

fn errors(findings: &Findings) -> Vec<String> {
    findings.errors.iter().map(ToString::to_string).collect()
}

fn warnings(findings: &Findings) -> Vec<String> {
    findings.warnings.iter().map(ToString::to_string).collect()
}

fn check<O: Validate>(object: &O, world: &World) -> (Vec<String>, Vec<String>) {
    let findings = validate(object, world);
    (errors(&findings), warnings(&findings))
}

/// A World with VPC `blue` and in it Subnet `web`.
fn world() -> World {
    let mut world = World::default();
    let _ = world.apply(&mk_vpc("blue"));
    let _ = world.apply(&mk_subnet("web", "10.0.0.0/16", "blue"));
    world
}

const NONE: [&str; 0] = [];

#[test]
fn subnets_of_one_domain_do_not_overlap() {
    let world = world();
    let (errors, warnings) = check(&mk_subnet("db", "10.0.7.0/24,fd00::/64", "blue"), &world);
    assert_eq!(
        errors,
        [
            r#"spec.cidrBlock: "10.0.7.0/24" overlaps 10.0.0.0/16 of Subnet web in vpc/blue; choose another prefix"#
        ]
    );
    assert_eq!(warnings, NONE);
    // Elsewhere the same prefix is another one.
    assert_eq!(check(&mk_subnet("db", "10.0.7.0/24", ""), &world), (vec![], vec![]));
    assert_eq!(errors_of(&mk_subnet("web", "10.0.0.0/16", "blue"), &world), NONE, "itself is no other");
}

fn errors_of<O: Validate>(object: &O, world: &World) -> Vec<String> {
    check(object, world).0
}

#[test]
fn who_was_valid_first_need_not_give_way() {
    let mut world = world();
    let mut late = mk_subnet("late", "10.0.0.0/24", "blue");
    late.status = None;
    let _ = world.apply(&late);
    assert_eq!(errors_of(&mk_subnet("web", "10.0.0.0/16", "blue"), &world), NONE);
    assert_eq!(errors_of(&late, &world).len(), 1);
}

#[test]
fn both_groups_share_their_names() {
    let mut world = world();
    let _ = world.apply(&mk_nad("default", "net"));
    let mut rival = mk_kubeovn_subnet("web", "172.20.0.0/16");
    rival.status = None;
    rival.spec.provider = Some("net.default.ovn".to_owned());
    assert_eq!(
        errors_of(&rival, &world),
        [
            r#"metadata.name: "web" is the name of a Subnet of portolan.dev already; both groups share their names, choose another"#
        ]
    );
    assert_eq!(
        errors_of(&mk_kubeovn_vpc("blue"), &world),
        [
            r#"metadata.name: "blue" is the name of a Vpc of portolan.dev already; both groups share their names, choose another"#
        ]
    );
    // The one that is there is not disturbed by an attempt that got past the webhook.
    let before = world.subnet("web").cloned();
    let _ = world.apply(&rival);
    assert_eq!(world.subnet("web").cloned(), before);
    assert_eq!(errors_of(&mk_subnet("web", "10.0.0.0/16", "blue"), &world), NONE);
}

#[test]
fn what_is_not_there_yet_is_worth_a_warning() {
    let mut subnet = mk_subnet("vswitch1", "172.20.0.0/16", "commonvpc");
    subnet.spec.provider = Some("vswitch1.default.ovn".to_owned());
    let (errors, warnings) = check(&subnet, &World::default());
    assert_eq!(errors, NONE);
    assert_eq!(
        warnings,
        [
            r#"spec.vpc: "commonvpc" is no VPC that is in effect; the subnet has no router until it is"#,
            r#"spec.provider: "vswitch1.default.ovn" names network attachment definition default/vswitch1, which does not exist yet"#,
        ]
    );
}

#[test]
fn a_provider_is_portolans_and_serves_one_subnet() {
    let mut world = world();
    let _ = world.apply(&mk_nad_of("default", "net", r#"{"type":"macvlan"}"#));
    let mut subnet = mk_subnet("db", "10.1.0.0/16", "blue");
    subnet.spec.provider = Some("net.default.ovn".to_owned());
    assert_eq!(
        errors_of(&subnet, &world),
        [
            r#"spec.provider: "net.default.ovn" names network attachment definition default/net, which is of macvlan and not Portolan's"#
        ]
    );
    let _ = world.apply(&mk_nad("default", "net"));
    let _ = world.apply(&subnet);
    let mut second = mk_subnet("db2", "10.2.0.0/16", "blue");
    second.spec.provider = subnet.spec.provider.clone();
    assert_eq!(
        check(&second, &world).1,
        [
            r#"spec.provider: "net.default.ovn" is the provider of Subnet db too; pods must name one in the annotation net.default.ovn.kubernetes.io/logical_switch"#
        ]
    );
}

#[test]
fn what_cannot_change_is_named() {
    let (errors, _) = check(&mk_subnet("web", "10.0.0.0/15", ""), &world());
    assert_eq!(
        errors,
        [
            r#"spec.cidrBlock: "10.0.0.0/15" cannot be changed from "10.0.0.0/16"; make a new Subnet"#,
            r#"spec.vpc: "" cannot be changed from "blue"; make a new Subnet"#,
        ]
    );
}

#[test]
fn a_gateway_that_is_taken() {
    let mut world = world();
    let _ = world.apply(&mk_lock("vpc/blue", "web", "10.0.0.9", "a", 1));
    let mut subnet = mk_subnet("web", "10.0.0.0/16", "blue");
    subnet.spec.gateway = Some("10.0.0.9".to_owned());
    assert_eq!(
        errors_of(&subnet, &world),
        [
            r#"spec.gateway: "10.0.0.9" is taken by Pod default/a; choose another gateway, or remove what has the address"#
        ]
    );
}

#[test]
fn peerings() {
    let mut world = world();
    let mut green = mk_vpc("green");
    let peer = |vpc: &mut portolan_api::portolan::Vpc, remote: &str, local: &str| {
        vpc.spec.vpc_peerings = vec![mk_peering(remote, local)];
    };
    peer(&mut green, "green", "169.254.0.1/30");
    assert_eq!(
        errors_of(&green, &world),
        [r#"spec.vpcPeerings[0].remoteVpc: "green" is this VPC itself; name the VPC to connect with"#]
    );
    peer(&mut green, "red", "169.254.0.1/30");
    assert_eq!(
        check(&green, &world).1,
        [
            r#"spec.vpcPeerings[0].remoteVpc: "red" does not exist yet; the peering is established once VPC red is created"#
        ]
    );
    peer(&mut green, "blue", "169.254.0.1/30");
    assert_eq!(
        check(&green, &world).1,
        [
            r#"spec.vpcPeerings[0].remoteVpc: "blue" does not name green in its vpcPeerings; the peering is established once blue does"#
        ]
    );
    let mut blue = mk_vpc("blue");
    peer(&mut blue, "green", "169.254.1.2/30");
    let _ = world.apply(&blue);
    assert_eq!(
        errors_of(&green, &world),
        [
            r#"spec.vpcPeerings[0].localConnectIP: "169.254.0.1/30" is not in one network with 169.254.1.2/30, which blue gives as its side; choose 169.254.0.1/30 or 169.254.1.2/30 anew"#
        ]
    );
    peer(&mut green, "blue", "169.254.1.2/30");
    assert_eq!(
        errors_of(&green, &world),
        [
            r#"spec.vpcPeerings[0].localConnectIP: "169.254.1.2/30" claims 169.254.1.2, which blue gives as its own side; choose another"#
        ]
    );
    peer(&mut green, "blue", "169.254.1.1/30");
    assert_eq!(check(&green, &world), (vec![], vec![]));

    green.spec.vpc_peerings.push(mk_peering("red", "169.254.1.1/24"));
    let overlap = r#"spec.vpcPeerings[1].localConnectIP: "169.254.1.0/24" overlaps 169.254.1.0/30, which connects this VPC with blue; choose another network"#;
    assert_eq!(errors_of(&green, &world), [overlap]);
    peer(&mut blue, "green", "10.0.5.2/30");
    assert_eq!(
        errors_of(&blue, &world),
        [
            r#"spec.vpcPeerings[0].localConnectIP: "10.0.5.0/30" overlaps 10.0.0.0/16 of Subnet web of this VPC; choose another network"#
        ]
    );
}

#[test]
fn routes_of_a_vpc() {
    let world = world();
    let mut blue = mk_vpc("blue");
    blue.spec.static_routes = vec![StaticRoute {
        cidr: "0.0.0.0/0".to_owned(),
        next_hop_ip: "10.9.0.1".to_owned(),
        ..StaticRoute::default()
    }];
    assert_eq!(
        check(&blue, &world).1,
        [
            r#"spec.staticRoutes[0].nextHopIP: "10.9.0.1" is in no subnet and no peering of this VPC; the route has no effect until it is"#
        ]
    );
    blue.spec.policy_routes = vec![PolicyRoute {
        priority: 10,
        matches: "ip4.scr == 10.0.0.0/8".to_owned(),
        action: "drop".to_owned(),
        next_hop_ip: None,
    }];
    assert_eq!(
        errors_of(&blue, &world),
        [
            r#"spec.policyRoutes[0].match: "ip4.scr == 10.0.0.0/8" has the unknown field `ip4.scr` at column 1; did you mean `ip4.src`?"#
        ]
    );
}

#[test]
fn a_nad_that_claims_the_provider_of_another_or_has_no_subnet() {
    let world = world();
    let nad = mk_nad_of("default", "net", r#"{"type":"kube-ovn","provider":"secret.admin.ovn"}"#);
    assert_eq!(
        errors_of(&nad, &world),
        [
            r#"spec.config.provider: "secret.admin.ovn" is not this definition's own provider; write net.default.ovn"#
        ]
    );
    assert_eq!(
        check(&mk_nad("default", "net"), &world),
        (vec![], vec!["spec.config: names a network without a Subnet; pods wait until there is one with provider net.default.ovn".to_owned()])
    );
    let broken = mk_nad_of("default", "net", r#"{"type":"#);
    assert_eq!(
        errors_of(&broken, &world),
        [r#"spec.config: "{\"type\":" is not valid JSON: EOF while parsing a value at line 1 column 8"#]
    );
}

#[test]
fn network_attachments() {
    let mut world = world();
    let mut attachment = mk_network_attachment("tenant", "n", "web");
    attachment.spec.address = Some("10.0.0.1".to_owned());
    assert_eq!(
        check(&attachment, &world),
        (
            vec![r#"spec.address: "10.0.0.1" is the gateway of Subnet web; ask for another"#.to_owned()],
            vec![
                r#"spec.node: "node-1" is no Node that exists; the interface is created once it does"#
                    .to_owned()
            ]
        )
    );
    let _ = world.apply(&mk_node("node-1"));
    let mut closed = mk_subnet("web", "10.0.0.0/16", "blue");
    closed.spec.allowed_namespaces = vec!["friends".to_owned()];
    let _ = world.apply(&closed);
    attachment.spec.address = Some("10.7.0.1".to_owned());
    assert_eq!(
        errors_of(&attachment, &world),
        [
            r#"spec.subnet: "web" is a Subnet that namespace tenant may not use; whoever owns it can let tenant in"#,
            r#"spec.address: "10.7.0.1" is not in Subnet web, which has 10.0.0.0/16; ask for another"#,
        ]
    );
}

#[test]
fn pools() {
    let mut world = world();
    let (errors, warnings) =
        check(&mk_ip_pool("gold", "web", &["10.0.0.5", "10.0.255.0..10.1.0.4"], &[]), &world);
    assert_eq!(errors, ["spec.ips: 10.0.255.0..10.1.0.4 is not in Subnet web, which has 10.0.0.0/16"]);
    assert_eq!(warnings, NONE);
    // What may come yet is no mistake.
    assert_eq!(
        check(&mk_ip_pool("gold", "later", &["10.0.0.5"], &[]), &world),
        (vec![], vec![r#"spec.subnet: there is no Subnet "later""#.to_owned()])
    );
    let gold = mk_ip_pool("gold", "web", &["10.0.0.0/28"], &[]);
    let _ = world.apply(&gold);
    assert_eq!(check(&gold, &world), (vec![], vec![]), "itself is no other");
    let mut silver = mk_ip_pool("silver", "web", &["10.0.0.15"], &[]);
    silver.spec.enable_address_set = Some(true);
    assert_eq!(
        check(&silver, &world),
        (
            vec![],
            vec![
                "spec.ips: 10.0.0.15 overlaps IPPool gold; both are used, and share these addresses; remove them from one".to_owned(),
                "spec.enableAddressSet: not supported yet; it has no effect".to_owned(),
            ]
        )
    );
    // A Subnet that was not judged yet has its addresses all the same.
    let mut new = mk_subnet("new", "10.9.0.0/24", "blue");
    new.status = None;
    let _ = world.apply(&new);
    assert_eq!(check(&mk_ip_pool("new", "new", &["10.9.0.5"], &[]), &world), (vec![], vec![]));
    assert_eq!(errors_of(&mk_ip_pool("new", "new", &["10.8.0.5"], &[]), &world).len(), 1);
    assert_eq!(
        errors_of(&mk_ip_pool("bad", "", &[], &[]), &world),
        [
            "spec.subnet: name the Subnet of the addresses",
            "spec.ips: list addresses, ranges or prefixes of the Subnet"
        ]
    );
}

#[test]
fn vips() {
    let world = world();
    let with = |spec: kubeovn::VipSpec| kubeovn::Vip::new("front", spec);
    let vip = |subnet: &str, v4ip: &str| {
        let text = |text: &str| Some(text.to_owned());
        with(kubeovn::VipSpec { subnet: text(subnet), v4ip: text(v4ip), ..kubeovn::VipSpec::default() })
    };
    assert_eq!(check(&vip("web", "10.0.0.9"), &world), (vec![], vec![]));
    assert_eq!(check(&vip("web", ""), &world), (vec![], vec![]));
    assert_eq!(
        check(&vip("later", "10.0.0.9"), &world),
        (
            vec![],
            vec![
                r#"spec.subnet: "later" is no Subnet that exists; the address is taken once it does"#
                    .to_owned()
            ]
        )
    );
    for (address, why) in [
        ("10.7.0.1", "10.7.0.1 is not in Subnet web, which has 10.0.0.0/16; ask for another"),
        ("10.0.0.1", "10.0.0.1 is the gateway of Subnet web; ask for another"),
        ("10.0.255.255", "10.0.255.255 is the network or broadcast address of Subnet web; ask for another"),
        ("x", r#""x" is not an IP address"#),
    ] {
        assert_eq!(errors_of(&vip("web", address), &world), [format!("spec.v4ip: {why}")]);
    }
    let mut of_other_family = vip("web", "");
    of_other_family.spec.v6ip = Some("fd00::9".to_owned());
    of_other_family.spec.type_ = Some("switch_lb_vip".to_owned());
    assert_eq!(
        check(&of_other_family, &world),
        (
            vec![
                "spec.v6ip: fd00::9 is not in Subnet web, which has 10.0.0.0/16; ask for another".to_owned()
            ],
            vec![
                "spec.type: not supported yet; it has no effect. The address is kept all the same."
                    .to_owned()
            ]
        )
    );
    assert_eq!(
        errors_of(&with(kubeovn::VipSpec::default()), &world),
        ["spec.subnet: name the Subnet of the address"]
    );
}

#[test]
fn fields_without_effect_are_reported() {
    let mut subnet = mk_kubeovn_subnet("ext", "172.30.0.0/16");
    subnet.spec.nat_outgoing = Some(true);
    subnet.spec.vpc = Some("blue".to_owned());
    let unsupported = "spec.natOutgoing: has no effect here: it acts on Subnets of VPC ovn-cluster where Portolan is the primary network";
    assert_eq!(check(&subnet, &world()), (vec![], vec![unsupported.to_owned()]));
}

#[test]
fn nat_outgoing_is_for_subnets_of_the_primary_network() {
    let primary = World::new(Settings { first_interface: FirstInterface::Portolan });
    let mut theirs = mk_kubeovn_subnet("ext", "172.30.0.0/16");
    theirs.spec.nat_outgoing = Some(true);
    assert_eq!(check(&theirs, &primary), (vec![], vec![]), "without a VPC it is in ovn-cluster");
    assert_eq!(check(&theirs, &world()).1.len(), 2, "no such VPC, and no node to leave by");
    let unset = "spec.natOutgoing: not set: pods leave the cluster with their own addresses, which outside needs routes to; set natOutgoing: true to have them leave with their node's address";
    theirs.spec.nat_outgoing = None;
    assert_eq!(check(&theirs, &primary), (vec![], vec![unset.to_owned()]));
    assert_eq!(check(&theirs, &world()).1.len(), 1, "no such VPC");
    theirs.spec.default = Some(true);
    assert_eq!(check(&theirs, &primary), (vec![], vec![]), "as Kube-OVN makes its own");
    (theirs.spec.default, theirs.spec.nat_outgoing) = (None, Some(false));
    assert_eq!(check(&theirs, &primary), (vec![], vec![]), "it is said");
    let mut ours = mk_subnet("ours", "172.30.0.0/16", "ovn-cluster");
    for nat in [None, Some(true), Some(false)] {
        ours.spec.nat_outgoing = nat;
        assert_eq!(check(&ours, &primary), (vec![], vec![]), "{nat:?}");
    }
    let without = "spec.natOutgoing: has no effect where Portolan is not the primary network".to_owned();
    assert!(check(&ours, &world()).1.contains(&without));
    ours.spec.vpc = Some("blue".to_owned());
    assert_eq!(errors_of(&ours, &world()), NONE, "no more is asked for than there is");
    ours.spec.nat_outgoing = Some(true);
    assert_eq!(
        errors_of(&ours, &world()),
        [r#"spec.natOutgoing: "true" is for Subnets of VPC ovn-cluster only; leave it out"#]
    );
}
