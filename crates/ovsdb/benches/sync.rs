//! Measures the client beside others, in one run on one server: `make bench` prints the tables.
//!
//! Seconds differ between machines; ratios carry over.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop there")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ovn_schema::nb::AddressSet;
use ovsdb::frame::Scanner;
use ovsdb::message::Message;
use ovsdb::{Client, Endpoint, Monitor, Rows, Transaction, TypedRow, Uuid};
use portolan_testbed::{Lab, OVN_NB_SCHEMA, OvsdbServer, Test};
use rustix::time::{ClockId, clock_gettime};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

const ROWS: u32 = 30_000;
const DATABASE: &str = "OVN_Northbound";
const ROUNDS: usize = 7;
const TRANSACTIONS: u32 = 3_000;

fn main() {
    // A child of this program that measures its own memory.
    if let Some(endpoint) = std::env::args().skip_while(|arg| arg != "--memory").nth(1) {
        println!("{}", memory_of_a_client(&endpoint));
        return;
    }
    Test::new().deadline(Duration::from_secs(600)).run(async |lab| {
        let server = OvsdbServer::builder("nb").schema_file(OVN_NB_SCHEMA).start(&lab).unwrap();
        let endpoint = server.endpoint();
        let client = connect(&endpoint);
        client.ready().await;
        fill(&client).await;

        println!("\novsdb: first sync of {ROWS} Address_Set rows, median of {ROUNDS}\n");
        let dump = dump(&server);
        let check = median((0..ROUNDS).map(|_| cpu(|| drop(serde_json::from_slice::<IgnoredAny>(&dump)))));
        let scan = median((0..ROUNDS).map(|_| cpu(|| bare_scan(&dump))));
        let runs: Vec<(Duration, Duration)> = (0..ROUNDS).map(|_| sync(&endpoint)).collect();
        let client_cpu = median(runs.iter().map(|(cpu, _)| *cpu));
        let client_wall = median(runs.iter().map(|(_, wall)| *wall));
        let server_wall = median((0..ROUNDS).map(|_| timed(|| drop(black_box(self::dump(&server))))));
        let python = median((0..3).map(|_| python_idl(&lab, &endpoint)));
        line("size of the dump", &format!("{:.1} MB", dump.len() as f64 / 1e6), "");
        line("CPU: bare scan, rows as borrowed raw JSON", &ms(scan), "1");
        line("CPU: client, from socket to cache", &ms(client_cpu), &ratio(client_cpu, scan, "goal ≤ 3"));
        line(
            "     is it JSON at all? no rows, no values",
            &ms(check),
            &ratio(client_cpu, check, "the client"),
        );
        line("wall: client, connect to in step", &ms(client_wall), "1");
        line("wall: Python IDL, connect to in step", &ms(python), &ratio(python, client_wall, "goal ≥ 10"));
        line("     (the server alone, bytes thrown away)", &ms(server_wall), "");
        let beyond = |wall: Duration| wall.saturating_sub(server_wall);
        line("     beyond the server's share, client", &ms(beyond(client_wall)), "1");
        let times = ratio(beyond(python), beyond(client_wall), "the clients alone");
        line("     beyond the server's share, Python IDL", &ms(beyond(python)), &times);
        let bytes = memory(&lab, &endpoint);
        line("memory: client, per row", &format!("{} bytes", bytes / u64::from(ROWS)), "");
        line("        of JSON, per row", &format!("{} bytes", dump.len() / ROWS as usize), "");

        println!("\novsdb: {TRANSACTIONS} transactions that update one row\n");
        // The other client could not answer the server's probes while this thread was kept busy.
        let client = connect(&endpoint);
        client.ready().await;
        let single = one_at_a_time(&client).await;
        let pipelined = pipelined(&client).await;
        line("one at a time", &format!("{:.0} /s", per_second(single)), "1");
        let faster = single.as_secs_f64() / pipelined.as_secs_f64();
        line("pipelined", &format!("{:.0} /s", per_second(pipelined)), &format!("{faster:.1} times"));
        println!();
    });
}

