//! Messages and a stream between two pods, all the time, whatever becomes of the installation meanwhile.

use std::fmt;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use portolan_testbed::kubernetes::Kubernetes;
use portolan_testbed::{Command, Result};
use serde_json::Value;

use crate::pods;
use crate::primary::address;

/// Traffic from one pod to another and back: a message every ten milliseconds, and a stream with as much.
pub(crate) struct Traffic {
    client: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
    server: Child,
}

/// What became of the traffic of a time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// The longest time without an answer to a message, and without anything in the stream, in milliseconds.
    gap: u64,
    stream_gap: u64,
    /// The stream is the one that was begun with.
    pub(crate) stream_lasts: bool,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, lost, gap, stream_gap, stream_lasts } = self;
        let stream = if *stream_lasts { "lasts" } else { "has ended" };
        write!(
            f,
            "{lost} of {sent} messages lost, {gap} ms without answers; the stream {stream}, {stream_gap} ms without anything"
        )
    }
}

impl Traffic {
    /// Begins, and waits for the first answers.
    pub(crate) fn between(cluster: &Kubernetes, from: &str, to: &str) -> Result<Self> {
        let to_address = address(cluster, to)?;
        let (server, _, mut says) = started(in_pod(cluster, to)?.args(["-c", SERVER, &to_address]))?;
        assert_eq!(says.next().unwrap().unwrap(), "ready");
        let (client, orders, said) = started(in_pod(cluster, from)?.args(["-c", CLIENT, &to_address]))?;
        let mut traffic = Self { client, orders, said, server };
        traffic.of(10);
        Ok(traffic)
    }

    /// What becomes of it while something is done.
    pub(crate) fn during(&mut self, what: impl FnOnce() -> Result<()>) -> Result<Window> {
        self.order("begin");
        what()?;
        Ok(self.order("end"))
    }

    /// What becomes of so many messages.
    pub(crate) fn of(&mut self, messages: u64) -> Window {
        self.order("begin");
        self.order(&format!("wait {messages}"));
        self.order("end")
    }

    fn order(&mut self, order: &str) -> Window {
        writeln!(self.orders, "{order}").unwrap();
        let line = self.said.next().expect("the client goes on").unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = |name: &str| said[name].as_u64().unwrap_or_else(|| panic!("{name}: {line}"));
        Window {
            sent: number("sent"),
            lost: number("lost"),
            gap: number("gap"),
            stream_gap: number("stream_gap"),
            stream_lasts: said["stream"] == true,
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

type Started = (Child, ChildStdin, Lines<BufReader<ChildStdout>>);

fn started(command: Command) -> Result<Started> {
    let mut child = command.spawn_with(Stdio::piped(), Stdio::piped(), Stdio::inherit())?;
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    Ok((child, stdin, BufReader::new(stdout).lines()))
}

/// Python in the network of a pod, which has one container.
fn in_pod(cluster: &Kubernetes, pod: &str) -> Result<Command> {
    let container = cluster.kubectl(&["get", "pod", pod, "-o=jsonpath={.spec.containers[0].name}"])?;
    let (node, process) = pods::process(cluster, "default", pod, &container)?;
    Ok(node.command("nsenter")?.arg(format!("--net=/proc/{process}/ns/net")).arg("python3"))
}

const SERVER: &str = r#"
import socket, sys, threading
address = (sys.argv[1], 7000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(address)
tcp = socket.create_server(address)
def stream(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
def streams():
    while True:
        threading.Thread(target=stream, args=(tcp.accept()[0],), daemon=True).start()
threading.Thread(target=streams, daemon=True).start()
print('ready', flush=True)
while True:
    message, client = udp.recvfrom(64)
    try:
        udp.sendto(message, client)
    except OSError:
        pass
"#;

/// Answers each line of its input with a line. A time ends once a message that was sent after it has an answer, so that late ones count.
const CLIENT: &str = r#"
import json, socket, sys, threading, time
address = (sys.argv[1], 7000)
change = threading.Condition()
sent, answered, highest, begin, lasts = 0, set(), 0, 1, True
last, gap = {}, {}
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(address)
tcp = socket.create_connection(address)
def heard(kind):
    now = time.monotonic()
    gap[kind] = max(gap.get(kind, 0), now - last.get(kind, now))
    last[kind] = now
    change.notify_all()
def ask():
    global sent
    while True:
        with change:
            sent += 1
            number = sent
        try:
            udp.send(b'%d' % number)
        except OSError:
            pass
        time.sleep(0.01)
def answers():
    global highest
    while True:
        try:
            number = int(udp.recv(64))
        except OSError:
            continue
        with change:
            answered.add(number)
            highest = max(highest, number)
            heard('message')
def write():
    while lasts:
        try:
            tcp.sendall(b'.')
        except OSError:
            return
        time.sleep(0.01)
def read():
    global lasts
    try:
        while tcp.recv(4096):
            with change:
                heard('stream')
    except OSError:
        pass
    with change:
        lasts = False
        change.notify_all()
for part in (ask, answers, write, read):
    threading.Thread(target=part, daemon=True).start()
for line in sys.stdin:
    words = line.split()
    with change:
        end = sent
        if words[0] == 'wait':
            change.wait_for(lambda: sent >= begin + int(words[1]), 300)
        else:
            before = dict(last)
            change.wait_for(lambda: highest > end, 120)
            change.wait_for(lambda: not lasts or last.get('stream') != before.get('stream'), 120)
        lost = sum(1 for number in range(begin, end + 1) if number not in answered)
        print(json.dumps({'sent': end + 1 - begin, 'lost': lost, 'stream': lasts,
            'gap': int(gap.get('message', 0) * 1000), 'stream_gap': int(gap.get('stream', 0) * 1000)}), flush=True)
        if words[0] == 'begin':
            begin = sent + 1
            answered.clear()
            gap.clear()
"#;
