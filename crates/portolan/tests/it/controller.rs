//! Operating `portolan controller`: who leads, and what it tells about itself. Real binaries, on either API server.

mod any_order;
mod bindings;
mod chassis;
mod debug;
mod election;
mod exhaustion;
mod ip_pools;
mod life;
mod machines;
mod peerings;
mod results;
mod rights;
mod status;
mod vips;
mod webhooks;

use std::path::Path;

use portolan_testbed::{ApiKind, Daemon, Northbound, Process, TestLab, Testbed};

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");
const OBJECTS: &str = include_str!("controller/objects.yaml");
const NAMESPACE: &str = "portolan-system";

/// A cluster without nodes; controllers are started by the test.
pub(crate) struct Stage<'a> {
    lab: &'a TestLab,
    testbed: Testbed,
    northbound: Northbound,
}

/// A controller, and the port where it tells about itself.
pub(crate) struct Controller {
    process: Process,
    port: u16,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(lab: &'a TestLab, api: ApiKind) -> Self {
        let testbed = Testbed::builder().nodes(0).api(api).audit_log().without_controller().without_agents();
        let testbed = testbed.start(lab).unwrap();
        let northbound = testbed.northbound();
        Stage { lab, testbed, northbound }
    }

    /// With the namespace of the Lease, and objects that pods need.
    pub(crate) fn with_objects(lab: &'a TestLab, api: ApiKind) -> Self {
        let stage = Stage::new(lab, api);
        stage.kubectl(&["create", "namespace", NAMESPACE]);
        stage.testbed.apply(OBJECTS).unwrap();
        stage
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.testbed.kubectl().unwrap().args(arguments).read().unwrap()
    }

    pub(crate) fn start(&self, name: &str, arguments: &[&str]) -> Controller {
        self.start_with(name, &self.testbed.central().nb().endpoint(), arguments)
    }

    /// With a northbound database of its own.
    pub(crate) fn start_with(&self, name: &str, northbound: &str, arguments: &[&str]) -> Controller {
        self.start_as(name, self.testbed.kubeconfig(), northbound, arguments)
    }

    /// As the user of a kubeconfig.
    pub(crate) fn start_as(
        &self,
        name: &str,
        kubeconfig: &Path,
        northbound: &str,
        arguments: &[&str],
    ) -> Controller {
        let port = self.lab.port();
        let central = self.testbed.central();
        let process = Daemon::new(name, PORTOLAN)
            .args([
                "controller",
                "--ovn-nb",
                northbound,
                "--ovn-sb",
                &central.sb().endpoint(),
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .arg(format!("--health-address=0.0.0.0:{port}"))
            .args(arguments)
            .env("POD_NAME", name)
            .start(self.lab.home())
            .unwrap();
        Controller { process, port }
    }

    /// What a controller answers, with the HTTP status in the last line.
    pub(crate) fn get(&self, controller: &Controller, path: &str) -> String {
        self.request(controller, "GET", "127.0.0.1", path)
    }

    pub(crate) fn request(&self, controller: &Controller, method: &str, host: &str, path: &str) -> String {
        self.request_at(controller.port, method, host, path)
    }

    pub(crate) fn request_at(&self, port: u16, method: &str, host: &str, path: &str) -> String {
        let url = format!("http://{host}:{port}{path}");
        let curl = self.lab.command("curl").args([
            "-sS",
            "--retry",
            "50",
            "--retry-connrefused",
            "--retry-delay",
            "1",
        ]);
        curl.args(["-X", method, "-w", "\n%{http_code}", &url]).read().unwrap()
    }

    /// Makes a pod, and waits until OVN has its port.
    pub(crate) fn serve_pod(&self, name: &str) {
        self.testbed.pod(name).on("node-1").nad("web").create().unwrap();
        let unit = format!("attachment/pod/default/{name}/");
        self.northbound.wait_until(move |cache| {
            Northbound::units_in(cache).iter().any(|found| found.starts_with(&unit))
        });
    }
}
