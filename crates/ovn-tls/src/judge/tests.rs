use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, KeyPair};

use super::*;

const NAMESPACE: &str = "portolan-system";

/// A request as Kubernetes has it, of a pod of this account on node1.
fn request(role: Role, encoded: &str) -> CertificateSigningRequest {
    let usages = match role {
        Role::Central => vec!["digital signature", "client auth", "server auth"],
        Role::Chassis => vec!["digital signature", "client auth"],
    };
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "one"},
        "spec": {
            "signerName": role.signer(),
            "username": format!("system:serviceaccount:{NAMESPACE}:{}", role.account()),
            "extra": {NODE_NAME: ["node1"], NODE_UID: ["1"]},
            "usages": usages,
            "request": k8s_openapi::ByteString(encoded.as_bytes().to_vec()),
        },
    }))
    .unwrap()
}

fn params(name: &str, addresses: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names =
        addresses.iter().map(|address| SanType::IpAddress(address.parse().unwrap())).collect();
    params
}

#[allow(clippy::needless_pass_by_value, reason = "each is made for this")]
fn encoded(params: CertificateParams) -> String {
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn node(name: &str, chassis: &str) -> NodeFacts {
    let addresses = vec!["192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap()];
    let uid = name.trim_start_matches("node").to_owned();
    NodeFacts { name: name.into(), uid, addresses, chassis: chassis.into() }
}

/// The whole decision, of a requester on `node1`.
fn judged(
    request: &CertificateSigningRequest,
    role: Role,
    node: Option<&NodeFacts>,
    nodes: &[NodeFacts],
) -> Result<Leaf, &'static str> {
    let judge = || {
        let requester = requester(request, role, NAMESPACE)?;
        assert_eq!(requester.node, "node1");
        let asked = asked(request, role)?;
        let node = of_node(&requester, node)?;
        leaf(role, &asked, node, nodes, LIFE)
    };
    judge().map_err(|denial: Denial| {
        assert!(!denial.message.is_empty());
        denial.reason
    })
}

fn of_chassis(name: &str, node: &NodeFacts, nodes: &[NodeFacts]) -> Result<Leaf, &'static str> {
    judged(&request(Role::Chassis, &encoded(params(name, &[]))), Role::Chassis, Some(node), nodes)
}

fn of_server(params: CertificateParams) -> Result<Leaf, &'static str> {
    judged(&request(Role::Central, &encoded(params)), Role::Central, Some(&node("node1", "node1")), &[])
}

#[test]
fn a_server_is_certified_for_addresses_of_its_node_and_no_others() {
    let signed = of_server(params("ovn-central", &["192.0.2.1", "fd00::1"])).unwrap();
    assert_eq!(signed.usages, Usages::ServerAndClient);
    assert_eq!(signed.addresses.len(), 2);
    assert_eq!(of_server(params("ovn-central", &["192.0.2.2"])), Err("AddressNotOfNode"));
    assert_eq!(of_server(params("ovn-central", &["192.0.2.1", "192.0.2.2"])), Err("AddressNotOfNode"));
    assert_eq!(of_server(params("ovn-central", &[])), Err("AddressMissing"));
    assert_eq!(of_server(params("portolan-controller", &["192.0.2.1"])), Err("NameNotAllowed"));
}

#[test]
fn an_ovn_controller_is_certified_as_the_chassis_of_its_node() {
    let signed = of_chassis("node1", &node("node1", "node1"), &[]).unwrap();
    assert_eq!((signed.usages, &*signed.common_name), (Usages::Client, "node1"));
    assert!(signed.addresses.is_empty() && signed.dns_names.is_empty());
    // One that has a name of its own.
    of_chassis("5f9c", &node("node1", "5f9c"), &[node("node1", "5f9c"), node("node2", "node2")]).unwrap();
    for other in ["node2", "Node1", "node1.", ""] {
        assert!(of_chassis(other, &node("node1", "node1"), &[]).is_err(), "{other:?}");
    }
}

#[test]
fn a_node_that_takes_the_name_of_another_gets_nothing_and_takes_nothing_away() {
    let nodes = [node("node1", "node2"), node("node2", "node2")];
    assert_eq!(of_chassis("node2", &nodes[0], &nodes), Err("ChassisTwice"));
    // What node2 calls itself is not known yet: its name is its own all the same.
    let nodes = [node("node1", "node2"), node("node2", "other")];
    assert_eq!(of_chassis("node2", &nodes[0], &nodes), Err("ChassisTwice"));
    // Others may say what they like.
    let nodes = [node("node1", "node1"), node("node2", "node1")];
    of_chassis("node1", &nodes[0], &nodes).unwrap();
    // Of two that are called like none, none gets it: who was first is not known.
    let nodes = [node("node1", "5f9c"), node("node2", "5f9c")];
    assert_eq!(of_chassis("5f9c", &nodes[0], &nodes), Err("ChassisTwice"));
}

#[test]
fn a_name_that_open_vswitch_would_read_otherwise_is_refused() {
    for name in ["node2\0", "node2\0x", "node 1", "node1\n", "nöde", "CN=x", &"x".repeat(254)] {
        let of_node = node("node1", name);
        assert_eq!(of_chassis(name, &of_node, &[]), Err("NameNotAllowed"), "{name:?}");
    }
}

