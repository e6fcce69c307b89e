//! Objects of several API groups that share one name.

use portolan_api::{FieldErrors, Provider};

use crate::doors::Meta;
use crate::group::Group;
use crate::subnet::Validation;
use crate::unit::UnitState;

/// An object of one of the groups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate<T> {
    pub(crate) meta: Meta,
    /// What has been found before counts more than what has not.
    pub(crate) validation: Validation,
    pub(crate) value: Result<T, FieldErrors>,
    /// The provider that it names, also if it is invalid otherwise: who waits for that provider is told which object to correct.
    pub(crate) provider: Option<Provider>,
    /// The namespaces whose pods it would give an interface in a tenant's VPC, also if it is invalid otherwise: until it is corrected they
    /// wait, and are not made outside of that VPC.
    pub(crate) tenants: Vec<String>,
}

impl<T> Candidate<T> {
    pub(crate) fn state(&self) -> UnitState {
        match (&self.value, self.validation) {
            (Ok(_), Validation::Earlier | Validation::Current) => UnitState::Live,
            _ => UnitState::Held,
        }
    }
}

/// The objects of one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rivals<T> {
    portolan: Option<Candidate<T>>,
    kubeovn: Option<Candidate<T>>,
    core: Option<Candidate<T>>,
}

impl<T> Default for Rivals<T> {
    fn default() -> Self {
        Self { portolan: None, kubeovn: None, core: None }
    }
}

impl<T> Rivals<T> {
    pub(crate) fn get(&self, group: Group) -> Option<&Candidate<T>> {
        match group {
            Group::Portolan => self.portolan.as_ref(),
            Group::KubeOvn => self.kubeovn.as_ref(),
            Group::Core => self.core.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, group: Group, candidate: Option<Candidate<T>>) {
        match group {
            Group::Portolan => self.portolan = candidate,
            Group::KubeOvn => self.kubeovn = candidate,
            Group::Core => self.core = candidate,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The one that has the name: the validated one, then the older, then Portolan's. A function of the objects alone, so
    /// that every World agrees.
    pub(crate) fn effective(&self) -> Option<&Candidate<T>> {
        match (&self.portolan, &self.kubeovn) {
            (Some(a), Some(b)) => {
                let rank =
                    |c: &Candidate<T>| (c.validation == Validation::Not, c.meta.created.unwrap_or(i64::MAX));
                Some(if rank(a) <= rank(b) { a } else { b })
            }
            (one, other) => one.as_ref().or(other.as_ref()).or(self.core.as_ref()),
        }
    }

    /// All of them, with their groups.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Group, &Candidate<T>)> {
        let groups =
            [(Group::Portolan, &self.portolan), (Group::KubeOvn, &self.kubeovn), (Group::Core, &self.core)];
        groups.into_iter().filter_map(|(group, candidate)| candidate.as_ref().map(|c| (group, c)))
    }
}
