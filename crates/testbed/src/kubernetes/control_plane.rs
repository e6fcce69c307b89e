//! What runs beside the nodes: the API server on its etcd, the controllers, the scheduler.

use std::net::Ipv4Addr;

use portolan_lab::{Daemon, Lab, Process, Result, Trying, built_program};

use super::{Families, POD_CIDR, POD_CIDR_IPV6, Purpose, SERVICE_CIDR, SERVICE_CIDR_IPV6};
use crate::etcd::Etcd;
use crate::kube_apiserver::KubeApiServer;

/// The control plane of a cluster, in the lab's home namespace.
#[derive(Debug)]
pub(super) struct ControlPlane {
    // Dropped, and so ended, before what they use.
    _scheduler: Process,
    _controller_manager: Process,
    pub(super) api_server: KubeApiServer,
}

impl ControlPlane {
    pub(super) fn start(
        lab: &Lab,
        address: Ipv4Addr,
        families: Families,
        purpose: Purpose,
        audit: bool,
    ) -> Result<Self> {
        let services = families.list(SERVICE_CIDR, SERVICE_CIDR_IPV6);
        let etcd = Etcd::builder().name("kube-apiserver/etcd");
        let etcd = if purpose == Purpose::Measurements { etcd.fsync() } else { etcd };
        let api_server = KubeApiServer::builder().etcd(etcd.start(lab)?).advertise(address);
        let api_server = api_server.arg(format!("--service-cluster-ip-range={services}"));
        let api_server = if audit { api_server.audit_log() } else { api_server }.start(lab)?;
        let controller_manager = start_controller_manager(lab, address, families, &api_server)?;
        let kubeconfig = api_server.kubeconfig_for("system:kube-scheduler", None, address.into())?;
        let scheduler = Daemon::new("kube-scheduler", built_program("kube-scheduler")?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500"])
            .start(lab.home())?;
        Ok(Self { _scheduler: scheduler, _controller_manager: controller_manager, api_server })
    }
}

fn start_controller_manager(
    lab: &Lab,
    address: Ipv4Addr,
    families: Families,
    api_server: &KubeApiServer,
) -> Result<Process> {
    let services = families.list(SERVICE_CIDR, SERVICE_CIDR_IPV6);
    let authority = api_server.authority();
    let directory = lab.directory("kube-controller-manager")?;
    let certificate = authority.write(&directory, "ca")?;
    let key = directory.join("ca.key");
    std::fs::write(&key, authority.key()).trying(|| format!("write {}", key.display()))?;
    Daemon::new("kube-controller-manager", built_program("kube-controller-manager")?)
        .arg("--kubeconfig")
        .arg(api_server.kubeconfig_for("system:kube-controller-manager", None, address.into())?)
        .arg("--service-account-private-key-file")
        .arg(api_server.service_account_key())
        .arg("--root-ca-file")
        .arg(&certificate)
        .arg("--cluster-signing-cert-file")
        .arg(&certificate)
        .arg("--cluster-signing-key-file")
        .arg(&key)
        .args([
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=true",
            "--cluster-cidr",
            &families.list(POD_CIDR, POD_CIDR_IPV6),
        ])
        .arg(format!("--service-cluster-ip-range={services}"))
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(["--kube-api-qps=500", "--kube-api-burst=500"])
        .start(lab.home())
}
