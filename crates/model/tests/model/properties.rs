//! Properties over random histories.

use std::collections::{BTreeMap, BTreeSet};

use portolan_api::portolan::{HolderKind, LockUser};
use portolan_model::fixtures::*;
use portolan_model::node::Tunnels;
use portolan_model::pod::{Place, SetOfPod, StatefulSet, VirtualMachine};
use portolan_model::{
    Dirty, FirstInterface, Node, Pod, PodController, Requester, Settings, Unit, UnitState, VpcPair, World,
};
use proptest::prelude::*;

/// An object of any kind.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Clone, Debug)]
enum Object {
    Vpc(portolan_api::portolan::Vpc),
    KubeOvnVpc(portolan_api::kubeovn::Vpc),
    Subnet(portolan_api::portolan::Subnet),
    KubeOvnSubnet(portolan_api::kubeovn::Subnet),
    Nad(portolan_api::nad::NetworkAttachmentDefinition),
    IpPool(portolan_api::kubeovn::IPPool),
    Vip(portolan_api::kubeovn::Vip),
    Node(Node),
    Pod(Pod),
    StatefulSet(StatefulSet),
    Machine(VirtualMachine),
    NetworkAttachment(portolan_api::portolan::NetworkAttachment),
    Lock(portolan_api::portolan::IPLock),
    Service(k8s_openapi::api::core::v1::Service),
    Slice(k8s_openapi::api::discovery::v1::EndpointSlice),
}

macro_rules! each {
    ($object:expr, $inner:ident => $do:expr) => {
        match $object {
            Object::Vpc($inner) => $do,
            Object::KubeOvnVpc($inner) => $do,
            Object::Subnet($inner) => $do,
            Object::KubeOvnSubnet($inner) => $do,
            Object::Nad($inner) => $do,
            Object::IpPool($inner) => $do,
            Object::Vip($inner) => $do,
            Object::Node($inner) => $do,
            Object::Pod($inner) => $do,
            Object::StatefulSet($inner) => $do,
            Object::Machine($inner) => $do,
            Object::NetworkAttachment($inner) => $do,
            Object::Lock($inner) => $do,
            Object::Service($inner) => $do,
            Object::Slice($inner) => $do,
        }
    };
}

impl Object {
    fn apply(&self, world: &mut World) -> Dirty {
        each!(self, object => world.apply(object))
    }

    fn delete(&self, world: &mut World) -> Dirty {
        each!(self, object => world.delete(object))
    }

    fn key(&self) -> (std::mem::Discriminant<Object>, String) {
        use portolan_model::Source;
        (std::mem::discriminant(self), each!(self, object => format!("{:?}", object.key())))
    }
}

const VPCS: [&str; 4] = ["blue", "green", "red", "ovn-cluster"];
const SUBNETS: [&str; 3] = ["web", "db", "vm"];
const NODE_SUBNETS: [&str; 2] = ["node:node-1", "node:node-2"];
const PODS: [&str; 3] = ["a", "b-0", "b-1"];
const TUNNELS: [Tunnels; 4] =
    [Tunnels::Unreported, Tunnels::Mtu(600), Tunnels::Mtu(1342), Tunnels::Mtu(1442)];

fn pick<T: Clone + std::fmt::Debug + 'static>(from: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(from.to_vec())
}

fn vpc() -> impl Strategy<Value = Object> {
    let peering = (pick(&VPCS), pick(&["169.254.0.1/30", "169.254.0.2/30", "169.254.0.5/30"]));
    let fields = (pick(&VPCS), prop::collection::vec(peering, 0..3), any::<bool>(), any::<bool>(), 0..3_i64);
    fields.prop_map(|(name, peerings, broken, own, generation)| {
        let mut vpc = mk_vpc(name);
        vpc.metadata.generation = Some(generation);
        let mut seen = BTreeSet::from([name]);
        vpc.spec.vpc_peerings = peerings
            .into_iter()
            .filter(|(remote, _)| seen.insert(remote))
            .map(|(remote, local)| mk_peering(remote, local))
            .collect();
        if broken {
            vpc.spec.namespaces = vec!["Not A Name".to_owned()];
        } else if own {
            // Of the default namespace, where the pods are, or of another.
            let namespace = if generation == 0 { "default" } else { "other" };
            vpc.spec.namespaces = vec![namespace.to_owned()];
            vpc.spec.default_subnet = Some("db".to_owned());
        }
        Object::Vpc(vpc)
    })
}

