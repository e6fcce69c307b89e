//! `portolan lab`: a whole cluster on this machine, for people. The cluster itself is `portolan_lab::cluster`; here is the process
//! that keeps it up, and the commands that talk to it.
//!
//! ```text
//!  portolan lab up ──starts──▶ portolan lab run: Cluster, namespaces, every process of the lab   (supervisor)
//!                                   │  control.sock: status, kill, where things are              (control, protocol)
//!  portolan lab status, kill … ─────┘
//!  portolan lab exec, tcpdump, logs: ask where, then become that program                         (enter)
//!  portolan lab down: asks it to end; clears away what a dead one left                           (down, place)
//! ```

mod control;
mod down;
mod enter;
mod place;
mod protocol;
mod show;
mod supervisor;
mod up;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use place::{Labs, Place};
use protocol::{Entry, Request, Target};
use supervisor::Shape;

use crate::output;

/// The name of a lab that is given none.
const DEFAULT_NAME: &str = "default";

/// Where labs are kept, and the variable that says otherwise.
const DIRECTORY: &str = "/run/portolan-lab";
const DIRECTORY_VARIABLE: &str = "PORTOLAN_LAB_DIRECTORY";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Where labs are kept.
    #[arg(
        long,
        global = true,
        hide = true,
        env = DIRECTORY_VARIABLE,
        default_value = DIRECTORY
    )]
    directory: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Raise a cluster on this machine: nodes with Open vSwitch and OVN, an API server, controller and agents.
    #[command(after_help = "Examples:
  portolan lab up                          three nodes
  portolan lab up --nodes 2 --name other   another lab beside it
  portolan lab up --ovn-raft               OVN's databases as clusters of three
  portolan lab up --kubeconfig FILE        on another API server")]
    Up {
        /// What the lab is called.
        #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
        name: String,
        #[command(flatten)]
        shape: Shape,
    },
    /// End a lab, dead or alive, and leave nothing of it: no process, namespace, link, mount or file.
    #[command(after_help = "Examples:
  portolan lab down          the only lab there is
  portolan lab down other    the lab called other")]
    Down {
        /// The lab; may be left out if there is one only.
        #[arg(value_name = "NAME")]
        lab: Option<String>,
        /// The same, as other commands take it.
        #[arg(long, value_name = "NAME", conflicts_with = "lab")]
        name: Option<String>,
    },
    /// Show the nodes and components of a lab, and how they are.
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Show all labs of this machine.
    List,
    /// Run a command in a pod, on a node, or where OVN's databases are.
    #[command(after_help = "Examples:
  portolan lab exec web -- ping -c3 10.0.0.3
  portolan lab exec web --namespace shop                 a shell
  portolan lab exec node/node1 -- ovs-vsctl show
  portolan lab exec central -- ovn-nbctl show")]
    Exec {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        pod: PodName,
        /// What to run; a shell unless given.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show what a component or a pod's container has written.
    #[command(after_help = "Examples:
  portolan lab logs controller
  portolan lab logs node1/agent --follow
  portolan lab logs web --namespace shop")]
    Logs {
        #[command(flatten)]
        which: Which,
        /// The component or pod.
        #[arg(value_name = "COMPONENT|POD")]
        name: String,
        /// The pod's namespace.
        #[arg(short, long, default_value = "default")]
        namespace: String,
        /// The pod's container; the first unless given.
        #[arg(short, long)]
        container: Option<String>,
        /// Go on with what is written from now on.
        #[arg(short, long)]
        follow: bool,
    },
    /// Kill a component with SIGKILL. It stays dead until it is started.
    #[command(after_help = "Examples:
  portolan lab kill controller
  portolan lab kill node1/agent --restart
  portolan lab kill ovn-northd && portolan lab start ovn-northd")]
    Kill {
        #[command(flatten)]
        which: Which,
        /// The component, as `portolan lab status` calls it; what comes before a slash may be left out if one only is meant.
        component: String,
        /// Start it again at once.
        #[arg(long)]
        restart: bool,
    },
    /// Start a component that was killed or has ended, and wait until it is ready.
    Start {
        #[command(flatten)]
        which: Which,
        /// The component, as `portolan lab status` calls it.
        component: String,
    },
    /// Watch the packets of a pod's interfaces.
    #[command(after_help = "Examples:
  portolan lab tcpdump web
  portolan lab tcpdump web -- -i net1 -c 10 icmp")]
    Tcpdump {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        pod: PodName,
        /// More arguments of tcpdump.
        #[arg(last = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Keep a lab up: what `portolan lab up` starts.
    #[command(hide = true)]
    Run {
        #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
        name: String,
        #[command(flatten)]
        shape: Shape,
    },
}

#[derive(Debug, Args)]
struct Which {
    /// The lab; may be left out if there is one only.
    #[arg(long = "name", value_name = "NAME", env = "PORTOLAN_LAB_NAME")]
    lab: Option<String>,
}

#[derive(Debug, Args)]
struct PodName {
    /// The pod; or node/NAME; or central.
    #[arg(value_name = "POD")]
    target: String,
    /// The pod's namespace.
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// The pod's container, whose environment is used; the first unless given.
    #[arg(short, long)]
    container: Option<String>,
}

impl PodName {
    fn target(self) -> Target {
        let pod = |namespace: &str, name: &str| Target::Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            container: self.container.clone(),
        };
        match self.target.split_once('/') {
            Some(("node", name)) => Target::Node(name.to_owned()),
            Some(("pod", name)) => pod(&self.namespace, name),
            Some((namespace, name)) => pod(namespace, name),
            None if self.target == "central" => Target::Central,
            None => pod(&self.namespace, &self.target),
        }
    }
}

