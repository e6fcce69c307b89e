//! What the parts of a cluster use, by `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    Controller,
    Agent,
    Ovn,
    OpenVSwitch,
    /// With the CNI plugins, and everything else that it starts and waits for.
    Containerd,
    /// What starts containers and stays with them, and the containers.
    Shims,
    Kubelet,
    KubeProxy,
    ApiServer,
    Etcd,
    ControllerManager,
    Scheduler,
}

/// One process.
pub(crate) struct Usage {
    component: Component,
    /// Its own time and that of children that it waited for, in seconds.
    cpu: f64,
    memory: u64,
}

/// All processes of a cluster, by their ids.
pub(crate) type Usages = BTreeMap<u32, Usage>;

impl Component {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Component::Controller => "portolan controller",
            Component::Agent => "portolan agents",
            Component::Ovn => "OVN: databases, ovn-northd, ovn-controllers",
            Component::OpenVSwitch => "Open vSwitch of the nodes",
            Component::Containerd => "containerd, with CNI plugins",
            Component::Shims => "shims, runc and containers",
            Component::Kubelet => "kubelets",
            Component::KubeProxy => "kube-proxies",
            Component::ApiServer => "kube-apiserver",
            Component::Etcd => "etcd",
            Component::ControllerManager => "kube-controller-manager",
            Component::Scheduler => "kube-scheduler",
        }
    }

    /// By the first 15 characters of a program's name, and its arguments.
    fn of(name: &str, arguments: &[u8], is_on_node: bool) -> Option<Self> {
        let first = arguments.split(|&byte| byte == 0).nth(1);
        Some(match name {
            "portolan" if first == Some(b"controller") => Component::Controller,
            "portolan" if first == Some(b"agent") => Component::Agent,
            "ovsdb-server" if is_on_node => Component::OpenVSwitch,
            "ovs-vswitchd" => Component::OpenVSwitch,
            "ovsdb-server" | "ovn-northd" | "ovn-controller" => Component::Ovn,
            "containerd" => Component::Containerd,
            "containerd-shim" | "runc" | "pause" | "agnhost" => Component::Shims,
            "kubelet" => Component::Kubelet,
            "kube-proxy" => Component::KubeProxy,
            "kube-apiserver" => Component::ApiServer,
            "etcd" => Component::Etcd,
            "kube-controller" => Component::ControllerManager,
            "kube-scheduler" => Component::Scheduler,
            _ => return None,
        })
    }
}

/// What runs in a lab now.
pub(crate) fn now(lab: &Path) -> Usages {
    let mark = format!("PORTOLAN_LAB={}", lab.display());
    let group = format!(":/{}/", lab.file_name().unwrap().display());
    let ids = fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // One that ends meanwhile has no files any more.
    ids.filter_map(|id| Some((id, read(id, &mark, &group)?))).collect()
}

fn read(id: u32, mark: &str, group: &str) -> Option<Usage> {
    let file = |name: &str| fs::read(format!("/proc/{id}/{name}")).ok();
    let text = |name: &str| fs::read_to_string(format!("/proc/{id}/{name}")).ok();
    let is_on_node = text("cgroup")?.contains(group);
    let is_marked = || Some(file("environ")?.split(|&byte| byte == 0).any(|one| one == mark.as_bytes()));
    if !is_on_node && !is_marked()? {
        return None;
    }
    let component = Component::of(text("comm")?.trim(), &file("cmdline")?, is_on_node)?;
    let stat = text("stat")?;
    // The command's name, in parentheses, may hold spaces. Then: user and system time of its own, and of children.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    let pages: u64 = text("statm")?.split_whitespace().nth(1)?.parse().ok()?;
    Some(Usage {
        component,
        cpu: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
        memory: pages * rustix::param::page_size() as u64,
    })
}

/// The time that each component had between two looks.
pub(crate) fn cpu_between(before: &Usages, after: &Usages) -> BTreeMap<Component, f64> {
    let mut cpu = BTreeMap::new();
    for (id, now) in after {
        let earlier = before.get(id).map_or(0.0, |usage| usage.cpu);
        *cpu.entry(now.component).or_default() += now.cpu - earlier;
    }
    cpu
}

/// The memory of the largest process of each component.
pub(crate) fn memory(usages: &Usages) -> BTreeMap<Component, u64> {
    let mut memory = BTreeMap::new();
    for usage in usages.values() {
        let largest: &mut u64 = memory.entry(usage.component).or_default();
        *largest = usage.memory.max(*largest);
    }
    memory
}
