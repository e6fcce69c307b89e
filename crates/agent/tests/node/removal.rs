//! What `portolan agent uninstall --everything` removes from a node, and what it leaves alone.

use std::path::Path;

use portolan_host::{Admits, guard};
use portolan_plan::host::{HolderTag, LinkName};

#[test]
fn links_of_networkattachments_go_by_their_notes_and_others_stay_whatever_they_are_called() {
    portolan_testbed::test(async |lab| {
        let ip = |lines: &str| lab.home().ip(lines).unwrap();
        let tag = HolderTag::of_attachment("default", "helm", "5e1c7a52-0f1b-4a54-8f0c-2b1c5b0e7f11");
        let ours = tag.link();
        let (unnoted, copied) = (LinkName::of_attachment("1"), LinkName::of_attachment("2"));
        for (name, alias) in [(&ours, tag.to_string()), (&unnoted, String::new()), (&copied, tag.to_string())]
        {
            ip(&format!("tuntap add {name} mode tap"));
            lab.command("ip").args(["link", "set", name.as_str(), "alias", &alias]).read().unwrap();
        }
        guard::guard(ours.as_str(), Admits::Nothing).unwrap();
        let removed = portolan_agent::removal::remove(Path::new("/there/is/no/database")).await.unwrap();
        assert_eq!(removed, [format!("link {ours}"), "nftables table netdev portolan".to_owned()]);
        let links = lab.command("ip").args(["-br", "link"]).read().unwrap();
        for (name, is_there) in [(&ours, false), (&unnoted, true), (&copied, true)] {
            assert_eq!(links.contains(name.as_str()), is_there, "{name}: {links}");
        }
    });
}
