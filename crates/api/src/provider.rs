//! Providers: the string that joins a subnet with the network attachment definition that uses it.

use std::fmt;
use std::str::FromStr;

use crate::field_error::Problem;
use crate::names::{is_dns_label, is_dns_subdomain};

/// Who hands out the interfaces of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// `ovn`: the cluster's own pod network.
    Default,
    /// `<nad>.<namespace>.ovn`: a network attachment definition.
    Nad {
        /// The definition's namespace.
        namespace: String,
        /// The definition's name.
        name: String,
    },
}

impl Provider {
    /// The provider of a network attachment definition.
    pub fn nad(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Provider::Nad { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provider::Default => f.write_str("ovn"),
            Provider::Nad { namespace, name } => write!(f, "{name}.{namespace}.ovn"),
        }
    }
}

impl FromStr for Provider {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        if text == "ovn" {
            return Ok(Provider::Default);
        }
        let Some(reference) = text.strip_suffix(".ovn") else {
            return Err(Problem::not_supported(
                "is not a provider of Portolan; write \"ovn\", or \"<nad>.<namespace>.ovn\" for a network attachment definition",
            ));
        };
        // A definition's name may have dots, a namespace's cannot: the last part is the namespace.
        match reference.rsplit_once('.') {
            Some((name, namespace)) if is_dns_subdomain(name) && is_dns_label(namespace) => {
                Ok(Provider::nad(namespace, name))
            }
            _ => Err(Problem::invalid(
                "does not name a network attachment definition; write \"<nad>.<namespace>.ovn\"",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_a_definition_or_the_cluster() {
        assert_eq!("ovn".parse(), Ok(Provider::Default));
        assert_eq!("vswitch1.default.ovn".parse(), Ok(Provider::nad("default", "vswitch1")));
        assert_eq!("a.b.c.ovn".parse(), Ok(Provider::nad("c", "a.b")));
    }

    #[test]
    fn others_are_refused_with_the_form_to_use() {
        let text = |provider: &str| provider.parse::<Provider>().unwrap_err().to_string();
        assert_eq!(
            text("macvlan.default"),
            "is not a provider of Portolan; write \"ovn\", or \"<nad>.<namespace>.ovn\" for a network attachment definition"
        );
        for provider in ["default.ovn", ".ovn", "a..ovn", "A.default.ovn", "a/b.default.ovn"] {
            assert_eq!(
                text(provider),
                "does not name a network attachment definition; write \"<nad>.<namespace>.ovn\"",
                "{provider}"
            );
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(text in "[a-c.]{0,12}\\.ovn|\\PC*") {
            if let Ok(provider) = text.parse::<Provider>() {
                prop_assert_eq!(provider.to_string(), text);
            }
        }
    }
}
