//! The log, on standard error.

use std::io::IsTerminal as _;
use std::sync::Arc;

use portolan_controller::{Log, LogFilter};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;

/// Starts to log; answers a handle by which the filter can be changed later.
pub(crate) fn start(filter: EnvFilter) -> Log {
    // Colours are for people: a log file has none.
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_env_filter(filter)
        .with_filter_reloading();
    let handle = log.reload_handle();
    log.init();
    Log(Arc::new(Reloaded(handle)))
}

struct Reloaded<S>(Handle<EnvFilter, S>);

impl<S> LogFilter for Reloaded<S> {
    fn current(&self) -> String {
        self.0.with_current(ToString::to_string).unwrap_or_default()
    }

    fn set(&self, filter: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}
