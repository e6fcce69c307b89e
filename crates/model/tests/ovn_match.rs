//! Our grammar of match expressions against OVN's own: `ovn-trace` parses every logical flow it is shown, and complains about
//! those it cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use portolan_model::ovn_match::Match;
use serde_json::json;

/// Every symbol we know, and some that only look like ones.
const SYMBOLS: &str = "inport outport reg0 reg9 reg10 xreg0 xreg4 xreg5 xxreg0 xxreg1 xxreg2 flags.loopback pkt.mark \
    eth.src eth.dst eth.type eth.bcast eth.mcast eth.mcastv6 vlan.tci vlan.vid vlan.pcp vlan.present \
    ip ip4 ip6 ip.proto ip.dscp ip.ecn ip.ttl ip.frag ip.is_frag ip.later_frag ip.first_frag \
    ip4.src ip4.dst ip4.src_mcast ip4.mcast ip6.src ip6.dst ip6.label ip6.mcast \
    arp arp.op arp.spa arp.tpa arp.sha arp.tha rarp rarp.op rarp.spa rarp.tpa rarp.sha rarp.tha \
    tcp tcp.src tcp.dst tcp.flags udp udp.src udp.dst sctp sctp.src sctp.dst icmp icmp4 icmp4.type icmp4.code \
    icmp6 icmp6.type icmp6.code igmp mldv1 mldv2 nd nd_ns nd_na nd_rs nd_ra nd.target nd.sll nd.tll \
    ct_mark ct_label ct_state ct.trk ct.new ct.est ct.rel ct.rpl ct.inv ct.dnat ct.snat \
    ip4.scr tcp.port http IP4 eth vlan";

/// Ways to use a symbol.
const USES: &[&str] = &[
    "S",
    "!S",
    "!!S",
    "!(S)",
    "S == 1",
    "S == 0",
    "S != 1",
    "S != 0",
    "!(S == 1)",
    "!(S != 1)",
    "!(S == 0)",
    "!S == 1",
    "S == 0x1",
    "S = 1",
    "S < 1",
    "S <= 1",
    "S > 1",
    "S >= 1",
    "1 == S",
    "0 < S < 1",
    "1 >= S >= 0",
    "0 < S > 1",
    "0 == S == 1",
    "S == {1}",
    "S == {}",
    "S != {0, 1}",
    "S == {0 1}",
    "S < {1}",
    "!(S == {0, 1})",
    "S == 2",
    "S == 4",
    "S == 0xff",
    "S == 0x100",
    "S == 0xfff",
    "S == 0xfffff",
    "S == 0xffffffff",
    "S == 0x100000000",
    "S == 18446744073709551615",
    "S == 18446744073709551616",
    "S == 0xffffffffffffffffffffffffffffffff",
    "S == 0x1/0x1",
    "S < 0x1/0x1",
    "S == 1/1",
    "S == 2/1",
    "S == 1/0x1",
    "S == 0x1/1",
    "S == 0x0/1",
    "S == 0/10.0.0.0",
    "S == 0/ff:ff:ff:ff:ff:ff",
    "S == 0/ffff::",
    "S == 0/0xff",
    "S == 10.0.0.1",
    "S == 10.0.0.0/8",
    "S == 10.0.0.1/8",
    "S == 10.0.0.0/33",
    "S == 10.0.0.0/255.0.0.0",
    "S == 10.0.0.0/0xff000000",
    "S < 10.0.0.0/8",
    "S == {10.0.0.1, 10.0.1.0/24}",
    "S == ::1",
    "S == fd00::/8",
    "S == fd00::/129",
    "S == fd00::1/8",
    "S == 0.0.0.1",
    "S == ::",
    "S == 02:00:00:00:00:01",
    "S == 02:00:00:00:00:01/ff:00:00:00:00:00",
    "S == 02:00:00:00:00:00/ff:00:00:00:00:00",
    "S == 02:00:00:00:00:00/8",
    r#"S == "a""#,
    r#"S != "a""#,
    r#"!(S != "a")"#,
    r#"S == {"a", "b"}"#,
    r#"S == {"a", 1}"#,
    r#"S < "a""#,
    r#""a" == S"#,
    r#"S == """#,
    "S[0]",
    "!S[0]",
    "S[0] == 1",
    "S[1]",
    "S[0..1] == 2",
    "S[0..1] < 2",
    "S[1..0] == 0",
    "S[200] == 1",
    "S[0..1]",
    "S[0..3] == 16",
    "S[0x0]",
    "S == reg0",
    "S && S",
    "S ||",
    "S S",
    "S == 1 1",
    "(S == 1",
    "S == 1)",
    "S == $set",
    "S == {$set}",
    "S != $set",
    "S < $set",
    "S == @pg",
    "S == {@pg}",
    "S != @pg",
];

