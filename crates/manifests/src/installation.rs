//! What an installation is: the few things that differ between clusters.

use std::net::IpAddr;
use std::num::NonZeroU16;

use ipnet::IpNet;

/// An installation of Portolan on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Whose network pods' first interfaces are on.
    pub mode: Mode,
    /// The namespace of everything that has one.
    pub namespace: String,
    /// The image of everything but Open vSwitch: `portolan`, and OVN's programs.
    pub image: String,
    /// Who runs Open vSwitch.
    pub open_vswitch: OpenVswitch,
    /// Where the API server is. Without it, pods take the address of the Service `kubernetes`, as any pod does.
    pub api_server: Option<ApiServer>,
    /// How many members each of OVN's databases has.
    pub members: Members,
    /// How many controllers there are. Each needs a node of its own, as they use the network of their hosts.
    pub controllers: u8,
    /// The cluster's networks of pods and services: a pod reaches them by its first interface, also when another one takes the
    /// default route.
    pub cluster_networks: Vec<IpNet>,
    /// The cluster's networks of services that something else serves on the nodes. As a primary network, those of services are named here and
    /// not among the others.
    pub service_networks: Vec<IpNet>,
    /// Where the container runtime of nodes looks for network plugins.
    pub directories: Directories,
    /// Whether agents are held to their own nodes.
    pub agent_admission: AgentAdmission,
}

/// Whose network pods' first interfaces are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Another plugin's; Portolan makes further interfaces.
    Secondary,
    /// Portolan's.
    Primary,
}

/// Who runs Open vSwitch on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenVswitch {
    /// Portolan, from this image. It is an image of its own so that an upgrade of everything else leaves the data path alone.
    Ours {
        /// The image.
        image: String,
    },
    /// The hosts, as a service of their own.
    Hosts,
}

/// The API server's own address, which needs no network of pods or services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// A host name or an address; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: NonZeroU16,
}

/// How many members each of OVN's databases has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// One: while its node is away nothing changes in the network, and what runs goes on.
    One,
    /// Three, each on a node of its own: one may be away.
    Three,
}

impl Members {
    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Members::One => 1,
            Members::Three => 3,
        }
    }
}

/// Directories of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Network configurations.
    pub configurations: String,
    /// Network plugins.
    pub programs: String,
}

/// Whether a ValidatingAdmissionPolicy holds each agent to its own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAdmission {
    /// Yes. Needs Kubernetes 1.32, whose tokens of pods name the node.
    OwnNode,
    /// No, for older clusters.
    Off,
}

/// Why there is no such installation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// A name that Kubernetes would refuse.
    #[error(
        "namespace: {0:?} is no name of a namespace: at most 63 lower-case letters, digits and dashes, with no dash at either end"
    )]
    Namespace(String),
    /// Text that is no reference to an image.
    #[error("{field}: {value:?} is no image: write REGISTRY/NAME:TAG, without blanks")]
    Image {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// Text that is no host.
    #[error("API server: {0:?} is neither a host name nor an IP address")]
    Host(String),
    /// No controller, or more than is of use.
    #[error("controllers: {0} is not between 1 and 5")]
    Controllers(u8),
    /// Text that is no directory.
    #[error("{field}: {value:?} is no absolute path of a directory")]
    Directory {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

impl Installation {
    /// The usual one.
    pub fn new(mode: Mode) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            mode,
            namespace: "portolan-system".into(),
            image: format!("portolan:{version}"),
            open_vswitch: OpenVswitch::Ours { image: format!("portolan-ovs:{version}") },
            api_server: None,
            members: Members::One,
            controllers: 2,
            cluster_networks: Vec::new(),
            service_networks: Vec::new(),
            directories: Directories {
                configurations: "/etc/cni/net.d".into(),
                programs: "/opt/cni/bin".into(),
            },
            agent_admission: AgentAdmission::OwnNode,
        }
    }

    /// Checks what Kubernetes or a container runtime would refuse later, less clearly.
    pub fn check(&self) -> Result<(), Invalid> {
        if !is_label(&self.namespace) {
            return Err(Invalid::Namespace(self.namespace.clone()));
        }
        let image = |field, value: &str| {
            let fits = !value.is_empty()
                && value.len() <= 512
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./:@_-".contains(&byte));
            if fits { Ok(()) } else { Err(Invalid::Image { field, value: value.into() }) }
        };
        image("image", &self.image)?;
        if let OpenVswitch::Ours { image: ours } = &self.open_vswitch {
            image("image of Open vSwitch", ours)?;
        }
        if let Some(ApiServer { host, .. }) = &self.api_server
            && host.parse::<IpAddr>().is_err()
            && !(host.len() <= 253 && host.split('.').all(is_label))
        {
            return Err(Invalid::Host(host.clone()));
        }
        if !(1..=5).contains(&self.controllers) {
            return Err(Invalid::Controllers(self.controllers));
        }
        let directory = |field, value: &str| {
            let fits = value.len() > 1
                && value.len() <= 1024
                && value.starts_with('/')
                && !value.split('/').any(|part| part == "..")
                && !value.chars().any(|one| one.is_control() || one == ':');
            if fits { Ok(()) } else { Err(Invalid::Directory { field, value: value.into() }) }
        };
        directory("directory of network configurations", &self.directories.configurations)?;
        directory("directory of network plugins", &self.directories.programs)
    }
}

/// A label as RFC 1123 has it, in lower case.
fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Installation)) -> String {
        let mut installation = Installation::new(Mode::Secondary);
        assert_eq!(installation.check(), Ok(()));
        change(&mut installation);
        installation.check().map_err(|error| error.to_string()).expect_err("it is refused")
    }

    #[test]
    fn what_a_cluster_would_refuse_is_refused_with_its_field() {
        for namespace in ["", "-a", "A", "a.b", &"a".repeat(64), "a\nb", "ä"] {
            assert!(
                refused(|one| one.namespace = namespace.into()).starts_with("namespace:"),
                "{namespace:?}"
            );
        }
        for image in ["", "a b", "a\"b", "a\nb", "{{x}}", &"a".repeat(513)] {
            assert!(refused(|one| one.image = image.into()).starts_with("image:"), "{image:?}");
            let ours = |one: &mut Installation| one.open_vswitch = OpenVswitch::Ours { image: image.into() };
            assert!(refused(ours).starts_with("image of Open vSwitch:"), "{image:?}");
        }
        for host in ["", "a_b", "[::1]", "a..b", "1.2.3.4:6443", &"a.".repeat(200)] {
            let port = NonZeroU16::new(6443).expect("it is not 0");
            let api_server = Some(ApiServer { host: host.into(), port });
            assert!(refused(|one| one.api_server = api_server).starts_with("API server:"), "{host:?}");
        }
        for number in [0, 6, 255] {
            assert!(refused(|one| one.controllers = number).starts_with("controllers:"), "{number}");
        }
        for path in ["", "/", "etc", "/etc/../x", "/a:b", "/a\nb"] {
            let said = refused(|one| one.directories.programs = path.into());
            assert!(said.starts_with("directory of network plugins:"), "{path:?}");
        }
    }

    #[test]
    fn an_api_server_is_a_name_or_an_address_of_either_family() {
        for host in ["192.0.2.1", "fd00::1", "api.example.org", "localhost"] {
            let mut installation = Installation::new(Mode::Primary);
            let port = NonZeroU16::new(6443).expect("it is not 0");
            installation.api_server = Some(ApiServer { host: host.into(), port });
            assert_eq!(installation.check(), Ok(()), "{host}");
        }
    }
}
