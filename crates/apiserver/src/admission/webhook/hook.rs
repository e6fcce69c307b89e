//! One webhook of a configuration, read and made ready to be matched and called.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::selector::LabelSelector;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::client::Trust;
use super::rules::Rule;

/// How long a webhook is waited for that does not say.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The port of a service, and of a URL, that does not say.
pub(super) const PORT: u16 = 443;

/// A webhook that can be called.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    /// As errors call it.
    pub(super) name: Arc<str>,
    pub(super) rules: Vec<Rule>,
    pub(super) match_policy: MatchPolicy,
    pub(super) namespaces: LabelSelector,
    pub(super) objects: LabelSelector,
    pub(super) on_failure: FailurePolicy,
    pub(super) side_effects: SideEffects,
    pub(super) reinvocation: Reinvocation,
    pub(super) review_version: Option<ReviewVersion>,
    pub(super) timeout: Duration,
    pub(super) target: Result<Target, String>,
    pub(super) trust: Result<Trust, String>,
}

/// What a webhook that cannot be asked means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum FailurePolicy {
    Ignore,
    #[default]
    Fail,
}

/// Whether a rule for one version of a resource is one for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum MatchPolicy {
    Exact,
    #[default]
    Equivalent,
}

/// What a webhook does besides answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum SideEffects {
    None,
    NoneOnDryRun,
    Some,
    Unknown,
}

/// Whether a webhook is asked again about what others changed since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Reinvocation {
    #[default]
    Never,
    IfNeeded,
}

/// A version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Url { host: String, port: Option<u16>, path: String },
    Service { namespace: String, name: String, port: u16, path: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    name: String,
    client_config: ClientConfig,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
    #[serde(default)]
    failure_policy: FailurePolicy,
    #[serde(default)]
    match_policy: MatchPolicy,
    namespace_selector: Option<Value>,
    object_selector: Option<Value>,
    side_effects: Option<SideEffects>,
    timeout_seconds: Option<u64>,
    #[serde(default)]
    admission_review_versions: Vec<String>,
    #[serde(default)]
    reinvocation_policy: Reinvocation,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientConfig {
    url: Option<String>,
    service: Option<Service>,
    ca_bundle: Option<String>,
}

#[derive(Deserialize)]
struct Service {
    namespace: String,
    name: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    port: Option<u16>,
}

impl Hook {
    /// Reads one of a configuration's webhooks; absent if it is not one.
    pub(super) fn read(webhook: &Value) -> Option<Hook> {
        let fields = Fields::deserialize(webhook).ok()?;
        let selector = |selector: Option<&Value>| match selector {
            // Without a selector everything is meant.
            None | Some(Value::Null) => LabelSelector::everything(),
            // A selector that cannot be read was refused when the configuration was written.
            some => LabelSelector::from_object(some).unwrap_or_else(|_| LabelSelector::nothing()),
        };
        let versions = fields.admission_review_versions.iter();
        Some(Hook {
            name: fields.name.into(),
            rules: fields.rules.unwrap_or_default(),
            match_policy: fields.match_policy,
            namespaces: selector(fields.namespace_selector.as_ref()),
            objects: selector(fields.object_selector.as_ref()),
            on_failure: fields.failure_policy,
            side_effects: fields.side_effects.unwrap_or(SideEffects::Unknown),
            reinvocation: fields.reinvocation_policy,
            review_version: versions.filter_map(|version| ReviewVersion::of_name(version)).next(),
            timeout: fields.timeout_seconds.map_or(TIMEOUT, Duration::from_secs),
            trust: trust(fields.client_config.ca_bundle.as_deref()),
            target: Target::of(fields.client_config),
        })
    }
}

impl ReviewVersion {
    fn of_name(name: &str) -> Option<ReviewVersion> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        }
    }

    /// `admission.k8s.io/v1`
    pub(super) fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

impl Target {
    fn of(config: ClientConfig) -> Result<Target, String> {
        if let Some(service) = config.service {
            return Ok(Target::Service {
                namespace: service.namespace,
                name: service.name,
                port: service.port.unwrap_or(PORT),
                path: service.path.filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into()),
            });
        }
        let Some(url) = config.url else {
            return Err("webhook configuration must have either service or URL".into());
        };
        let parsed: http::Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let host = parsed.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        Ok(Target::Url { host: host.into(), port: parsed.port_u16(), path: parsed.path().into() })
    }

    /// The address as errors show it.
    pub(super) fn url(&self, timeout: Duration) -> String {
        let query = format!("timeout={}s", timeout.as_secs());
        match self {
            Target::Url { host, port, path } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("https://{host}{port}{path}?{query}")
            }
            Target::Service { namespace, name, port, path } => {
                format!("https://{name}.{namespace}.svc:{port}{path}?{query}")
            }
        }
    }

    /// The path with the query that tells the webhook how long it is waited for.
    pub(super) fn path_and_query(&self, timeout: Duration) -> String {
        let (Target::Url { path, .. } | Target::Service { path, .. }) = self;
        format!("{path}?timeout={}s", timeout.as_secs())
    }

    /// The name that the webhook's certificate must be for.
    pub(super) fn server_name(&self) -> String {
        match self {
            Target::Url { host, .. } => host.clone(),
            Target::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    /// What is in the `Host` header.
    pub(super) fn authority(&self) -> String {
        match self {
            Target::Url { host, port, .. } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                port.map_or(host.clone(), |port| format!("{host}:{port}"))
            }
            Target::Service { namespace, name, port, .. } => format!("{name}.{namespace}.svc:{port}"),
        }
    }
}

fn trust(ca_bundle: Option<&str>) -> Result<Trust, String> {
    match ca_bundle.filter(|bundle| !bundle.is_empty()) {
        None => Trust::system(),
        Some(bundle) => {
            let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
            Trust::of_pem(&pem)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what json! makes is passed on as it is")]
    fn hook(client_config: Value) -> Hook {
        let webhook = json!({"name": "a.example.com", "clientConfig": client_config, "rules": [], "sideEffects": "None",
            "admissionReviewVersions": ["v9", "v1beta1", "v1"]});
        Hook::read(&webhook).unwrap()
    }

    #[test]
    fn defaults_of_probes_are_those_of_kubernetes() {
        let hook = hook(json!({"url": "https://example.com/x"}));
        assert_eq!((hook.on_failure, hook.match_policy), (FailurePolicy::Fail, MatchPolicy::Equivalent));
        assert_eq!((hook.timeout.as_secs(), hook.reinvocation), (10, Reinvocation::Never));
        assert_eq!(hook.review_version, Some(ReviewVersion::V1beta1), "the first that both know");
        assert!(hook.namespaces.is_everything() && hook.objects.is_everything());
    }

    #[test]
    fn targets_are_shown_as_clients_know_them() {
        let second = Duration::from_secs(1);
        let url = hook(json!({"url": "https://[::1]:8443/a/b"})).target.unwrap();
        assert_eq!(url.url(second), "https://[::1]:8443/a/b?timeout=1s");
        assert_eq!((url.server_name().as_str(), url.authority().as_str()), ("::1", "[::1]:8443"));
        let service = hook(json!({"service": {"namespace": "n", "name": "s", "path": "/p"}})).target.unwrap();
        assert_eq!(service.url(second), "https://s.n.svc:443/p?timeout=1s");
        assert_eq!(service.server_name(), "s.n.svc");
        let neither = hook(json!({})).target.unwrap_err();
        assert_eq!(neither, "webhook configuration must have either service or URL");
    }
}
