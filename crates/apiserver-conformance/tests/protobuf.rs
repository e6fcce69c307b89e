//! What kube-apiserver answers in protobuf is read as what it answers in JSON: one object of every kind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use apimachinery::protobuf;
use apiserver_conformance::{USERS, token_file};
use portolan_testbed::{KubeApiServer, Lab};
use serde_json::{Value, json};

/// Pods may name a service account that nobody makes, and priorities.
const WITHOUT: &str = "--disable-admission-plugins=ServiceAccount,Priority,RuntimeClass";

#[test]
#[ignore = "half a minute; part of make test-full"]
fn objects_are_the_same_in_protobuf_and_in_json() {
    portolan_testbed::Test::new().deadline(Duration::from_secs(300)).run(async |lab| {
        let tokens = lab.path().join("tokens.csv");
        fs::write(&tokens, token_file()).unwrap();
        let server = KubeApiServer::builder()
            .arg(format!("--token-auth-file={}", tokens.display()))
            .arg(WITHOUT)
            .start(&lab)
            .unwrap();
        let objects = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protobuf/objects.yaml");
        server.kubectl().unwrap().args(["create", "-f", objects]).read().unwrap();

        let client = Client { lab: &lab, server: &server };
        let known: BTreeSet<(String, &str)> = apischema::core::kinds()
            .iter()
            .map(|kind| {
                let prefix =
                    if kind.group.is_empty() { "/api".into() } else { format!("/apis/{}", kind.group) };
                (format!("{prefix}/{}", kind.version), &*kind.kind)
            })
            .collect();
        let mut compared = BTreeSet::new();
        for version in known.iter().map(|(version, _)| version).collect::<BTreeSet<_>>() {
            let resources = client.json(version);
            for resource in resources["resources"].as_array().unwrap() {
                let (name, kind) = (resource["name"].as_str().unwrap(), resource["kind"].as_str().unwrap());
                let is_listed = resource["verbs"].as_array().unwrap().contains(&json!("list"));
                if is_listed && known.contains(&(version.clone(), &*format!("{kind}List"))) {
                    client.compare(&format!("{version}/{name}"));
                    compared.insert(format!("{version}/{name}"));
                }
            }
        }
        assert!(compared.len() > 40, "{compared:#?}");
        drop(server);
    });
}

struct Client<'a> {
    lab: &'a Lab,
    server: &'a KubeApiServer,
}

impl Client<'_> {
    fn get(&self, path: &str, accept: &str) -> Vec<u8> {
        let token = USERS.iter().find(|user| user.name == "admin").unwrap().token();
        let url = format!("{}{path}", self.server.url());
        let (accept, token) = (format!("Accept: {accept}"), format!("Authorization: Bearer {token}"));
        let answer = self.lab.path().join("answer");
        let arguments = ["-sSfk", "-H", &accept, "-H", &token, "-o", answer.to_str().unwrap(), &url];
        self.lab.command("curl").args(arguments).read().unwrap();
        fs::read(answer).unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path, "application/json")).unwrap()
    }

    /// The list at the same revision, whatever happens in between, and its first object.
    fn compare(&self, path: &str) {
        let mut list = self.json(path);
        // An object within an object has no kind in protobuf. Kubernetes adds it where it writes JSON.
        for item in list["items"].as_array_mut().unwrap() {
            let claims = item.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                let claim = claim.as_object_mut().unwrap();
                claim.retain(|name, _| !["apiVersion", "kind"].contains(&&**name));
            }
        }
        let items = list["items"].as_array().unwrap();
        assert!(!items.is_empty(), "nothing at {path}");
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let exact = format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let read = protobuf::decode(&self.get(&exact, "application/vnd.kubernetes.protobuf")).unwrap();
        for (ours, theirs) in read["items"].as_array().unwrap().iter().zip(items) {
            assert_eq!(ours, theirs, "{path}\n{ours}\n{theirs}");
        }
        assert_eq!(read, list, "{path}");
    }
}
