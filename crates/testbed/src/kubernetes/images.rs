//! The images that every node has.

use std::path::{Path, PathBuf};

use portolan_lab::pki::Authority;
use portolan_lab::{Error, Result, Trying, built_program};

use super::image::Image;

/// What holds a pod's namespaces. Its name is in the configuration of containerd.
pub(super) const PAUSE: &str = "registry.k8s.io/pause:3.10";

/// Where the machine's static busybox is.
const BUSYBOX: &str = "/bin/busybox";

/// Those of its tools that look hosts up, also where they are given addresses: a static program cannot.
const LOOK_UP_HOSTS: [&str; 7] = ["ftpget", "ftpput", "nc", "nslookup", "telnet", "traceroute", "wget"];

impl Image {
    /// What holds a pod's namespaces.
    pub(super) fn pause() -> Result<Self> {
        let image = Image::new(PAUSE).name("registry.k8s.io/pause:3.10.1");
        Ok(image.file(built_program("pause")?, "/pause").entry_point(["/pause"]))
    }

    /// A shell with the usual small tools, and `curl`, `ip` and `ping`.
    pub fn busybox() -> Result<Self> {
        let image = Image::new("docker.io/library/busybox:1")
            .name("registry.k8s.io/e2e-test-images/busybox:1.37.0-1");
        Ok(with_tools(image)?.command(["sh"]))
    }

    /// agnhost, which plays servers and clients of many kinds, with the tools of [`Image::busybox`] beside it. Containers without
    /// arguments wait until they are ended.
    pub fn agnhost() -> Result<Self> {
        with_tools(agnhost("docker.io/library/agnhost:1")?)
    }

    /// agnhost under the names that the tests of Kubernetes know, with what else they expect.
    pub fn agnhost_of_conformance() -> Result<Self> {
        let mut image = agnhost("registry.k8s.io/e2e-test-images/agnhost:2.56")?
            .name("registry.k8s.io/e2e-test-images/jessie-dnsutils:1.7");
        for name in ["bash", "dig", "getent", "iperf3", "jq", "ncat", "nslookup", "ss", "tcpdump"] {
            image = image.program(tool(name)?, format!("/usr/bin/{name}"));
        }
        image = image.program(tool("nc.openbsd")?, "/usr/bin/nc");
        with_tools(image.file(built_program("coredns")?, "/coredns").directory("/uploads", 0o755))
    }

    /// The DNS of a cluster.
    pub(super) fn coredns() -> Result<Self> {
        let image = Image::new("docker.io/library/coredns:1");
        Ok(image.file(built_program("coredns")?, "/coredns").entry_point(["/coredns"]))
    }
}

fn agnhost(name: &str) -> Result<Image> {
    // Its `porter` serves HTTPS with these.
    let identity = Authority::new("agnhost")?.server("localhost", &["localhost", "127.0.0.1"])?;
    let image = Image::new(name)
        .file(built_program("agnhost")?, "/agnhost")
        .symlink("/agnhost-2", "agnhost")
        .bytes("/localhost.crt", 0o644, identity.certificate)
        .bytes("/localhost.key", 0o644, identity.key)
        .bytes(
            "/etc/passwd",
            0o644,
            "root:x:0:0:root:/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n",
        )
        .bytes("/etc/group", 0o644, "root:x:0:\ngroup-defined-in-image:x:50000:user-defined-in-image\n");
    Ok(image.entry_point(["/agnhost"]).command(["pause"]))
}

/// Adds a shell and small tools.
fn with_tools(mut image: Image) -> Result<Image> {
    // Real ones first: the shell of busybox prefers its own tools to those of other names, and as a static program it cannot
    // look hosts up.
    image = image.program(tool("dash")?, "/bin/sh");
    for name in ["curl", "ip", "ping"] {
        image = image.program(tool(name)?, format!("/bin/{name}"));
    }
    let listed = std::process::Command::new(BUSYBOX).arg("--list").output();
    let listed = listed.map_err(|_| Error::NotInstalled { program: "busybox-static".into() })?;
    let names = String::from_utf8_lossy(&listed.stdout);
    let links = names.lines().filter(|name| *name != "busybox" && !LOOK_UP_HOSTS.contains(name));
    Ok(links.fold(image.file(BUSYBOX, BUSYBOX), |image, name| image.symlink(format!("/bin/{name}"), BUSYBOX)))
}

/// A program of this machine.
pub(super) fn tool(name: &str) -> Result<PathBuf> {
    let directories = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(Path::new);
    let found = directories.iter().map(|directory| directory.join(name)).find(|path| path.exists());
    let found = found.ok_or_else(|| Error::NotInstalled { program: name.into() })?;
    found.canonicalize().trying(|| format!("find {}", found.display()))
}