/// Does what was asked. What goes wrong is said in a line: these commands are for people.
pub(crate) async fn run<S: Future<Output = ()>>(
    arguments: Arguments,
    stop: impl FnOnce() -> std::io::Result<S>,
) -> anyhow::Result<()> {
    if let Err(error) = carry_out(arguments, stop).await {
        eprintln!("portolan lab: {error:#}");
        std::process::exit(1);
    }
    Ok(())
}

async fn carry_out<S: Future<Output = ()>>(
    arguments: Arguments,
    stop: impl FnOnce() -> std::io::Result<S>,
) -> anyhow::Result<()> {
    let labs = Labs::new(arguments.directory);
    let find = |which: Which| labs.find(which.lab.as_deref());
    match arguments.command {
        Command::Up { name, shape } => up::up(&labs, &name, &shape),
        Command::Run { name, shape } => supervisor::run(&labs, &name, shape, stop()?).await,
        Command::Down { lab, name } => down::down(&labs, lab.or(name).as_deref()),
        Command::Status { which } => show::status(&find(which)?),
        Command::List => show::list(&labs),
        Command::Exec { which, pod, command } => enter::exec(&find(which)?, pod.target(), &command),
        Command::Tcpdump { which, pod, arguments } => enter::tcpdump(&find(which)?, pod.target(), &arguments),
        Command::Logs { which, name, namespace, container, follow } => {
            enter::logs(&find(which)?, &Request::Log { name, namespace, container }, follow)
        }
        Command::Kill { which, component, restart } => {
            let done = if restart { "Killed and started again" } else { "Killed" };
            change(&find(which)?, &Request::Kill { component, restart }, done)
        }
        Command::Start { which, component } => {
            change(&find(which)?, &Request::Start { component }, "Started")
        }
    }
}

/// A lab that is up, for commands that look at clusters.
#[derive(Clone, Debug)]
pub(crate) struct Lab(Place);

/// The labs of this machine that are up.
pub(crate) fn labs_that_are_up() -> Vec<Lab> {
    let directory = std::env::var_os(DIRECTORY_VARIABLE).map_or_else(|| DIRECTORY.into(), PathBuf::from);
    let all = Labs::new(directory).all();
    all.into_iter().filter(|place| place.is_alive() && place.control_socket().exists()).map(Lab).collect()
}

impl Lab {
    /// A lab of which nothing but its place is there.
    #[cfg(test)]
    pub(crate) fn for_test(directory: &std::path::Path, name: &str) -> Self {
        Lab(Labs::new(directory.into()).place(name).expect("a name for a lab"))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.kubeconfig()
    }

    /// The endpoints of OVN's northbound and southbound databases: sockets, which are reached from anywhere on the machine.
    pub(crate) fn databases(&self) -> anyhow::Result<(String, String)> {
        let request = Request::Enter { target: Target::Central };
        let entry: Entry = protocol::ask(&self.0.control_socket(), self.name(), &request)?;
        let of = |variable: &str| entry.environment.get(variable).cloned().unwrap_or_default();
        Ok((of("OVN_NB_DB"), of("OVN_SB_DB")))
    }
}

/// Has something done to a component, and says to which.
fn change(place: &Place, request: &Request, done: &str) -> anyhow::Result<()> {
    let component: String = protocol::ask(&place.control_socket(), place.name(), request)?;
    output::print(&format!("{done}: {component}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_pods_unless_they_say_otherwise() {
        let target =
            |text: &str| PodName { target: text.into(), namespace: "sea".into(), container: None }.target();
        let pod = |namespace: &str, name: &str| Target::Pod {
            namespace: namespace.into(),
            name: name.into(),
            container: None,
        };
        assert_eq!(target("argo"), pod("sea", "argo"));
        assert_eq!(target("pod/central"), pod("sea", "central"));
        assert_eq!(target("lake/argo"), pod("lake", "argo"));
        assert_eq!(target("node/node1"), Target::Node("node1".into()));
        assert_eq!(target("central"), Target::Central);
    }
}