fn kubeovn_vpc() -> impl Strategy<Value = Object> {
    (pick(&VPCS), any::<bool>()).prop_map(|(name, old)| {
        let mut vpc = mk_kubeovn_vpc(name);
        if old {
            let time = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
            vpc.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        }
        Object::KubeOvnVpc(vpc)
    })
}

fn subnet() -> impl Strategy<Value = Object> {
    let cidrs = ["10.0.0.0/24", "10.0.1.0/24,fd00::/64", "broken"];
    let vpcs = ["", "blue", "green", "ovn-cluster"];
    let fields = (pick(&SUBNETS), pick(&cidrs), pick(&vpcs), 0..4_u8, 0..32_u8, 0..3_i64);
    fields.prop_map(|(name, cidr, vpc, validated, flags, made)| {
        let mut subnet = mk_subnet(name, cidr, vpc);
        let made = k8s_openapi::jiff::Timestamp::from_second(made).unwrap();
        subnet.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(made));
        match validated {
            0 => subnet.status = None,
            1 => subnet.metadata.generation = Some(2),
            _ => {}
        }
        subnet.spec.enable_dhcp = flags & 1 != 0;
        subnet.spec.default = flags & 2 != 0;
        subnet.spec.provider = (flags & 4 != 0).then(|| "net.default.ovn".to_owned());
        if flags & 8 != 0 {
            subnet.spec.namespaces = vec!["default".to_owned()];
        }
        subnet.spec.private = flags & 16 != 0;
        subnet.spec.mtu = (flags & 17 == 17).then_some(1300);
        Object::Subnet(subnet)
    })
}

fn kubeovn_subnet() -> impl Strategy<Value = Object> {
    (pick(&SUBNETS), any::<bool>(), any::<bool>()).prop_map(|(name, validated, nad)| {
        let mut subnet = mk_kubeovn_subnet(name, "10.0.2.0/24");
        if !validated {
            subnet.status = None;
        }
        subnet.spec.provider = nad.then(|| "net.default.ovn".to_owned());
        Object::KubeOvnSubnet(subnet)
    })
}

fn pod() -> impl Strategy<Value = Object> {
    let networks = ["net", "net,net@x", "foreign,net", "other/net", "net@eth0", "net@vpc0", "[", "nfn"];
    let fields = (pick(&PODS), pick(&networks), 0..3_u8, any::<[bool; 4]>(), pick(&["node-1", "node-2"]));
    let rate_keys = [
        "ovn.kubernetes.io/egress_rate",
        "net.default.ovn.kubernetes.io/ingress_rate",
        "net.default.ovn.net1.kubernetes.io/ingress_rate",
    ];
    let rates = prop::collection::vec((pick(&rate_keys), pick(&["10", "20", "abc"])), 0..3);
    let switch_keys = ["ovn.kubernetes.io/logical_switch", "ovn.vpc0.kubernetes.io/logical_switch"];
    let switch = prop::option::weighted(0.3, (pick(&switch_keys), pick(&SUBNETS)));
    (fields, rates, switch).prop_map(
        |((name, networks, controller, [asks, finished, second_life, nfn], node), rates, switch)| {
            let mut annotations = rates;
            annotations.extend(switch);
            if asks {
                annotations.push(("k8s.v1.cni.cncf.io/networks", networks));
            }
            if asks && second_life {
                annotations.push(("net.default.ovn.kubernetes.io/ip_pool", "pool-1"));
            }
            if nfn {
                let text = r#"{"type":"ovn4nfv","interface":[{"name":"db"}]}"#;
                annotations.push(("k8s.plugin.opnfv.org/nfn-network", text));
            }
            let mut pod = mk_pod("default", name, &annotations);
            pod.finished = finished;
            pod.place = Place::on(node);
            if second_life {
                pod.uid = format!("{}-2", pod.uid).into();
                pod.created = 7;
            }
            pod.controller = match controller {
                0 => PodController::Other,
                1 => PodController::StatefulSet(Box::new(SetOfPod { name: "b".into(), uid: "set-b".into() })),
                _ => PodController::VirtualMachine("machine".into()),
            };
            Object::Pod(pod)
        },
    )
}

