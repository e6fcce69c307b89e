//! How kube-apiserver proves itself to aggregated servers: what the ConfigMap `kube-system/extension-apiserver-authentication` says.

use k8s_openapi::api::core::v1::ConfigMap;
use portolan_watch::Observed;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

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
    /// That is not known yet: the ConfigMap has not been read.
    NotRead,
    /// That is not known: the last list had no ConfigMap, which is no proof that there is none.
    Absent,
    /// Nobody, and why.
    Nobody(String),
    /// A peer with these properties.
    Proxy(FrontProxy),
}

impl Trust {
    pub(crate) fn of(observed: &Observed<ConfigMap>) -> Self {
        match observed {
            Observed::NotRead => Trust::NotRead,
            Observed::Absent => Trust::Absent,
            Observed::Present(map) => match FrontProxy::read(map) {
                Ok(proxy) => Trust::Proxy(proxy),
                Err(problem) => Trust::Nobody(format!("ConfigMap {NAMESPACE}/{NAME}: {problem}")),
            },
        }
    }

    pub(crate) fn proxy(&self) -> Option<&FrontProxy> {
        match self {
            Trust::Proxy(proxy) => Some(proxy),
            Trust::NotRead | Trust::Absent | Trust::Nobody(_) => None,
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
        let authorities = authorities.ok_or(
            "data.requestheader-client-ca-file is missing: kube-apiserver runs without a front proxy",
        )?;
        if !has_authority(authorities) {
            return Err("data.requestheader-client-ca-file has no certificate that can be read; kube-apiserver writes there \
                        what its --requestheader-client-ca-file has"
                .into());
        }
        Ok(Self {
            authorities: authorities.to_owned(),
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

/// Whether the listener finds an authority here: what it cannot read it leaves out.
fn has_authority(pem: &str) -> bool {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    RootCertStore::empty().add_parsable_certificates(certificates).0 > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: &[(&str, &str)]) -> ConfigMap {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ConfigMap { data: Some(data.collect()), ..ConfigMap::default() }
    }

    fn authority() -> String {
        rcgen::generate_simple_self_signed(["front-proxy-ca".to_owned()]).unwrap().cert.pem()
    }

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
        assert_eq!(Trust::of(&Observed::NotRead), Trust::NotRead);
        assert_eq!(Trust::of(&Observed::Absent), Trust::Absent);
        let read = Trust::of(&Observed::Present(map(&[
            ("requestheader-client-ca-file", &authority()),
            ("requestheader-allowed-names", r#"["front"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ])));
        let read = read.proxy().unwrap();
        assert!(read.admits("front") && !read.admits("other"));
        assert_eq!(read.user_headers, ["X-Remote-User"]);
    }

    #[test]
    fn a_list_that_cannot_be_read_admits_nobody_and_is_named() {
        for list in ["front-proxy-client", "[1]", "{}", ""] {
            let map =
                map(&[("requestheader-client-ca-file", &authority()), ("requestheader-allowed-names", list)]);
            let Trust::Nobody(why) = Trust::of(&Observed::Present(map)) else {
                panic!("{list:?} admits somebody")
            };
            assert!(why.contains("data.requestheader-allowed-names is not a list of strings"), "{why}");
        }
    }
}
