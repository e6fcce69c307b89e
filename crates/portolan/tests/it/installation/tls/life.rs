//! Certificates and authorities come to their ends, and nobody notices.

use std::time::{Duration, Instant};

use portolan_authority::Authority;
use portolan_testbed::{Result, Test, TestLab};
use serde_json::json;

use super::stage::{NAMESPACE, Stage};

/// How long certificates live here, in seconds.
const LIFE: u64 = 20;

#[test]
fn certificates_are_replaced_in_time_and_programs_of_open_vswitch_take_the_new_ones() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        let _controller = stage.controller(&[&format!("--ovn-certificate-life={LIFE}")])?;
        let central = stage.central()?;
        let node = stage.node("node1")?;
        let ovn_controller = stage.ovn_controller(&node)?;
        ovn_controller.wait_until_ready()?;
        let begun = Instant::now();
        central.nbctl(&["--wait=hv", "sync"])?;
        // Until everything that there was at the beginning has expired, and each of the three has got another.
        let certificates = || stage.kubectl(&["get", "csr", "-o", "jsonpath={.items[*].spec.username}"]);
        let enough = |all: &str| {
            let of = |account: &str| all.split(' ').filter(|user| user.ends_with(account)).count();
            of(":ovn-central") >= 6 && of(":ovn-controller") >= 3
        };
        while !enough(&certificates()?) || begun.elapsed() < Duration::from_secs(LIFE) {
            assert!(ovn_controller.is_alive() && central.northbound.is_alive(), "nothing begins anew");
            std::thread::yield_now();
        }
        // All connections begin anew, with certificates that the programs have read meanwhile.
        central.southbound.kill()?;
        central.southbound.restart()?;
        central.nbctl(&["--wait=hv", "sync"])?;
        Ok(())
    });
}

#[test]
fn an_authority_is_replaced_while_what_it_signed_stays_good_and_one_that_was_deleted_is_not_believed() {
    Test::new().deadline(Duration::from_secs(300)).run(async |lab: TestLab| -> Result<()> {
        let stage = Stage::new(&lab)?;
        // One that is due, and that somebody else is to replace.
        let years = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 365 * 9);
        let name = "ovn-central-authority";
        let data = Authority::make(name, None, years).unwrap();
        stage.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": NAMESPACE}, "data": data,
        }))?;
        let _controller = stage.controller(&[])?;
        let central = stage.central()?;
        let former = stage.authority(name)?;
        let by_former = stage.client(&former, "portolan-controller", 0);
        central.nbctl_as(&by_former, &["ls-list"])?;

        stage.kubectl(&["annotate", "secret", name, "-n", NAMESPACE, "portolan.dev/generated=true"])?;
        let trusted =
            || stage.kubectl(&["get", "configmap", name, "-n", NAMESPACE, "-o", "jsonpath={.data.ca\\.crt}"]);
        while trusted()?.matches("BEGIN").count() != 2 {
            std::thread::yield_now();
        }
        let successor = stage.authority(name)?;
        assert!(!successor.is_same(&former));
        let by_successor = stage.client(&successor, "portolan-controller", 0);
        // The file is written soon after the ConfigMap.
        let files = stage.central_directory().join("northbound-tls/current/ca.crt");
        while std::fs::read_to_string(&files).unwrap_or_default().matches("BEGIN").count() != 2 {
            std::thread::yield_now();
        }
        central.nbctl_as(&by_successor, &["ls-list"])?;
        // It trusted the first alone when it was made: the server's certificate is still of that.
        central.nbctl_as(&by_former, &["ls-list"])?;

        stage.kubectl(&["delete", "secret", name, "-n", NAMESPACE])?;
        while std::fs::read_to_string(&files).unwrap_or_default().matches("BEGIN").count() != 1 {
            assert!(central.northbound.is_alive(), "{}", central.northbound.log_tail());
            std::thread::yield_now();
        }
        let third = stage.client(&stage.authority(name)?, "portolan-controller", 0);
        central.nbctl_as(&third, &["ls-list"])?;
        for before in [&by_former, &by_successor] {
            assert!(central.nbctl_as(before, &["ls-list"]).is_err(), "the authority was deleted");
        }
        Ok(())
    });
}
