//! What the process itself takes, under the names that every Prometheus client has for it.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The kernel counts CPU time for user space in hundredths of a second, on every architecture that Rust knows.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` whenever metrics are asked for.
#[derive(Debug)]
pub struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(seconds) = cpu_seconds(&stat) {
            let help = "User and system CPU time spent in seconds";
            let counter = ConstCounter::new(seconds);
            let metric =
                encoder.encode_descriptor("process_cpu_seconds", help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let open = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory size in bytes", resident_bytes(&status)),
            ("process_open_fds", "Number of open file descriptors", open),
            ("process_threads", "Number of threads", field(&status, "Threads:")),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

/// The first number after a name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn resident_bytes(status: &str) -> Option<u64> {
    field(status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

/// Both times of `/proc/self/stat`. The name before them is in parentheses, and may have spaces and parentheses in it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u32>().ok();
    Some((f64::from(next()?) + f64::from(next()?)) / TICKS_PER_SECOND)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_as_the_kernel_writes_them() {
        let status = "Name:\tportolan\nVmPeak:\t  90000 kB\nVmRSS:\t   31000 kB\nThreads:\t7\n";
        assert_eq!((resident_bytes(status), field(status, "Threads:")), (Some(31000 * 1024), Some(7)));
        let stat =
            "42 (a ) b) S 1 42 42 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 7 0 1000 1000000 7000 1844674";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(cpu_seconds(&own).is_some(), "{own}");
    }
}
