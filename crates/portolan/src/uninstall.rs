//! `portolan uninstall`: removes Portolan from a cluster and its nodes.
//!
//! ```text
//!  what calls it     webhook, trace API             so that nothing waits for what is gone
//!  controller        then finalizers, which it would set again
//!  agents, OVN       then a DaemonSet that removes what they left on nodes, while Open vSwitch still runs
//!  Open vSwitch      if it is ours, and the rest
//! ```
//!
//! Every step can be done again: what was interrupted is completed by the next run.

mod leftovers;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use portolan_manifests::{Directories, Installation, Mode, Object, cleanup, objects};

use crate::cluster::{Cluster, Which};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::install::apply::{Applier, Trial, delete};
use crate::install::namespace;
use crate::install::rollout;
use crate::output::print;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Go on although pods have interfaces of Portolan. They lose their networks.
    #[arg(long)]
    force: bool,
    /// Also remove the definitions of kinds that the installation brought, and with them all networks and addresses. Asks first.
    #[arg(long)]
    delete_crds: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// The image to clean nodes with; that of the agents unless given.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// How long each step may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    /// A node that is gone, and is not waited for; may be repeated. What agents and OVN left on it stays there.
    #[arg(long, value_name = "NODE")]
    skip_node: Vec<String>,
    /// The namespace of the installation.
    #[arg(long, value_name = "NAMESPACE", default_value = "portolan-system")]
    namespace: String,
    #[command(flatten)]
    which: Which,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let cluster = arguments.which.find().await?;
    namespace::refuse_another(&cluster, &arguments.namespace).await?;
    if arguments.delete_crds && !arguments.yes {
        confirm(&cluster)?;
    }
    leftovers::refuse_unknown_nodes(&cluster, &arguments.skip_node).await?;
    if !arguments.force {
        leftovers::refuse_while_in_use(&cluster).await?;
    }
    let patience = Duration::from_secs(arguments.timeout.into());
    let installation = installed(&cluster, &arguments).await?;
    let all = objects(&installation).map_err(|error| Failure::usage(error.to_string()))?;
    let removal = Removal {
        cluster: &cluster,
        namespace: &installation.namespace,
        all: &all,
        skipped: &arguments.skip_node,
        patience,
    };

    removal.of_kinds(&["APIService", "ValidatingWebhookConfiguration"]).await?;
    removal.of_part("portolan-controller").await?;
    leftovers::remove_finalizers(&cluster).await?;
    for part in ["portolan-agent", "ovn-controller", "ovn-central"] {
        removal.of_part(part).await?;
    }
    removal.clean_nodes(&installation).await?;
    removal.of_part("ovs").await?;
    leftovers::remove_annotations_of_nodes(&cluster).await?;
    removal.of_everything_else(arguments.delete_crds).await?;
    removal.say_what_is_left(&installation)
}

/// The installation, as far as its removal depends on it.
async fn installed(cluster: &Cluster, arguments: &Arguments) -> anyhow::Result<Installation> {
    let mut installation = Installation::new(Mode::Secondary);
    installation.namespace.clone_from(&arguments.namespace);
    let found = leftovers::installed(cluster, &arguments.namespace).await?;
    if let Some(image) = arguments.image.clone().or_else(|| found.as_ref().and_then(|one| one.image.clone()))
    {
        installation.image = image;
    }
    if let Some(directories) = found.and_then(|found| found.directories) {
        installation.directories = directories;
    }
    installation.check().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(installation)
}

fn confirm(cluster: &Cluster) -> anyhow::Result<()> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "--delete-crds removes all networks and addresses; give --yes to confirm",
        ));
    }
    eprint!(
        "This removes Portolan from {} with all VPCs, Subnets and addresses, and every NetworkAttachmentDefinition if Portolan brought their CRD. Go on? [y/N] ",
        cluster.url
    );
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::with(Exit::Failed, "not confirmed; nothing was removed")),
    }
}

/// The steps of a removal.
struct Removal<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    all: &'a [Object],
    /// Nodes that are not waited for.
    skipped: &'a [String],
    patience: Duration,
}

impl Removal<'_> {
    async fn remove(&self, object: &Object) -> anyhow::Result<()> {
        if delete(self.cluster, object).await? {
            print(&format!("{} removed\n", object.description()))?;
        }
        Ok(())
    }

    async fn of_kinds(&self, kinds: &[&str]) -> anyhow::Result<()> {
        for object in self.all.iter().filter(|object| kinds.contains(&object.kind().kind)) {
            self.remove(object).await?;
        }
        Ok(())
    }

    /// Removes a part that runs, and waits until it has ended.
    async fn of_part(&self, part: &str) -> anyhow::Result<()> {
        let runs = |object: &&Object| {
            object.name() == part && matches!(object.kind().kind, "DaemonSet" | "Deployment" | "StatefulSet")
        };
        for object in self.all.iter().filter(runs) {
            self.remove(object).await?;
        }
        self.wait_for_end(part).await
    }

    async fn wait_for_end(&self, part: &str) -> anyhow::Result<()> {
        rollout::wait_for_end(self.cluster, self.namespace, part, self.skipped, self.patience).await
    }

    /// Removes from every node what agents and OVN left there.
    async fn clean_nodes(&self, installation: &Installation) -> anyhow::Result<()> {
        // Without the namespace, all of this was done before.
        if !leftovers::has_namespace(self.cluster, self.namespace).await? {
            return Ok(());
        }
        let cleanup =
            cleanup(installation, self.skipped).map_err(|error| Failure::usage(error.to_string()))?;
        Applier::new(self.cluster, Trial::Real).apply(&cleanup).await?;
        let cleaned = rollout::wait(self.cluster, &[&cleanup], self.patience).await;
        cleaned.context("nodes are not clean; if one is gone, --skip-node NAME leaves it out")?;
        print("nodes cleaned\n")?;
        delete(self.cluster, &cleanup).await?;
        self.wait_for_end(cleanup.name()).await
    }

    async fn of_everything_else(&self, definitions: bool) -> anyhow::Result<()> {
        for object in self.all.iter().rev() {
            let is_definition = object.kind().kind == "CustomResourceDefinition";
            if is_definition {
                if !definitions {
                    continue;
                }
                if let Some(why) = leftovers::why_it_stays(self.cluster, object).await? {
                    print(&format!(
                        "{} stays: {why}; `kubectl delete crd {}` removes it, with all its objects\n",
                        object.description(),
                        object.name()
                    ))?;
                    continue;
                }
            }
            self.remove(object).await?;
        }
        rollout::wait_for_end_of_namespace(self.cluster, self.namespace, self.patience).await
    }

    fn say_what_is_left(&self, installation: &Installation) -> anyhow::Result<()> {
        let Directories { configurations, programs } = &installation.directories;
        for node in self.skipped {
            print(&format!(
                "node {node} was not cleaned: on it are the CNI plugin and its configuration ({programs}, {configurations}), bridge br-int, links, tables of \
                 nftables and /var/lib/portolan; when it is back, run `portolan agent uninstall --everything` on it before it runs pods\n"
            ))?;
        }
        Ok(())
    }
}