/// Whole expressions.
const EXPRESSIONS: &[&str] = &[
    "0",
    "1",
    "!0",
    "!1",
    "2",
    "00",
    "(0)",
    "0 || 1",
    "0x1",
    "01",
    "",
    " ",
    "()",
    "!",
    "1 &&",
    "&& 1",
    "1 & 1",
    "1 | 1",
    "not ip4",
    "ip4 && tcp && tcp.dst == {80, 443,}",
    "ip4 && tcp || udp",
    "(ip4 && tcp) || udp",
    "ip4 || tcp && udp",
    "ip4.src == 10.0.0.0/8 && ip4.dst == 10.1.2.3",
    "!(ip4.src == 10.0.0.0/8)",
    "!(ip4.src == 10.0.0.0/8 && ip4.dst == 10.0.0.0/8)",
    "ip4.src != 10.0.0.0/8",
    "ip4.src == {10.0.0.0/8 11.0.0.0/8}",
    "1024 <= tcp.src <= 49151",
    "1024 <= tcp.src >= 49151",
    "tcp.src == 80 && 80 == tcp.dst",
    "ip4 // a comment",
    "ip4 /* inside */ && tcp",
    "ip4 /* open",
    r#"is_chassis_resident("a")"#,
    r#"!is_chassis_resident("a")"#,
    "is_chassis_resident(a)",
    r#"is_chassis_resident "a""#,
    r#"is_chassis_resident("a""#,
    "is_chassis_resident",
    r#"inport == "a\"b""#,
    r#"inport == "a"#,
    "inport == 'a'",
    r#"inport == "a" && outport == "b""#,
    r#"inport == "a" == "b""#,
    r#"inport == "é""#,
    r#"inport == "\q""#,
    "ip4.src == 10.0.0",
    "ip4.src == 10.0.0.256",
    "ip4.src == 010.0.0.1",
    "ip6.src == fe80::1::2",
    "ip6.src == ::ffff:10.0.0.1",
    "eth.src == 2:0:0:0:0:1",
    "eth.src == 02-00-00-00-00-01",
    "ip4.src == 0x0a000001",
    "ip4.src == 167772161",
    "tcp.dst == 65536",
    "tcp.dst == 65535",
    "tcp.dst == -1",
    "tcp.dst == 080",
    "tcp.dst == 0x",
    "tcp.dst == 0xg",
    "tcp.dst == 1.5",
    "ip4.src == $",
    "ip4.src == $as.with.dots_1",
    "inport == @",
    "ip4.src == {$set, 10.0.0.1}",
    "ip4.src == {10.0.0.1, $set}",
    "inport == {@pg, \"a\"}",
    "$set == ip4.src",
    "@pg == inport",
    "ip4.dst[28..31] == 0xe",
    "ip4.dst[28..] == 0xe",
    "ip4.dst[..31] == 0xe",
    "ip4.dst[28...31] == 0xe",
    "vlan.tci[13..15] == 7",
    "eth.dst[40]",
    "ip4.src == 10.0.0.0 / 8",
    "ip4.src == 10.0.0.0/ 8",
    "ct.est && !ct.rel && !ct.new && !ct.inv",
    "ct_state == 0x2",
    "ip.proto == 6 && !(ip.proto == 7)",
    "tcp.flags == 2",
    "tcp.flags[1]",
    "nd.target == fd00::1",
    "arp.op == 1 && arp.tpa == 10.0.0.1",
    "!(ip4 && !tcp)",
    "!(!(ip4))",
    "!!ip4",
    "!(!ip4)",
    "ip4.mcast",
    "!ip4.mcast",
    "ip4.mcast == 0",
    "!(ip4.mcast == 0)",
    "eth.bcast == 0",
    "!eth.bcast",
    "eth.bcast != 1",
    "vlan.present == 0",
    "ip4 == {1, 0}",
    "ip4 == {0}",
    "ip4 == {0, 0}",
    "ip4 != {0, 1}",
    "ip4 != {0}",
    "ip4 == 1 && ip6 == 1",
    "((((ip4))))",
    "ip4)",
    "(ip4",
    "ip4;",
    "ip4 and tcp",
    "ip4 ^ tcp",
    "drop",
    "next;",
    "reg0[0..15] == 0x1234 && xxreg0[64..127] == 0xffff",
    "pkt.mark == 0x10/0xf0",
    "ip4.src == 10.0.0.1 ip4.dst == 10.0.0.2",
    "\u{e9}",
    "ip4 \u{1f600}",
    "ip4.src==10.0.0.1&&tcp",
    "ip4.src==10.0.0.0/8&&tcp.dst==80||1",
    "1 == 1",
    "1 < 2",
    "ip4 < tcp",
    "{1} == ip4",
    "{1, 2} == tcp.dst",
    "{1, 2} < tcp.dst",
    "1 < tcp.dst < {2}",
    "\"a\" == inport && 1",
    "tcp.dst == {80, \"a\"}",
    "tcp.dst == {80,, 81}",
    "tcp.dst == {,80}",
];