#[test]
fn only_pods_of_the_one_account_are_signed_for_and_only_while_their_node_is_there() {
    let good = request(Role::Chassis, &encoded(params("node1", &[])));
    let of_node = node("node1", "node1");
    let judge = |request: &CertificateSigningRequest, node| judged(request, Role::Chassis, node, &[]);
    judge(&good, Some(&of_node)).unwrap();
    for user in ["system:admin", "system:serviceaccount:other:ovn-controller", ""] {
        let mut request = good.clone();
        request.spec.username = Some(user.into());
        assert_eq!(judge(&request, Some(&of_node)), Err("RequesterNotAllowed"), "{user:?}");
    }
    for account in ["ovn-central", "portolan-agent", "ovn-controller-2"] {
        let mut request = good.clone();
        request.spec.username = Some(format!("system:serviceaccount:{NAMESPACE}:{account}"));
        assert_eq!(judge(&request, Some(&of_node)), Err("RequesterNotAllowed"), "{account}");
    }
    for values in [None, Some(vec![]), Some(vec![String::new()]), Some(vec!["node1".into(), "node2".into()])]
    {
        let mut request = good.clone();
        let extra = request.spec.extra.get_or_insert_default();
        match values {
            Some(values) => drop(extra.insert(NODE_NAME.into(), values)),
            None => drop(extra.remove(NODE_NAME)),
        }
        assert_eq!(judge(&request, Some(&of_node)), Err("NodeUnknown"));
    }
    assert_eq!(judge(&good, None), Err("NodeGone"));
    let again = NodeFacts { uid: "2".into(), ..node("node1", "node1") };
    assert_eq!(judge(&good, Some(&again)), Err("NodeGone"));
}

#[test]
fn what_no_certificate_of_ours_has_is_refused() {
    let refuse = |what: &str, change: &dyn Fn(&mut CertificateParams)| {
        let mut chassis = params("node1", &[]);
        change(&mut chassis);
        let chassis = request(Role::Chassis, &encoded(chassis));
        let of_node = node("node1", "node1");
        assert_eq!(judged(&chassis, Role::Chassis, Some(&of_node), &[]), Err("InvalidRequest"), "{what}");
    };
    refuse("an address", &|params| {
        params.subject_alt_names = vec![SanType::IpAddress("192.0.2.1".parse().unwrap())];
    });
    refuse("a host name", &|params| {
        params.subject_alt_names = vec![SanType::DnsName("a".try_into().unwrap())];
    });
    refuse("an authority", &|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    refuse("a server", &|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    refuse("any usage", &|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any]);
    refuse("to sign", &|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
    refuse("another organization", &|params| {
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    });
    refuse("no name", &|params| params.distinguished_name = DistinguishedName::new());
    refuse("something unknown", &|params| {
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0])];
    });
    let host = |params: &mut CertificateParams| {
        params.subject_alt_names.push(SanType::DnsName("db.example.org".try_into().unwrap()));
    };
    let mut server = params("ovn-central", &["192.0.2.1"]);
    host(&mut server);
    assert_eq!(of_server(server), Err("InvalidRequest"));
}

#[test]
fn other_usages_than_those_of_the_role_are_refused() {
    for usage in ["server auth", "cert sign", "any", "signing", ""] {
        let mut chassis = request(Role::Chassis, &encoded(params("node1", &[])));
        chassis.spec.usages.get_or_insert_default().push(usage.into());
        let of_node = node("node1", "node1");
        let judged = judged(&chassis, Role::Chassis, Some(&of_node), &[]);
        assert_eq!(judged, Err("UsageNotAllowed"), "{usage:?}");
    }
}

#[test]
fn keys_of_another_kind_and_requests_that_are_none_are_refused() {
    let of_node = node("node1", "node1");
    let refused = |text: &str| {
        let request = request(Role::Chassis, text);
        assert_eq!(judged(&request, Role::Chassis, Some(&of_node), &[]), Err("InvalidRequest"), "{text}");
    };
    for algorithm in [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        refused(&params("node1", &[]).serialize_request(&key).unwrap().pem().unwrap());
    }
    let good = encoded(params("node1", &[]));
    refused("");
    refused("garbage");
    refused("-----BEGIN CERTIFICATE REQUEST-----\nTWFuaWZlc3Q=\n-----END CERTIFICATE REQUEST-----\n");
    refused(&good.replace("CERTIFICATE REQUEST", "CERTIFICATE"));
    refused(&format!("{good}{}", " ".repeat(LONGEST_REQUEST)));
    refused(&encoded(params(&"x".repeat(LONGEST_REQUEST), &[])));
    // Every byte broken once: an error or, where it does not matter, the same decision; never a panic.
    let der = CertificateSigningRequestDer::from_pem_slice(good.as_bytes()).unwrap();
    for at in 0..der.len() {
        let mut broken = der.to_vec();
        broken[at] ^= 0x55;
        let broken = pem(&broken);
        let signed = judged(&request(Role::Chassis, &broken), Role::Chassis, Some(&of_node), &[]);
        assert!(signed.is_err(), "byte {at}: the signature is over all of it");
    }
}

fn pem(der: &[u8]) -> String {
    let body = serde_json::to_value(k8s_openapi::ByteString(der.to_vec())).unwrap();
    let body = body.as_str().unwrap();
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
}

#[test]
fn a_certificate_lives_no_longer_than_is_asked_for_and_allowed() {
    let mut request = request(Role::Chassis, "");
    assert_eq!(life(&request, LIFE), LIFE);
    request.spec.expiration_seconds = Some(600);
    assert_eq!(life(&request, LIFE), SignedDuration::from_secs(600));
    assert_eq!(life(&request, SignedDuration::from_secs(60)), SignedDuration::from_secs(60));
    request.spec.expiration_seconds = Some(i32::MAX);
    assert_eq!(life(&request, LIFE), LIFE);
}
