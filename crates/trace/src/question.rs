//! A question that was checked: which pod sends what to whom.

use std::fmt;
use std::net::IpAddr;

use portolan_api::Provider;

use crate::api::{PodReference, TraceSpec};
use crate::error::Error;
use crate::packet::Payload;

/// A pod by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A question about traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The pod that sends.
    pub from: PodName,
    /// The end that should receive it.
    pub to: Destination,
    /// What is sent.
    pub payload: Payload,
    /// The network whose interfaces are used, if not those that the pods' routes lead to.
    pub network: Option<Provider>,
}

/// The receiving end. Services will be a third kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A pod, at the address that fits best.
    Pod(PodName),
    /// An address, whatever has it.
    Address(IpAddr),
}

impl PodName {
    /// Reads `POD` or `NAMESPACE/POD`.
    ///
    /// # Errors
    /// When the text is neither.
    pub fn parse(text: &str, namespace: &str) -> Result<Self, Error> {
        let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            let problem = format!("{text:?} is no pod; write POD or NAMESPACE/POD");
            return Err(Error::Invalid { field: "pod", problem });
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl Question {
    /// Checks the question of a Trace in a namespace.
    ///
    /// # Errors
    /// When a field is missing or contradicts another.
    pub fn of(namespace: &str, spec: &TraceSpec) -> Result<Self, Error> {
        let invalid = |field, problem: &str| Error::Invalid { field, problem: problem.to_owned() };
        if spec.from.pod.is_empty() {
            return Err(invalid("spec.from.pod", "must name the pod that sends"));
        }
        let from = PodName { namespace: namespace.to_owned(), name: spec.from.pod.clone() };
        let to = match (&spec.to.pod, spec.to.address) {
            (Some(PodReference { namespace: own, name }), None) if !name.is_empty() => {
                let namespace = if own.is_empty() { namespace } else { own };
                Destination::Pod(PodName { namespace: namespace.to_owned(), name: name.clone() })
            }
            (None, Some(address)) => Destination::Address(address),
            _ => return Err(invalid("spec.to", "must have either pod (with a name) or address")),
        };
        if to == Destination::Pod(from.clone()) {
            return Err(invalid("spec.to.pod", "is the pod that sends; name another"));
        }
        let network = spec.network.as_deref().map(|network| {
            let (namespace, name) = network.split_once('/').unwrap_or((namespace, network));
            Provider::nad(namespace, name)
        });
        Ok(Self { from, to, payload: Payload::of(spec)?, network })
    }

    /// The namespaces whose pods the question names. Whoever asks must be allowed to read pods in them.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        let to = match &self.to {
            Destination::Pod(pod) => Some(pod.namespace.as_str()).filter(|name| *name != self.from.namespace),
            Destination::Address(_) => None,
        };
        std::iter::once(self.from.namespace.as_str()).chain(to)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { from, to, payload, .. } = self;
        write!(f, "{payload} from {from} to {to}")
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Pod(pod) => pod.fmt(f),
            Destination::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for PodName {
    /// Without control characters: a name may come from a command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| text.replace(char::is_control, "\u{fffd}");
        write!(f, "{}/{}", plain(&self.namespace), plain(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(json: &str) -> Result<Question, String> {
        let spec: TraceSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Question::of("shop", &spec).map_err(|error| error.to_string())
    }

    #[test]
    fn a_question_names_its_ends_and_what_is_sent() {
        let asked =
            question(r#"{"from": {"pod": "a"}, "to": {"pod": {"namespace": "db", "name": "b"}}}"#).unwrap();
        assert_eq!(asked.to_string(), "ping from shop/a to db/b");
        assert_eq!(asked.namespaces().collect::<Vec<_>>(), ["shop", "db"]);
        let asked = question(
            r#"{"from": {"pod": "a"}, "to": {"address": "10.0.0.1"}, "protocol": "UDP", "port": 53, "network": "blue/web"}"#,
        );
        let asked = asked.unwrap();
        assert_eq!(asked.to_string(), "UDP to port 53 from shop/a to 10.0.0.1");
        assert_eq!(asked.network, Some(Provider::nad("blue", "web")));
    }

    #[test]
    fn a_wrong_question_is_refused_with_the_field() {
        for (json, problem) in [
            (
                r#"{"from": {"pod": ""}, "to": {"address": "10.0.0.1"}}"#,
                "spec.from.pod: must name the pod that sends",
            ),
            (r#"{"from": {"pod": "a"}, "to": {}}"#, "spec.to: must have either pod (with a name) or address"),
            (
                r#"{"from": {"pod": "a"}, "to": {"pod": {"name": "a"}}}"#,
                "spec.to.pod: is the pod that sends; name another",
            ),
            (
                r#"{"from": {"pod": "a"}, "to": {"pod": {"name": "b"}}, "protocol": "TCP"}"#,
                "spec.port: TCP and UDP need a port",
            ),
            (
                r#"{"from": {"pod": "a"}, "to": {"pod": {"name": "b"}}, "port": 80}"#,
                "spec.port: a ping has no port; choose TCP or UDP, or no port",
            ),
        ] {
            assert_eq!(question(json).unwrap_err(), problem);
        }
        assert!(
            question(r#"{"from": {"pod": "a"}, "to": {"service": "b"}}"#)
                .unwrap_err()
                .contains("unknown field")
        );
    }
}