fn lock() -> impl Strategy<Value = Object> {
    let addresses = ["10.0.0.5", "10.0.0.6", "10.0.1.5", "fd00::5", "02:00:00:00:00:01", "10.60.0.5"];
    let subnets = [&SUBNETS[..], &NODE_SUBNETS].concat();
    let domains = ["vpc/blue", "vpc/green", "subnet/web", "vpc/ovn-cluster"];
    let fields = (
        (pick(&addresses), pick(&PODS), pick(&subnets), pick(&domains)),
        (1..4_u64, any::<[bool; 4]>(), pick(&["eth0", "net1", "vpc0"]), pick(&["node-1", "node-2"])),
    );
    fields.prop_map(
        |((address, pod, subnet, domain), (version, [dual, sticky, mac, second_life], interface, node))| {
            let mut lock = mk_lock(domain, subnet, address, pod, version);
            let spec = &mut lock.spec;
            spec.node = Some(node.to_owned());
            spec.holder.interface = Some(interface.to_owned());
            spec.interfaces = vec![portolan_api::portolan::DecidedInterface {
                interface: interface.to_owned(),
                families: if dual {
                    vec![portolan_api::Family::IPv4, portolan_api::Family::IPv6]
                } else {
                    vec![portolan_api::Family::IPv4]
                },
            }];
            if second_life {
                spec.holder.uid.push_str("-2");
            }
            if sticky {
                spec.holder.kind = HolderKind::StatefulSet;
                spec.holder.uid = "set-b".to_owned();
                spec.user = Some(LockUser { pod: pod.to_owned(), uid: format!("pod-default-{pod}") });
                lock.metadata.generation = Some(version as i64);
            }
            if mac {
                lock.spec.mac = Some("02:00:00:00:00:01".to_owned());
            }
            Object::Lock(lock)
        },
    )
}

/// A lock of a node's port.
fn node_lock() -> impl Strategy<Value = Object> {
    let addresses = ["10.60.0.2", "10.60.0.3", "10.0.0.7", "10.0.0.8"];
    let subnets = [&SUBNETS[..], &NODE_SUBNETS].concat();
    (pick(&addresses), pick(&subnets), pick(&["node-1", "node-2"]), any::<bool>(), 1..4_u64).prop_map(
        |(address, subnet, node, second_life, version)| {
            let mut lock = mk_lock("vpc/ovn-cluster", subnet, address, node, version);
            let holder = &mut lock.spec.holder;
            (holder.kind, holder.namespace) = (HolderKind::Node, None);
            holder.uid = format!("node-{node}{}", if second_life { "-2" } else { "" });
            holder.interface = Some("node".to_owned());
            lock.spec.node = Some(node.to_owned());
            lock.spec.interfaces = vec![portolan_api::portolan::DecidedInterface {
                interface: "node".to_owned(),
                families: vec![portolan_api::Family::IPv4; 2],
            }];
            Object::Lock(lock)
        },
    )
}

/// A node of the primary network.
fn primary_node() -> impl Strategy<Value = Object> {
    let cidrs = ["10.60.0.0/24", "10.60.0.0/28,fd00:60::/64", "10.61.0.0/24"];
    (pick(&["node-1", "node-2"]), pick(&cidrs), any::<[bool; 4]>()).prop_map(
        |(name, cidrs, [served, second_life, moved, zone])| {
            let mut node = mk_node_with(name, cidrs);
            if !served {
                node.served_cidrs = None;
            }
            if second_life {
                let uid = format!("{}-2", node.uid);
                node = mk_node_again(node, &uid);
            }
            node.zone = zone.then(|| "east".to_owned());
            if moved {
                node.addresses = vec![[192, 168, 0, 9].into()];
            }
            Object::Node(node)
        },
    )
}

fn service() -> impl Strategy<Value = Object> {
    let fields = (pick(&["web", "db"]), pick(&["10.96.0.1", "10.96.0.2"]), any::<[bool; 5]>());
    fields.prop_map(|(name, ip, [local, named, old, second_life, others])| {
        let mut service = mk_service(name, &[ip]);
        if second_life {
            service.metadata.uid = Some(format!("service-{name}-2"));
        }
        if old {
            let made = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
            service.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(made));
        }
        if others {
            let label = ("service.kubernetes.io/service-proxy-name".to_owned(), "x".to_owned());
            service.metadata.labels = Some([label].into());
        }
        let spec = service.spec.as_mut().unwrap();
        spec.internal_traffic_policy = local.then(|| "Local".to_owned());
        spec.external_ips = named.then(|| vec!["192.0.2.1".to_owned(), "10.96.0.2".to_owned()]);
        Object::Service(service)
    })
}

