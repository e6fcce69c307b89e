//! Kubeconfigs: read, pointed elsewhere, made self-contained.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::error::{Error, Result, Trying};
use crate::pki::{Authority, Identity};

/// The kubeconfig of a user with a certificate, for a server at this URL.
pub(super) fn of_user(authority: &Authority, user: &str, identity: &Identity, url: &str) -> Value {
    let encode = |text: &str| STANDARD.encode(text);
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": url,
            "certificate-authority-data": encode(authority.certificate())}}],
        "users": [{"name": user, "user": {"client-certificate-data": encode(&identity.certificate),
            "client-key-data": encode(&identity.key)}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
    })
}

/// Reads a kubeconfig. Of its contexts the current one stays; files that it names are taken in.
pub(super) fn read(path: &Path) -> Result<Value> {
    let refused = |why: String| Error::Kubeconfig { file: path.into(), why };
    let file = Kubeconfig::read_from(path).map_err(|error| refused(error.to_string()))?;
    let mut config = serde_json::to_value(file).map_err(|error| refused(error.to_string()))?;
    let name = config["current-context"].as_str().unwrap_or_default().to_owned();
    let context = entry(&config, "contexts", &name)
        .ok_or_else(|| refused(format!("it has no context {name:?}, which it says is the current one")))?;
    let (cluster, user) = (context["context"]["cluster"].clone(), context["context"]["user"].clone());
    for (list, name) in [("contexts", json!(name)), ("clusters", cluster), ("users", user)] {
        let found = entry(&config, list, name.as_str().unwrap_or_default());
        let found = found.ok_or_else(|| refused(format!("it has no entry {name} of {list}")))?;
        config[list] = json!([found]);
    }
    for (list, kind) in [("clusters", "cluster"), ("users", "user")] {
        take_files_in(&mut config[list][0][kind])?;
    }
    Ok(config)
}

fn entry(config: &Value, list: &str, name: &str) -> Option<Value> {
    config[list].as_array()?.iter().find(|entry| entry["name"] == name).cloned()
}

/// Replaces paths by what the files hold.
fn take_files_in(of: &mut Value) -> Result<()> {
    for key in ["certificate-authority", "client-certificate", "client-key"] {
        let Some(path) = of[key].as_str().map(str::to_owned) else { continue };
        let bytes = std::fs::read(&path).trying(|| format!("read {path}"))?;
        of[format!("{key}-data")] = json!(STANDARD.encode(bytes));
    }
    if let Some(fields) = of.as_object_mut() {
        fields.retain(|key, value| {
            !["certificate-authority", "client-certificate", "client-key"].contains(&key.as_str())
                && !value.is_null()
        });
    }
    Ok(())
}

/// Points a kubeconfig elsewhere. The certificate is still checked for the name that was expected before.
pub(super) fn pointed_at(mut config: Value, url: &str) -> Value {
    let cluster = &mut config["clusters"][0]["cluster"];
    if cluster["tls-server-name"].is_null()
        && let Some(host) = cluster["server"].as_str().and_then(host_of)
    {
        cluster["tls-server-name"] = json!(host);
    }
    cluster["server"] = json!(url);
    config
}

/// The server of a kubeconfig: host and port.
pub(super) fn server_of(config: &Value) -> Option<(String, u16)> {
    let url = config["clusters"][0]["cluster"]["server"].as_str()?;
    let port = |scheme: &str| if scheme == "https" { 443 } else { 80 };
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = host_of(url)?;
    let after = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    let port = after.rsplit_once(':').map_or(Some(port(scheme)), |(_, port)| port.parse().ok())?;
    Some((host, port))
}

fn host_of(url: &str) -> Option<String> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_owned())
}

/// Writes a kubeconfig so that only its owner can read it. JSON is YAML too.
pub(super) fn write(config: &Value, path: &Path) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(format!("{config:#}\n").as_bytes()))
        .trying(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(server: &str) -> Value {
        json!({"clusters": [{"name": "lab", "cluster": {"server": server}}]})
    }

    #[test]
    fn a_server_is_found_in_its_url() {
        let found = |url: &str| server_of(&config(url));
        assert_eq!(found("https://127.0.0.1:6443"), Some(("127.0.0.1".into(), 6443)));
        assert_eq!(found("https://api.example.com/k8s/clusters/c-1"), Some(("api.example.com".into(), 443)));
        assert_eq!(found("http://[fd00::1]:8080/"), Some(("fd00::1".into(), 8080)));
        assert_eq!(found("https://[fd00::1]"), Some(("fd00::1".into(), 443)));
        for wrong in ["", "nonsense", "https://", "https://host:port"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_server_that_is_reached_elsewhere_must_still_show_its_own_name() {
        let moved = pointed_at(config("https://api.example.com:6443"), "https://172.31.0.1:20000");
        let cluster = &moved["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://172.31.0.1:20000");
        assert_eq!(cluster["tls-server-name"], "api.example.com");
        let again = pointed_at(moved, "https://127.0.0.1:1");
        assert_eq!(again["clusters"][0]["cluster"]["tls-server-name"], "api.example.com");
    }
}
