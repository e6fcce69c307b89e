//! The images that an installation of Portolan runs, made of what was built here and of this machine's packages: as the `Dockerfile` makes
//! them, without a registry.

use std::path::{Path, PathBuf};

use portolan_lab::cluster::Programs;
use portolan_lab::{Command, Lab, OPEN_VSWITCH_SCHEMA, OVN_NB_SCHEMA, OVN_SB_SCHEMA, Result, Trying};

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
        let image = Image::new(format!("docker.io/library/portolan:{tag}"))
            .program(stripped(lab, programs.portolan())?, "/usr/bin/portolan")
            .file(stripped(lab, programs.plugin())?, "/usr/lib/portolan/portolan-cni")
            .file(OVN_NB_SCHEMA, OVN_NB_SCHEMA)
            .file(OVN_SB_SCHEMA, OVN_SB_SCHEMA);
        let programs = ["ovn-controller", "ovn-nbctl", "ovn-northd", "ovn-sbctl", "ovn-trace", "nft"];
        with_programs(with_programs(image, &SERVER)?, &programs)
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

/// What serves databases.
const SERVER: [&str; 3] = ["ovsdb-server", "ovsdb-tool", "setpriv"];

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
