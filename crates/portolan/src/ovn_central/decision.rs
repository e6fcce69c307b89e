//! What a member of a cluster does before its server starts, by what its file is and what the ConfigMap says. No IO.
//!
//! Every step is decided anew from both, so that whoever is killed between two steps goes on with the next.

use portolan_daemons::{ClusterServer, Stored};

use super::record::{Published, Record};

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wait until the first member has made a cluster.
    Wait,
    /// Make a cluster out of what there is, and say so.
    Make,
    /// Say that the database is the cluster of this file.
    Claim(ClusterServer),
    /// Make a server that joins this cluster, and say so. What there is is outdated.
    Join(String),
    /// Say which server this member has.
    Publish(ClusterServer),
    /// All is said: start it.
    Start(ClusterServer),
}

/// A member of `ovn-central`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) ordinal: u8,
}

impl Member {
    /// By its name, as the pods of a StatefulSet have them.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (_, ordinal) = name.rsplit_once('-')?;
        Some(Self { name: name.to_owned(), ordinal: ordinal.parse().ok()? })
    }

    /// Another one.
    pub(super) fn sibling(&self, ordinal: u8) -> Self {
        let stem = self.name.rsplit_once('-').map_or(self.name.as_str(), |(stem, _)| stem);
        Self { name: format!("{stem}-{ordinal}"), ordinal }
    }
}

pub(super) fn step(stored: &Stored, record: Record<'_>, member: &Member) -> Step {
    let published = record.server(&member.name);
    if record.recovery() == Some(&member.name) {
        return Step::Make;
    }
    let Some(cluster) = record.cluster() else {
        // There must be one cluster only, so one member makes it.
        return match stored {
            _ if member.ordinal != 0 => Step::Wait,
            Stored::Member(server) => Step::Claim(server.clone()),
            Stored::Nothing | Stored::Alone => Step::Make,
        };
    };
    match (stored, &published) {
        (Stored::Member(server), Some(published)) if server.cluster == cluster && published.is(server) => {
            Step::Start(server.clone())
        }
        (Stored::Member(server), published)
            if server.cluster == cluster && published.as_ref().is_none_or(|one| one.cluster != cluster) =>
        {
            Step::Publish(server.clone())
        }
        // Its only server was that of this member, and that is gone: nobody could ever join it.
        (_, Some(published))
            if published.cluster == cluster && record.members_of(cluster) == [member.name.as_str()] =>
        {
            Step::Make
        }
        // There is no file, or it is of another cluster, or this member had another server meanwhile.
        _ => Step::Join(cluster.to_owned()),
    }
}

/// Why a server that runs is to be started anew, if it is.
pub(super) fn is_over(running: &ClusterServer, record: Record<'_>, member: &Member) -> Option<String> {
    if record.recovery() == Some(&member.name) {
        return Some("a new cluster is to be made of the file of this member".into());
    }
    if let Some(cluster) = record.cluster()
        && cluster != running.cluster
    {
        return Some(format!("the database is cluster {cluster} now, and no longer {}", running.cluster));
    }
    let published = record.server(&member.name)?;
    (!published.is(running))
        .then(|| format!("this member has server {} now, and no longer {}", published.server, running.server))
}

/// What a member says of the server that it has made.
pub(super) fn announcement(made: &ClusterServer, record: Record<'_>, member: &Member) -> Published {
    match record.server(&member.name) {
        Some(former) => former.replaced_by(made),
        None => Published::first(made),
    }
}

#[cfg(test)]
mod tests;
