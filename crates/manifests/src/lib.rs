//! The objects of an installation of Portolan: what `kubectl apply -f deploy/portolan.yaml`, `portolan install` and the Helm chart bring
//! to a cluster, made in one place from one description.
//!
//! ```text
//!  Installation ──▶ objects ──▶ render: deploy/portolan.yaml, deploy/portolan-primary.yaml
//!                    │  ▲      └▶ chart: deploy/helm/portolan, deploy/harvester/portolan.yaml
//!                    │  └── shipped: deploy/{crds,*-rbac,webhook,trace,…}.yaml as they are
//!                    └── controller, agent, ovn_central, ovn_controller, ovs: what runs
//! ```
//!
//! Nothing here does IO: no files but those compiled in, no cluster. `portolan install` applies the objects; `cargo xtask codegen` writes
//! the files. Start reading at [`Installation`] and [`objects`].

mod agent;
mod api_servers;
mod chart;
mod cleanup;
mod controller;
mod examination;
mod installation;
mod object;
mod objects;
mod ovn_addresses;
mod ovn_central;
mod ovn_controller;
mod ovn_tls;
mod ovs;
mod pod;
mod ports;
mod render;
mod shipped;

pub use chart::{chart, harvester_addon};
pub use cleanup::cleanup;
pub use examination::{EXAMINATION, Examination, Extent, State, examination};
pub use installation::{
    AgentAdmission, ApiServer, Directories, Installation, Invalid, Members, Mode, OpenVswitch,
};
pub use object::{KINDS, Object, ObjectKind, Scope};
pub use objects::{objects, workloads};
pub use ovn_addresses::ADDRESSES;
pub use ports::{PARTS, Part};
pub use render::manifest;