#[test]
fn what_we_accept_is_what_ovn_accepts() {
    let ovn = Ovn::start();
    let mut all: Vec<String> = EXPRESSIONS.iter().map(ToString::to_string).collect();
    for symbol in SYMBOLS.split_whitespace() {
        all.extend(USES.iter().map(|usage| usage.replace('S', symbol)));
    }
    // OVN's database takes one line; and what it logs is cut into lines.
    all.retain(|text| !text.contains('\n'));
    all.push(format!("{}ip4{}", "(".repeat(99), ")".repeat(99)));
    all.push(format!("{}ip4{}", "(".repeat(120), ")".repeat(120)));
    let refused = ovn.refuses(&all);
    assert!(
        refused.len() > 100 && refused.len() < all.len() - 100,
        "{} of {} refused",
        refused.len(),
        all.len()
    );
    let mut differences = Vec::new();
    for text in &all {
        match (Match::parse(text), refused.iter().find(|(refused, _)| refused == text)) {
            (Ok(_), Some((_, why))) => differences.push(format!("OVN alone refuses {text:?}: {why}")),
            (Err(why), None) => differences.push(format!("we alone refuse {text:?}: {why}")),
            _ => {}
        }
    }
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), all.len(), differences.join("\n"));
}

/// A Southbound database to show flows to `ovn-trace` in.
struct Ovn {
    directory: PathBuf,
    server: Option<Child>,
}

impl Drop for Ovn {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Ovn {
    fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("portolan-match-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self { directory, server: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The expressions that OVN cannot parse, with what it says about them.
    fn refuses(mut self, expressions: &[String]) -> BTreeSet<(String, String)> {
        let (database, socket) = (self.path("sb.db"), self.path("sb.sock"));
        run(Command::new("ovsdb-tool").arg("create").arg(&database).arg("/usr/share/ovn/ovn-sb.ovsschema"));
        let mut operations = vec![
            json!("OVN_Southbound"),
            json!({"op": "insert", "table": "Datapath_Binding", "uuid-name": "dp",
                   "row": {"tunnel_key": 1, "external_ids": ["map", [["name", "sw"]]]}}),
            json!({"op": "insert", "table": "Port_Binding",
                   "row": {"datapath": ["named-uuid", "dp"], "logical_port": "p", "tunnel_key": 1}}),
        ];
        let set = |table: &str, column: &str, name: &str, member: &str| json!({"op": "insert", "table": table, "row": {"name": name, column: ["set", [member]]}});
        for name in ["set", "as.with.dots_1"] {
            operations.push(set("Address_Set", "addresses", name, "10.0.0.1"));
        }
        operations.push(set("Port_Group", "ports", "pg", "p"));
        for (i, expression) in expressions.iter().enumerate() {
            operations.push(json!({"op": "insert", "table": "Logical_Flow", "row": {
                "logical_datapath": ["named-uuid", "dp"], "pipeline": "ingress", "table_id": 0, "priority": i % 60000,
                "match": expression, "actions": "next;"}}));
        }
        self.serve(&database, &socket);
        self.transact(&socket, &operations);
        let output = Command::new("ovn-trace")
            .arg(format!("--db=unix:{}", socket.display()))
            .args(["--no-leader-only", "-vconsole:warn", "sw", r#"inport == "p""#])
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut refused = BTreeSet::new();
        for line in log.lines() {
            let Some((_, message)) = line.split_once("|WARN|") else { continue };
            if let Some((expression, why)) = message.rsplit_once(": parsing expression failed (") {
                refused.insert((expression.to_owned(), why.trim_end_matches(')').to_owned()));
            } else {
                assert!(message.ends_with(": unknown logical port"), "ovn-trace says {line}");
            }
        }
        refused
    }

    fn serve(&mut self, database: &Path, socket: &Path) {
        let server = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", self.path("ctl").display()))
            .arg("-vconsole:off")
            .arg(database)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !socket.exists() {
            assert!(std::time::Instant::now() < deadline, "ovsdb-server did not start");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Sends a transaction by the wire protocol: it is too long for the argument of a tool.
    fn transact(&self, socket: &Path, operations: &[serde_json::Value]) {
        use std::io::{Read, Write};
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let request = json!({"id": 1, "method": "transact", "params": operations});
        stream.write_all(request.to_string().as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 65536];
        let answer: serde_json::Value = loop {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0, "ovsdb-server hung up");
            answer.extend_from_slice(&buffer[..n]);
            if let Ok(answer) = serde_json::from_slice(&answer) {
                break answer;
            }
        };
        let results = answer["result"].as_array().unwrap();
        assert!(results.iter().all(|result| result["error"].is_null()), "{answer}");
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
