//! The images that an installation of Portolan runs, made of what was built here and of this machine's packages: as the `Dockerfile` makes
//! them, without a registry.

use std::path::{Path, PathBuf};

use portolan_lab::cluster::Programs;
use portolan_lab::{
    Command, Error, Lab, OPEN_VSWITCH_SCHEMA, OVN_NB_SCHEMA, OVN_SB_SCHEMA, Result, Trying, cache,
};

use super::image::Image;
use super::images::tool;

/// The version of the manifests.
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Image {
    /// Everything but Open vSwitch, by the name that `deploy/portolan.yaml` has.
    pub fn portolan(lab: &Lab) -> Result<Self> {
        Self::portolan_of(lab, &Programs::built()?, VERSION)
    }

    /// The same with other binaries, or by another tag.
    pub fn portolan_of(lab: &Lab, programs: &Programs, tag: &str) -> Result<Self> {
        let image = named(tag).file(OVN_NB_SCHEMA, OVN_NB_SCHEMA).file(OVN_SB_SCHEMA, OVN_SB_SCHEMA);
        with_portolan(with_programs(with_programs(image, &SERVER)?, &OVN)?, lab, programs)
    }

    /// The same with the OVN that `scripts/fetch-ovn` unpacked.
    pub fn portolan_with_newer_ovn(lab: &Lab, tag: &str) -> Result<Self> {
        let release = cache().join("ovn-newer");
        if !release.is_dir() {
            return Err(Error::NotInstalled { program: release.display().to_string() });
        }
        let of_release = |path: &str| release.join(path.trim_start_matches('/'));
        let image = [OVN_NB_SCHEMA, OVN_SB_SCHEMA]
            .into_iter()
            .fold(named(tag), |image, schema| image.file(of_release(schema), schema));
        // The libraries of the newer release serve what this machine's are for, not the other way round: so they come first.
        let server = ("usr/sbin/ovsdb-server", "ovsdb-server");
        let tool = ("usr/bin/ovsdb-tool", "ovsdb-tool");
        let image = [server, tool]
            .into_iter()
            .fold(image, |image, (from, name)| image.program_of(&release, from, format!("/usr/bin/{name}")));
        let image = OVN.iter().fold(image, |image, name| {
            image.program_of(&release, format!("usr/bin/{name}"), format!("/usr/bin/{name}"))
        });
        with_portolan(with_programs(image, &["setpriv"])?, lab, &Programs::built()?)
    }

    /// Open vSwitch, by the name that `deploy/portolan.yaml` has.
    pub fn portolan_ovs(lab: &Lab) -> Result<Self> {
        let image = Image::new(format!("docker.io/library/portolan-ovs:{VERSION}"))
            .program(stripped(lab, Programs::built()?.portolan())?, "/usr/bin/portolan")
            .file(OPEN_VSWITCH_SCHEMA, OPEN_VSWITCH_SCHEMA);
        with_programs(
            with_programs(image, &SERVER)?,
            &["ovs-appctl", "ovs-ofctl", "ovs-vsctl", "ovs-vswitchd"],
        )
    }
}

/// What OVN runs, and what speaks with it.
const OVN: [&str; 5] = ["ovn-controller", "ovn-nbctl", "ovn-northd", "ovn-sbctl", "ovn-trace"];

/// What serves databases.
const SERVER: [&str; 3] = ["ovsdb-server", "ovsdb-tool", "setpriv"];

fn named(tag: &str) -> Image {
    Image::new(format!("docker.io/library/portolan:{tag}"))
}

fn with_portolan(image: Image, lab: &Lab, programs: &Programs) -> Result<Image> {
    let image = with_programs(image, &["nft"])?
        .program(stripped(lab, programs.portolan())?, "/usr/bin/portolan")
        .file(stripped(lab, programs.plugin())?, "/usr/lib/portolan/portolan-cni");
    Ok(image)
}

fn with_programs(image: Image, names: &[&str]) -> Result<Image> {
    names.iter().try_fold(image, |image, name| Ok(image.program(tool(name)?, format!("/usr/bin/{name}"))))
}

/// A copy without what only debuggers read, which is most of it.
fn stripped(lab: &Lab, program: &Path) -> Result<PathBuf> {
    let to = lab.directory("stripped")?.join(program.display().to_string().replace('/', "-"));
    if !to.exists() {
        let strip = |to: &Path| -> Result<String> {
            let command: Command = lab.command("strip");
            command.arg("-o").args([to, program]).read()
        };
        strip(&to)?;
    }
    to.canonicalize().trying(|| format!("find {}", to.display()))
}
