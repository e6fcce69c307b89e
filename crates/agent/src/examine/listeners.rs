//! Who listens at ports, by `/proc`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context as _;

use super::facts::{Listener, Process, Protocol};

/// The state of a TCP socket that listens, and of a UDP socket that is not connected.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// A socket as `/proc/net` has it.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// Those who listen at the ports, in this process's network namespace.
pub(super) fn facts(ports: &[u16]) -> anyhow::Result<Vec<Listener>> {
    let mut sockets = Vec::new();
    for (file, protocol, state) in [
        ("tcp", Protocol::Tcp, LISTENS),
        ("tcp6", Protocol::Tcp, LISTENS),
        ("udp", Protocol::Udp, UNCONNECTED),
        ("udp6", Protocol::Udp, UNCONNECTED),
    ] {
        let path = format!("/proc/self/net/{file}");
        let text = match std::fs::read_to_string(&path) {
            // A kernel without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("read {path}"))?,
        };
        let of_interest = text.lines().skip(1).filter_map(|line| parse(line, state));
        sockets.extend(
            of_interest.filter(|socket| ports.contains(&socket.port)).map(|socket| (protocol, socket)),
        );
    }
    let owners = if sockets.is_empty() { BTreeMap::new() } else { owners(Path::new("/proc"))? };
    let mut listeners: Vec<_> = sockets
        .into_iter()
        .map(|(protocol, socket)| Listener {
            port: socket.port,
            protocol,
            address: socket.address,
            process: owners.get(&socket.inode).cloned(),
        })
        .collect();
    listeners.sort();
    listeners.dedup();
    Ok(listeners)
}

/// A line such as `0: 0100007F:1A0B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …`.
fn parse(line: &str, wanted_state: &str) -> Option<Socket> {
    let mut words = line.split_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    let (_, state) = (words.next()?, words.next()?);
    let inode = words.nth(5)?;
    (state == wanted_state).then_some(())?;
    Some(Socket {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// Words of 32 bits in the byte order of the machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// The processes that have sockets open, by the numbers of these. Of several the first.
fn owners(proc: &Path) -> anyhow::Result<BTreeMap<u64, Process>> {
    let mut owners = BTreeMap::new();
    let processes = std::fs::read_dir(proc).with_context(|| format!("list {}", proc.display()))?;
    let mut pids: Vec<u32> =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        let directory = proc.join(pid.to_string());
        // A process may end meanwhile.
        let Ok(files) = std::fs::read_dir(directory.join("fd")) else { continue };
        let sockets = files.flatten().filter_map(|file| {
            let target = std::fs::read_link(file.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
        });
        let sockets: Vec<u64> = sockets.collect();
        if sockets.is_empty() {
            continue;
        }
        let name = std::fs::read_to_string(directory.join("comm")).unwrap_or_default();
        for socket in sockets {
            owners.entry(socket).or_insert_with(|| Process { pid, name: name.trim().to_owned() });
        }
    }
    Ok(owners)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_read_and_others_are_not() {
        let line = "   0: 0100007F:1A0B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000";
        let socket = Socket { address: "127.0.0.1".parse().unwrap(), port: 6667, inode: 12345 };
        if cfg!(target_endian = "little") {
            assert_eq!(parse(line, LISTENS), Some(socket));
        }
        assert_eq!(parse(&line.replace(" 0A ", " 01 "), LISTENS), None, "connected");
        let v6 = "  1: 00000000000000000000000000000000:26F4 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1";
        assert_eq!(parse(v6, LISTENS).unwrap().port, 9972);
        for nonsense in ["", "0:", "0: x:y z 0A", "0: 01:0001 0:0 0A 0:0 00:0 0 0 0 1"] {
            assert_eq!(parse(nonsense, LISTENS), None, "{nonsense}");
        }
    }

    #[test]
    fn this_process_is_found_by_the_port_it_listens_at() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = facts(&[port]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].process.as_ref().unwrap().pid, std::process::id());
        assert_eq!(found[0].address, listener.local_addr().unwrap().ip());
        drop(listener);
        assert_eq!(facts(&[port]).unwrap(), []);
    }
}