fn line(what: &str, value: &str, ratio: &str) {
    println!("  {what:<48} {value:>14}   {ratio}");
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn ratio(of: Duration, to: Duration, goal: &str) -> String {
    format!("{:.1} times ({goal})", of.as_secs_f64() / to.as_secs_f64())
}

fn per_second(time: Duration) -> f64 {
    f64::from(TRANSACTIONS) / time.as_secs_f64()
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The CPU time that this thread has spent, in the kernel too.
fn cpu_now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn cpu(work: impl FnOnce()) -> Duration {
    let start = cpu_now();
    work();
    cpu_now() - start
}

fn connect(endpoint: &str) -> Client {
    Client::builder(DATABASE, Endpoint::parse_list(endpoint).unwrap())
        .monitor(Monitor::of::<AddressSet>())
        .connect()
}

/// Address sets as a policy engine makes them: a few addresses, and a few ids that say whose they are.
fn address_set(n: u32) -> (Uuid, AddressSet) {
    let address = |i: u32| format!("10.{}.{}.{}", n >> 8 & 127, n & 255, i * 7 + n % 5);
    let ids = [
        ("owner-controller", "network-policy".to_owned()),
        ("owner", format!("namespace-{}/policy-{}", n % 500, n)),
        ("direction", if n.is_multiple_of(2) { "ingress" } else { "egress" }.to_owned()),
        ("ip-family", "v4".to_owned()),
    ];
    let row = AddressSet {
        name: format!("a{}", u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        addresses: (0..1 + n % 9).map(address).collect::<BTreeSet<_>>(),
        external_ids: ids.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<BTreeMap<_, _>>(),
    };
    (Uuid::new_v5(&Uuid::nil(), row.name.as_bytes()), row)
}

async fn fill(client: &Client) {
    for start in (0..ROWS).step_by(1000) {
        let mut txn = Transaction::new();
        for (uuid, row) in (start..start + 1000).map(address_set) {
            txn.insert(uuid, &row);
        }
        client.transact(&txn).await.unwrap();
    }
}

/// The least that finds the rows in a dump: they are told apart, and none of their values is looked at.
fn bare_scan(dump: &[u8]) {
    type Object<'a, T> = HashMap<&'a str, T>;
    type Tables<'a> = Object<'a, Object<'a, Object<'a, Object<'a, &'a RawValue>>>>;
    let (_, _, tables): (bool, &str, Tables<'_>) = serde_json::from_slice(dump).unwrap();
    assert_eq!(black_box(&tables)[AddressSet::TABLE].len(), ROWS as usize);
}

/// The answer to the monitor request, as bytes.
fn dump(server: &OvsdbServer) -> Vec<u8> {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    let request = serde_json::json!({"id": 1, "method": "monitor_cond_since", "params": [
        DATABASE, "data", {AddressSet::TABLE: [{"columns": AddressSet::COLUMNS}]}, Uuid::nil()]});
    stream.write_all(request.to_string().as_bytes()).unwrap();
    let (mut scanner, mut buffer, mut chunk) = (Scanner::new(1 << 30), Vec::new(), vec![0; 1 << 18]);
    loop {
        let count = stream.read(&mut chunk).unwrap();
        buffer.extend_from_slice(&chunk[..count]);
        if let Some(frame) = scanner.scan(&buffer).unwrap() {
            let Message::Reply { outcome: Ok(result), .. } = Message::parse(&frame, &buffer).unwrap() else {
                panic!("the server refused")
            };
            return result.to_vec();
        }
    }
}

/// CPU and wall time of a client from nothing to a full cache, on a thread of its own.
fn sync(endpoint: &str) -> (Duration, Duration) {
    let measure = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (start, cpu_start) = (Instant::now(), cpu_now());
        runtime.block_on(async {
            let client = connect(endpoint);
            client.ready().await;
            let times = (cpu_now() - cpu_start, start.elapsed());
            assert_eq!(client.read().table(AddressSet::TABLE).unwrap().len(), ROWS as usize);
            times
        })
    };
    std::thread::scope(|scope| scope.spawn(measure).join()).unwrap()
}

const PYTHON_IDL: &str = r#"
import sys, time
import ovs.db.idl, ovs.poller
helper = ovs.db.idl.SchemaHelper(sys.argv[2])
helper.register_table("Address_Set")
start = time.monotonic()
idl = ovs.db.idl.Idl(sys.argv[1], helper, leader_only=False)
while len(idl.tables["Address_Set"].rows) < int(sys.argv[3]):
    if not idl.run():
        poller = ovs.poller.Poller()
        idl.wait(poller)
        poller.block()
print(time.monotonic() - start)
"#;

fn python_idl(lab: &Lab, endpoint: &str) -> Duration {
    let rows = ROWS.to_string();
    let seconds = lab
        .command("/usr/bin/python3")
        .args(["-c", PYTHON_IDL, endpoint, OVN_NB_SCHEMA, &rows])
        .read()
        .unwrap();
    Duration::from_secs_f64(seconds.trim().parse().unwrap())
}

/// Resident memory that a client with a full cache has beyond one with an empty one.
fn memory(lab: &Lab, endpoint: &str) -> u64 {
    let this = std::env::current_exe().unwrap();
    lab.command(this).args(["--memory", endpoint]).read().unwrap().trim().parse().unwrap()
}

fn memory_of_a_client(endpoint: &str) -> u64 {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let table = Monitor::of::<AddressSet>().condition(ovsdb::Condition::Nothing);
        let client =
            Client::builder(DATABASE, Endpoint::parse_list(endpoint).unwrap()).monitor(table).connect();
        client.ready().await;
        let before = resident();
        client.set_condition(AddressSet::TABLE, ovsdb::Condition::All).await.unwrap();
        assert_eq!(client.read().table(AddressSet::TABLE).unwrap().len(), ROWS as usize);
        resident() - before
    })
}

fn update(n: u32) -> Transaction {
    let (uuid, row) = address_set(n);
    let mut txn = Transaction::new();
    let addresses = row.addresses.into_iter().skip(1).collect();
    txn.update(Rows::uuid(uuid), [AddressSet::ADDRESSES.set(&addresses)]).expect(1);
    txn
}

async fn one_at_a_time(client: &Client) -> Duration {
    let start = Instant::now();
    for n in 0..TRANSACTIONS {
        client.transact(&update(n)).await.unwrap();
    }
    start.elapsed()
}

async fn pipelined(client: &Client) -> Duration {
    let start = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for n in TRANSACTIONS..TRANSACTIONS * 2 {
        let client = client.clone();
        all.spawn(async move { client.transact(&update(n)).await.unwrap() });
    }
    all.join_all().await;
    start.elapsed()
}
