//! Clients.

use kube::config::{KubeConfigOptions, Kubeconfig};

#[tokio::test]
async fn a_client_certificate_of_version_1_is_reported_as_such() {
    let file = |name: &str| format!("{}/tests/watch/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let kubeconfig: Kubeconfig = serde_json::from_value(serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {
            "client-certificate": file("version-1.crt"), "client-key": file("version-1.key"),
        }}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }))
    .unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let error = portolan_watch::client(config).err().unwrap().to_string();
    assert!(error.contains("X.509 version 1") && !error.contains("private key"), "{error}");
}
