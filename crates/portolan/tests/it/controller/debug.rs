//! What a controller tells people who look for the reason of something.

use portolan_testbed::ApiKind;
use serde_json::Value;

use crate::controller::Stage;

#[test]
fn a_controller_tells_what_it_knows_who_waits_and_what_differs() {
    portolan_testbed::test(async |lab| {
        let stage = Stage::with_objects(&lab, ApiKind::Portolan);
        let debug = stage.lab.port();
        let controller = stage.start("only", &[&format!("--debug-address={debug}")]);
        stage.serve_pod("a");
        let get = |path: &str| {
            let answer = stage.get(&controller, path);
            let (body, status) = answer.rsplit_once('\n').unwrap();
            (status.to_owned(), body.to_owned())
        };
        let json = |path: &str| serde_json::from_str::<Value>(&get(path).1).unwrap();

        assert_eq!(get("/readyz"), ("200".into(), "ok".into()));
        let (status, verbose) = get("/readyz?verbose");
        assert_eq!(status, "200");
        assert!(
            verbose.contains("[+] northbound ok\n") && verbose.ends_with("readyz check passed\n"),
            "{verbose}"
        );
        assert_eq!(get("/healthz/loop").0, "200");
        assert_eq!(get("/healthz/other").0, "404");

        let world = json("/debug/world");
        assert_eq!((&world["active"], &world["counts"]["subnets"]), (&true.into(), &2.into()), "{world}");
        let web = json("/debug/world?unit=subnet/web");
        assert_eq!(web["state"], "Live");
        assert!(web["value"].as_str().unwrap().contains("10.0.0.0/24"), "{web}");
        assert_eq!(get("/debug/world?unit=web").0, "400");

        // A pod that waits: who, for what, and why.
        stage.testbed.pod("waits").on("node-1").nad("nowhere").create().unwrap();
        let find = || {
            let waiting = json("/debug/waiting");
            waiting["requesters"].as_array().unwrap().iter().find(|one| one["name"] == "waits").cloned()
        };
        // Until the controller has seen it.
        let requester = std::iter::repeat_with(find).flatten().next().unwrap();
        let reason = requester["reasons"][0]["message"].as_str().unwrap();
        assert!(reason.contains("default/nowhere"), "{requester}");

        // Somebody changes OVN by hand, while nobody may repair it.
        assert!(
            get("/debug/plan?unit=subnet/web").1.contains("as planned"),
            "{:?}",
            get("/debug/plan?unit=subnet/web")
        );
        let writer = stage.northbound.hold_writes();
        stage.testbed.central().nbctl(&["lrp-del", "vpc:blue/subnet:web"]).unwrap();
        stage.testbed.central().nbctl(&["lsp-set-type", "subnet:web/vpc:blue", "localnet"]).unwrap();
        let client = stage.northbound.client().clone();
        stage.northbound.wait_until(move |_| {
            let cache = client.read();
            cache.table("Logical_Router_Port").is_some_and(|ports| ports.len() == 1)
        });
        // The controller's own copy may be a moment behind the test's.
        let plans = std::iter::repeat_with(|| get("/debug/plan?unit=subnet/web").1);
        let plan = { plans }.find(|plan| plan.contains("localnet")).unwrap();
        assert!(plan.contains("+ Logical_Router_Port \"vpc:blue/subnet:web\""), "{plan}");
        assert!(plan.contains("type: \"localnet\" → \"router\""), "{plan}");
        drop(writer);

        // The log says more from now on.
        assert_eq!(get("/debug/log").1, "info\n");
        let put_at = |port: u16, filter: &str| {
            let path = format!("/debug/log?filter={filter}");
            stage.request_at(port, "PUT", "127.0.0.1", &path)
        };
        let put = |filter: &str| put_at(debug, filter);
        // Not through an address that every process of the host can connect to.
        assert!(put_at(controller.port, "debug").ends_with("\n403"));
        assert_eq!(get("/debug/log").1, "info\n");
        assert!(put("info,portolan_controller=debug").ends_with("\n200"));
        assert!(get("/debug/log").1.contains("portolan_controller=debug"));
        let refused = put("a=b=c");
        assert!(refused.contains("is no filter") && refused.ends_with("\n400"), "{refused}");

        // From elsewhere there are health and metrics, and nothing else.
        let home = stage.testbed.underlay().home_address().to_string();
        let from_elsewhere = |path: &str| stage.request(&controller, "GET", &home, path);
        assert!(from_elsewhere("/metrics").ends_with("\n200"));
        assert!(from_elsewhere("/debug/world").ends_with("\n403"), "{}", from_elsewhere("/debug/world"));
    });
}
