//! How kube-apiserver proves itself to aggregated servers: what the ConfigMap `kube-system/extension-apiserver-authentication` says.

use k8s_openapi::api::core::v1::ConfigMap;
use portolan_watch::Observed;

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "extension-apiserver-authentication";

/// What is asked of a front proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontProxy {
    /// The authorities that sign its certificate, in PEM.
    pub(crate) authorities: String,
    /// The common names that its certificate may have; any if there is none.
    pub(crate) allowed_names: Vec<String>,
    pub(crate) user_headers: Vec<String>,
    pub(crate) group_headers: Vec<String>,
    pub(crate) extra_prefixes: Vec<String>,
}

/// Whom to take for the front proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// That is not known yet.
    NotKnown,
    /// Nobody, and why.
    Nobody(String),
    /// A peer with these properties.
    Proxy(FrontProxy),
}

impl Trust {
    pub(crate) fn of(observed: &Observed<ConfigMap>) -> Self {
        match observed {
            Observed::NotRead => Trust::NotKnown,
            Observed::Absent => Trust::Nobody(format!("ConfigMap {NAMESPACE}/{NAME} does not exist")),
            Observed::Present(map) => match FrontProxy::read(map) {
                Ok(proxy) => Trust::Proxy(proxy),
                Err(problem) => Trust::Nobody(format!("ConfigMap {NAMESPACE}/{NAME}: {problem}")),
            },
        }
    }

    pub(crate) fn proxy(&self) -> Option<&FrontProxy> {
        match self {
            Trust::Proxy(proxy) => Some(proxy),
            Trust::NotKnown | Trust::Nobody(_) => None,
        }
    }
}

impl FrontProxy {
    fn read(map: &ConfigMap) -> Result<Self, String> {
        let value = |key: &str| map.data.as_ref().and_then(|data| data.get(key)).map(String::as_str);
        // An unreadable list of names must not turn into an empty one, which admits every name.
        let list = |key: &str| {
            let parsed = serde_json::from_str::<Vec<String>>(value(key).unwrap_or("[]"));
            parsed.map_err(|error| format!("data.{key} is not a list of strings: {error}"))
        };
        let authorities = value("requestheader-client-ca-file").filter(|text| !text.is_empty());
        Ok(Self {
            authorities: authorities
                .ok_or(
                    "data.requestheader-client-ca-file is missing: kube-apiserver runs without a front proxy",
                )?
                .to_owned(),
            allowed_names: list("requestheader-allowed-names")?,
            user_headers: list("requestheader-username-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        })
    }

    /// Whether a certificate with this common name may speak for users. Its signature was checked before.
    pub(crate) fn admits(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(json: &str) -> Trust {
        Trust::of(&Observed::Present(serde_json::from_str::<ConfigMap>(json).unwrap()))
    }

    #[test]
    fn a_cluster_without_a_front_proxy_admits_nobody() {
        for map in [
            "{}",
            r#"{"data": {"client-ca-file": "x"}}"#,
            r#"{"data": {"requestheader-client-ca-file": ""}}"#,
        ] {
            assert!(matches!(trust(map), Trust::Nobody(_)), "{map}");
        }
        assert_eq!(Trust::of(&Observed::NotRead), Trust::NotKnown);
        assert!(matches!(Trust::of(&Observed::Absent), Trust::Nobody(_)));
        let read = trust(
            r#"{"data": {"requestheader-client-ca-file": "x", "requestheader-allowed-names": "[\"front\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]"}}"#,
        );
        let read = read.proxy().unwrap();
        assert!(read.admits("front") && !read.admits("other"));
        assert_eq!(read.user_headers, ["X-Remote-User"]);
    }

    #[test]
    fn a_list_that_cannot_be_read_admits_nobody_and_is_named() {
        for list in ["front-proxy-client", "[1]", "{}", ""] {
            let map = ConfigMap {
                data: Some(
                    [("requestheader-client-ca-file", "x"), ("requestheader-allowed-names", list)]
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .into(),
                ),
                ..ConfigMap::default()
            };
            let Trust::Nobody(why) = Trust::of(&Observed::Present(map)) else {
                panic!("{list:?} admits somebody")
            };
            assert!(why.contains("data.requestheader-allowed-names is not a list of strings"), "{why}");
        }
    }
}
