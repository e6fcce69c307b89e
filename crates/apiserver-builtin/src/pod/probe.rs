//! Probes of containers, and what is run when they start and stop.

use serde_json::Value;

use super::super::errors::Errors;
use super::super::format::{header_name, port, port_name};
use super::super::value::{is_set, items, number, size, text};
use apischema::Path;

/// Which probe it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    Liveness,
    Readiness,
    Startup,
}

impl Probe {
    pub(super) const ALL: [(Probe, &'static str); 3] = [
        (Probe::Liveness, "livenessProbe"),
        (Probe::Readiness, "readinessProbe"),
        (Probe::Startup, "startupProbe"),
    ];
}

/// Checks a probe, if there is one.
pub(super) fn check_probe(errors: &mut Errors, path: Path<'_>, which: Probe, probe: &Value) {
    if !is_set(probe) {
        return;
    }
    check_handler(errors, path, probe, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.nonnegative(path.field(name), probe[name].as_i64());
    }
    let grace = probe["terminationGracePeriodSeconds"].as_i64();
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.invalid(path.field("terminationGracePeriodSeconds"), grace, "must be greater than 0");
    }
    match which {
        Probe::Readiness => {
            if let Some(grace) = grace {
                let path = path.field("terminationGracePeriodSeconds");
                errors.invalid(path, grace, "must not be set for readinessProbes");
            }
        }
        Probe::Liveness | Probe::Startup => {
            // Absent means the default, which is the only value there can be.
            let threshold = probe["successThreshold"].as_i64().unwrap_or(1);
            if threshold != 1 {
                errors.invalid(path.field("successThreshold"), threshold, "must be 1");
            }
        }
    }
}

/// Checks what is run when a container starts and stops.
pub(super) fn check_lifecycle(errors: &mut Errors, path: Path<'_>, lifecycle: &Value, spec: &Value) {
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for name in ["postStart", "preStop"] {
        if is_set(&lifecycle[name]) {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            check_handler(errors, path.field(name), &lifecycle[name], &kinds, grace);
        }
    }
    if is_set(&lifecycle["stopSignal"]) && !is_set(&spec["os"]) {
        errors.forbidden(path.field("stopSignal"), "may not be set for containers with empty `spec.os.name`");
    }
}

fn check_handler(errors: &mut Errors, path: Path<'_>, handler: &Value, kinds: &[&str], grace: Option<i64>) {
    let mut found = false;
    for kind in kinds.iter().filter(|kind| is_set(&handler[**kind])) {
        let (path, action) = (path.field(kind), &handler[*kind]);
        if found {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if size(&action["command"]) == 0 {
                    errors.required(path.field("command"), "");
                }
            }
            "httpGet" => check_http(errors, path, action),
            "sleep" => check_sleep(errors, path, action, grace),
            _ => check_port(errors, path.field("port"), &action["port"]),
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn check_http(errors: &mut Errors, path: Path<'_>, action: &Value) {
    if text(&action["path"]).is_empty() {
        errors.required(path.field("path"), "");
    }
    check_port(errors, path.field("port"), &action["port"]);
    let scheme = text(&action["scheme"]);
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(path.field("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.messages(path.field("httpHeaders"), name, header_name(name));
    }
}

fn check_sleep(errors: &mut Errors, path: Path<'_>, action: &Value, grace: Option<i64>) {
    let seconds = number(&action["seconds"]);
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, detail);
    }
}

/// Checks a port that is a number or a name.
pub(in super::super) fn check_port(errors: &mut Errors, path: Path<'_>, value: &Value) {
    match value {
        Value::String(name) => errors.messages(path, name, port_name(name)),
        other => port(errors, path, number(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(which: Probe, probe: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        check_probe(&mut errors, Path::root("p"), which, probe);
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_probe_does_one_thing() {
        let http = json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}});
        assert!(wrong(Probe::Liveness, &http).is_empty());
        assert_eq!(wrong(Probe::Liveness, &json!({})), ["p: Required value: must specify a handler type"]);
        assert_eq!(
            wrong(Probe::Readiness, &json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}})),
            ["p.tcpSocket: Forbidden: may not specify more than 1 handler type"]
        );
        assert_eq!(
            wrong(Probe::Readiness, &json!({"httpGet": {"port": "-", "scheme": "FTP"}})),
            [
                "p.httpGet.path: Required value",
                "p.httpGet.port: Invalid value: \"-\": must contain at least one letter (a-z)",
                "p.httpGet.port: Invalid value: \"-\": must not begin or end with a hyphen",
                "p.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\""
            ]
        );
    }

    #[test]
    fn numbers_of_probes_make_sense() {
        let probe = json!({"tcpSocket": {"port": 70000}, "successThreshold": 2, "periodSeconds": -1});
        assert_eq!(
            wrong(Probe::Startup, &probe),
            [
                "p.tcpSocket.port: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "p.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                "p.successThreshold: Invalid value: 2: must be 1"
            ]
        );
    }

    #[test]
    fn a_container_does_not_sleep_longer_than_it_is_given() {
        let mut errors = Errors::default();
        let spec = json!({"terminationGracePeriodSeconds": 30});
        check_lifecycle(&mut errors, Path::root("l"), &json!({"preStop": {"sleep": {"seconds": 31}}}), &spec);
        assert_eq!(
            errors.into_vec()[0].to_string(),
            "l.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"
        );
    }
}
