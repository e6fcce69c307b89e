//! Shows what a command waits for, once that takes longer than a second: a spinner on a terminal, a line elsewhere.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter waits are not shown.
const SILENCE: Duration = Duration::from_secs(1);

/// A wait that is shown, until this is dropped.
pub(crate) struct Waiting {
    /// Dropped first, which ends the thread.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Begins to wait for `what`, such as `asking the API server`.
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let (over, is_over) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if is_over.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                let spinner = show(&what);
                // Ends with an error, as nothing is ever sent.
                let _ = is_over.recv();
                if let Some(spinner) = spinner {
                    spinner.finish_and_clear();
                }
            }
        });
        Self { over: Some(over), thread: Some(thread) }
    }
}

fn show(what: &str) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        eprintln!("{what} …");
        return None;
    }
    let spinner = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.set_message(what.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    Some(spinner)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
