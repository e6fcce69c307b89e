//! Whose word is taken for a user.

use portolan_watch::fake::{Answer, FakeApi};

use crate::client::Authority;
use crate::{CONFIG_MAPS, Scene, config_map};

const FORGED: &[&str] = &["X-Remote-User: admin", "X-Remote-Group: system:masters"];

#[tokio::test]
async fn the_front_proxy_speaks_for_users_and_nobody_else_does() {
    let scene = Scene::usual().await;
    let client = scene.client().await;
    let front = scene.front_proxies.certify("front-proxy-client");
    let answer = client.ask(Some(&front), &["X-Remote-User: ann"]).await.unwrap();
    assert_eq!((answer.code, answer.closes), (200, false), "{}", answer.body);
    assert!(answer.body.contains("\"traces\""), "{}", answer.body);

    let answer = client.ask(None, FORGED).await.unwrap();
    assert_eq!((answer.code, answer.closes), (401, true), "no certificate: {}", answer.body);
    let other_name = scene.front_proxies.certify("system:kube-proxy");
    let answer = client.ask(Some(&other_name), FORGED).await.unwrap();
    assert_eq!((answer.code, answer.closes), (401, true), "a name that is not allowed: {}", answer.body);
    let words = r#"common name \"system:kube-proxy\", which data.requestheader-allowed-names of ConfigMap kube-system/extension-apiserver-authentication does not allow"#;
    assert!(answer.body.contains(words), "{}", answer.body);
    let other_authority = Authority::new().certify("front-proxy-client");
    assert_eq!(client.ask(Some(&other_authority), FORGED).await, None, "a certificate of another authority");
    let answer = client.ask(Some(&front), &[]).await.unwrap();
    assert_eq!(answer.code, 401, "the front proxy names nobody: {}", answer.body);
    let answer = client.ask(Some(&front), &["X-Remote-User: system:anonymous"]).await.unwrap();
    assert_eq!(answer.code, 401, "{}", answer.body);
}

#[tokio::test]
async fn a_list_of_names_that_cannot_be_read_admits_nobody() {
    for list in ["front-proxy-client", r#"{"front-proxy-client": true}"#, ""] {
        let scene = Scene::with_allowed_names(list).await;
        let front = scene.front_proxies.certify("front-proxy-client");
        let answer = scene.client().await.ask(Some(&front), FORGED).await.unwrap();
        assert_eq!((answer.code, answer.closes), (401, true), "{list:?}: {}", answer.body);
        assert!(answer.body.contains("data.requestheader-allowed-names is not a list"), "{}", answer.body);
    }
}

#[tokio::test]
async fn authorities_that_cannot_be_read_admit_nobody() {
    let (api, front_proxies) = (FakeApi::default(), Authority::new());
    let mut map = config_map(&front_proxies, "[]");
    map.data.as_mut().unwrap().insert("requestheader-client-ca-file".into(), "nonsense".into());
    api.put(&map);
    let scene = Scene::start(api, front_proxies).await;
    scene.api.requested(&format!("WATCH {CONFIG_MAPS}"), 1).await;
    let front = scene.front_proxies.certify("front-proxy-client");
    let answer = scene.client().await.ask(Some(&front), FORGED).await.unwrap();
    assert_eq!(answer.code, 401, "{}", answer.body);
    assert!(answer.body.contains("data.requestheader-client-ca-file has no certificate"), "{}", answer.body);
}

#[tokio::test]
async fn a_list_without_the_config_map_says_nothing_about_a_user() {
    let scene = Scene::start(FakeApi::default(), Authority::new()).await;
    scene.api.requested(&format!("WATCH {CONFIG_MAPS}"), 1).await;
    let front = scene.front_proxies.certify("front-proxy-client");
    let client = scene.client().await;
    let answer = client.ask(Some(&front), &["X-Remote-User: ann"]).await.unwrap();
    assert_eq!((answer.code, answer.closes), (503, true), "{}", answer.body);
    let words = "ConfigMap kube-system/extension-apiserver-authentication does not exist";
    assert!(answer.body.contains(words), "{}", answer.body);
}

#[tokio::test]
async fn until_it_is_known_whom_to_trust_users_are_asked_to_try_again() {
    let (api, front_proxies) = (FakeApi::default(), Authority::new());
    api.put(&config_map(&front_proxies, r#"["front-proxy-client"]"#));
    api.always(&format!("GET {CONFIG_MAPS}"), Answer::Code(403));
    let scene = Scene::start(api, front_proxies).await;
    let client = scene.client().await;
    let front = scene.front_proxies.certify("front-proxy-client");
    let answer = client.ask(Some(&front), &["X-Remote-User: ann"]).await.unwrap();
    // A connection that stayed would never show the certificate.
    assert_eq!((answer.code, answer.closes), (503, true), "{}", answer.body);
    let words = "ConfigMap kube-system/extension-apiserver-authentication has not been read";
    assert!(answer.body.contains(words), "{}", answer.body);
    scene.api.lift();
    scene.api.requested(&format!("WATCH {CONFIG_MAPS}"), 1).await;
    let answer = client.ask(Some(&front), &["X-Remote-User: ann"]).await.unwrap();
    assert_eq!(answer.code, 200, "{}", answer.body);
}