fn slice() -> impl Strategy<Value = Object> {
    let endpoints =
        prop::collection::vec((pick(&["10.1.0.1", "10.1.0.2"]), pick(&["node-1", "node-2"])), 0..3);
    (pick(&["web", "db"]), pick(&["a", "b"]), endpoints, any::<bool>()).prop_map(
        |(service, name, endpoints, hinted)| {
            let mut slice = mk_slice(service, &endpoints);
            slice.metadata.name = Some(name.to_owned());
            if hinted {
                let zones = serde_json::json!({"forZones": [{"name": "east"}]});
                for endpoint in &mut slice.endpoints {
                    endpoint.hints = Some(serde_json::from_value(zones.clone()).unwrap());
                }
            }
            Object::Slice(slice)
        },
    )
}

fn other() -> impl Strategy<Value = Object> {
    prop_oneof![
        2 => node_lock(),
        2 => primary_node(),
        2 => service(),
        2 => slice(),
        1 => any::<bool>().prop_map(|foreign| Object::Nad(if foreign {
            mk_nad_of("default", "net", r#"{"type":"macvlan"}"#)
        } else {
            mk_nad("default", "net")
        })),
        1 => Just(Object::Nad(mk_nad_of("default", "foreign", r#"{"type":"macvlan"}"#))),
        1 => Just(Object::Nad(mk_nad_of("default", "nfn", r#"{"type":"ovn4nfvk8s-cni"}"#))),
        1 => (pick(&["node-1", "node-2"]), pick(&["node-1", "chassis-7"]), pick(&TUNNELS)).prop_map(
            |(name, chassis, tunnels)| {
                Object::Node(Node { chassis: chassis.to_owned(), tunnels, ..mk_node(name) })
            }
        ),
        1 => (0..3_u32).prop_map(|replicas| Object::StatefulSet(StatefulSet {
            namespace: "default".to_owned(),
            name: "b".to_owned(),
            uid: "set-b".to_owned(),
            start: 0,
            replicas,
        })),
        1 => pick(&["m1", "m2"]).prop_map(|uid| Object::Machine(VirtualMachine {
            namespace: "default".to_owned(),
            name: "machine".to_owned(),
            uid: uid.to_owned(),
        })),
        1 => (
            pick(&["pool-1", "pool-2"]),
            pick(&SUBNETS),
            pick(&["10.0.0.5..10.0.0.9", "10.0.1.5", "broken"]),
            any::<bool>()
        )
            .prop_map(|(name, subnet, ips, own)| {
                let namespaces: &[&str] = if own { &["default"] } else { &[] };
                Object::IpPool(mk_ip_pool(name, subnet, &[ips], namespaces))
            }),
        1 => pick(&SUBNETS).prop_map(|subnet| {
            let spec = serde_json::json!({"subnet": subnet, "v4ip": "10.0.0.6"});
            let mut vip = portolan_api::kubeovn::Vip::new("front", serde_json::from_value(spec).unwrap());
            vip.metadata.uid = Some("vip-front".to_owned());
            Object::Vip(vip)
        }),
        1 => pick(&SUBNETS)
            .prop_map(|subnet| Object::NetworkAttachment(mk_network_attachment("default", "n", subnet))),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        2 => vpc(), 1 => kubeovn_vpc(), 3 => subnet(), 1 => kubeovn_subnet(), 3 => pod(), 4 => lock(), 4 => other()
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    any::<bool>().prop_map(|primary| Settings {
        first_interface: if primary { FirstInterface::Portolan } else { FirstInterface::Other },
    })
}

/// Every unit that could be.
fn units(world: &World) -> BTreeSet<Unit> {
    let vpcs = VPCS.iter().map(|name| Unit::Vpc((*name).to_owned()));
    let subnets = SUBNETS.iter().chain(&NODE_SUBNETS).map(|name| Unit::Subnet((*name).to_owned()));
    let nodes = ["node-1", "node-2"].map(|name| Unit::Node(name.to_owned()));
    let chassis = ["node-1", "node-2"].map(|name| Unit::Chassis(name.to_owned()));
    let services =
        ["web", "db"].map(|name| Unit::Service { namespace: "default".to_owned(), name: name.to_owned() });
    let pairs = VPCS.iter().flat_map(|a| VPCS.iter().filter_map(|b| VpcPair::new(a, b))).map(Unit::Peering);
    let attachments = world.holders().cloned().map(Unit::Attachment);
    let all = vpcs.chain(subnets).chain(nodes).chain(chassis).chain(services);
    all.chain(pairs).chain(attachments).collect()
}

/// What planners see of every unit.
fn seen(world: &World) -> BTreeMap<Unit, (UnitState, String)> {
    units(world)
        .into_iter()
        .map(|unit| {
            let view = world.view(&unit);
            assert_eq!(view.is_some(), world.state(&unit) == UnitState::Live, "{unit}");
            let seen = (world.state(&unit), format!("{view:?}"));
            (unit, seen)
        })
        .filter(|(_, (state, _))| *state != UnitState::Absent)
        .collect()
}

/// What everyone who might ask asks for.
fn asked(world: &World) -> BTreeMap<Requester, String> {
    let pods = PODS.iter().map(|name| Requester::pod("default", *name));
    let others =
        [Requester::network_attachment("default", "n"), Requester::node("node-1"), Requester::vip("front")];
    pods.chain(others)
        .map(|requester| (requester.clone(), format!("{:?}", world.request(&requester))))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened before: what was last said counts, and the order in which it was said does not.
    #[test]
    fn any_history_ends_in_the_world_of_its_last_objects(
        settings in settings(),
        history in prop::collection::vec((object(), any::<bool>()), 0..60),
        order in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(settings);
        let mut last: Vec<Object> = Vec::new();
        for (object, deleted) in &history {
            last.retain(|other| other.key() != object.key());
            let _ = if *deleted { object.delete(&mut world) } else {
                last.push(object.clone());
                object.apply(&mut world)
            };
        }
        let middle = if last.is_empty() { 0 } else { order.index(last.len()) };
        last.rotate_left(middle);
        let mut fresh = World::new(settings);
        for object in &last {
            let _ = object.apply(&mut fresh);
        }
        prop_assert_eq!(&world, &fresh);
        // Saying it all again changes nothing and asks for nothing.
        for object in last.iter().rev() {
            let dirty = object.apply(&mut world);
            prop_assert!(dirty.is_empty(), "{:?} dirties {:?}", object, dirty);
        }
        prop_assert_eq!(&world, &fresh);
        for object in &last {
            let _ = object.delete(&mut world);
        }
        prop_assert_eq!(world, World::new(settings));
    }

    /// Whoever was dirty at some time is among those for whom a decision may come to something, or a decision comes to nothing.
    #[test]
    fn who_is_not_open_needs_no_decision(
        settings in settings(),
        history in prop::collection::vec((object(), prop::bool::weighted(0.25)), 0..60),
    ) {
        let mut world = World::new(settings);
        let mut dirty = Dirty::default();
        for (object, deleted) in &history {
            dirty.merge(if *deleted { object.delete(&mut world) } else { object.apply(&mut world) });
        }
        let open = world.open_requesters();
        for requester in dirty.requesters.difference(&open) {
            let held = world.holdings_of(requester);
            // A gateway's addresses are settled as a whole.
            let is_gateway = matches!(requester, Requester::Subnet { .. });
            let has_what_it_asked_for = world.is_satisfied(requester)
                && (is_gateway || held.iter().all(|id| world.is_current(requester, id)));
            let is_nobody = held.is_empty() && world.request(requester).is_none();
            prop_assert!(has_what_it_asked_for || is_nobody, "{} is not open", requester);
        }
    }

    /// What is not dirty looks as before, so planning the dirty units again gives what planning all would.
    #[test]
    fn what_is_not_dirty_has_not_changed(
        settings in settings(),
        history in prop::collection::vec((object(), prop::bool::weighted(0.25)), 0..60),
    ) {
        let mut world = World::new(settings);
        for (object, deleted) in &history {
            let (units_before, asked_before) = (seen(&world), asked(&world));
            let dirty = if *deleted { object.delete(&mut world) } else { object.apply(&mut world) };
            let (units_after, asked_after) = (seen(&world), asked(&world));
            let all: BTreeSet<_> = units_before.keys().chain(units_after.keys()).collect();
            for unit in all {
                if !dirty.units.contains(unit) {
                    prop_assert_eq!(units_before.get(unit), units_after.get(unit), "{} after {:?}", unit, object);
                }
            }
            let unsatisfied: BTreeSet<_> = world.unsatisfied().cloned().collect();
            for (requester, request) in &asked_after {
                if unsatisfied.contains(requester) && !dirty.requesters.contains(requester) {
                    prop_assert_eq!(&asked_before[requester], request, "{} after {:?}", requester, object);
                }
            }
        }
    }
}

#[test]
fn resetting_with_the_same_content_dirties_nothing() {
    let subnets = [mk_subnet("web", "10.0.0.0/24", ""), mk_subnet("db", "10.0.1.0/24", "")];
    let mut world = World::default();
    assert_eq!(world.reset(&subnets).units.len(), 2);
    assert!(world.reset(&subnets).is_empty());
    let dirty = world.reset(&subnets[..1]);
    assert_eq!(dirty.units, BTreeSet::from([Unit::Subnet("db".to_owned())]));
}
