//! What the kernel has, and how it is set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::facts::{Kernel, Module, Outcome};

/// Settings of interest, below `/proc/sys`.
const SETTINGS: &[&str] = &[
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/ipv4/conf/portolan0/rp_filter",
    "net/ipv6/conf/all/disable_ipv6",
    "net/ipv6/conf/default/disable_ipv6",
    "net/ipv6/conf/all/forwarding",
];

pub(super) fn facts() -> Kernel {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().to_owned();
    let openvswitch = Outcome::of(portolan_host::genl::has_openvswitch());
    let geneve = module("geneve", &release, Path::new("/sys"), &modules());
    Kernel { release, openvswitch, geneve }
}

pub(super) fn settings() -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        Some((name.replace('/', "."), value.trim().to_owned()))
    };
    SETTINGS.iter().filter_map(read).collect()
}

/// Where modules are: those of the host, in a pod that has its files.
fn modules() -> Vec<PathBuf> {
    vec!["/host/lib/modules".into(), "/lib/modules".into()]
}

fn module(name: &str, release: &str, sys: &Path, modules: &[PathBuf]) -> Module {
    if sys.join("module").join(name).exists() {
        return Module::Loaded;
    }
    let is_named = |line: &str| {
        let file = line.split(':').next().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        file.split(".ko").next() == Some(name)
    };
    let lists = |list: &str| {
        modules.iter().any(|directory| {
            let text = std::fs::read_to_string(directory.join(release).join(list));
            text.is_ok_and(|text| text.lines().any(is_named))
        })
    };
    if lists("modules.builtin") {
        Module::Loaded
    } else if lists("modules.dep") {
        Module::Available
    } else {
        Module::Missing
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_loaded_can_be_loaded_or_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let (sys, modules) = (root.path().join("sys"), root.path().join("modules"));
        let of_release = modules.join("6.1.0");
        std::fs::create_dir_all(&of_release).unwrap();
        std::fs::create_dir_all(sys.join("module/loaded")).unwrap();
        std::fs::write(of_release.join("modules.builtin"), "kernel/net/builtin.ko\n").unwrap();
        std::fs::write(
            of_release.join("modules.dep"),
            "kernel/drivers/net/geneve.ko.xz: kernel/net/ipv4/udp_tunnel.ko.xz\nkernel/net/plain.ko:\n",
        )
        .unwrap();
        let found = |name: &str| module(name, "6.1.0", &sys, std::slice::from_ref(&modules));
        assert_eq!(found("loaded"), Module::Loaded);
        assert_eq!(found("builtin"), Module::Loaded);
        assert_eq!(found("geneve"), Module::Available);
        assert_eq!(found("plain"), Module::Available);
        assert_eq!(found("udp_tunnel"), Module::Missing, "a dependency is not a line of its own here");
        assert_eq!(module("geneve", "6.2.0", &sys, &[modules]), Module::Missing);
    }

    #[test]
    fn settings_have_the_names_that_sysctl_gives_them() {
        assert!(settings().contains_key("net.ipv4.ip_forward"), "{:?}", settings());
    }
}
