//! The server's file cannot grow any more, as on a full disk.

use http::Method;
use portolan_testbed::Test;
use serde_json::json;

use crate::apiserver::server::{Server, request};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The most that the store may have, in the shell's blocks of 512 bytes.
const BLOCKS: usize = 32 << 10;

#[test]
fn a_server_that_cannot_write_says_that_it_is_not_alive() {
    Test::new().run(async |lab| {
        let server = Server::start_with_file_limit(&lab, BLOCKS, &[]);
        let client = server.client().await;
        let probe = async |path| client.request_text(request(Method::GET, path, None)).await;
        assert_eq!(probe("/livez").await.unwrap(), "ok");

        let data = "x".repeat(512 << 10);
        let mut written = 0;
        let refused = loop {
            assert!(written < 200, "the limit is reached");
            let object = json!({"metadata": {"name": format!("m{written}")}, "data": {"k": data}});
            match client.request::<serde_json::Value>(request(Method::POST, CONFIG_MAPS, Some(&object))).await
            {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 500), "{refused:?}");
        assert!(written > 0);
        let failed = probe("/livez?verbose").await.unwrap_err();
        assert!(matches!(&failed, kube::Error::Api(status) if status.code == 500), "{failed:?}");
    });
}
