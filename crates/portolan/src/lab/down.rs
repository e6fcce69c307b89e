//! `portolan lab down`: ends a lab, dead or alive, and leaves nothing of it.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::place::{Labs, Place};
use super::protocol::{self, Request};
use crate::output;
use crate::waiting::Waiting;

/// How long a lab may take to end when it is asked to; then it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn down(labs: &Labs, name: Option<&str>) -> anyhow::Result<()> {
    let place = labs.find(name)?;
    let waiting = Waiting::start(format!("ending lab {:?}", place.name()));
    if place.is_alive() {
        end(&place)?;
    }
    // It has removed everything by itself, unless it was killed.
    match place.take()? {
        Some(lock) => place.remove(&lock)?,
        None => bail!("lab {:?} is being raised or ended by someone else just now", place.name()),
    }
    drop(waiting);
    output::print(&format!("Lab {:?} is gone.\n", place.name()))
}

fn end(place: &Place) -> anyhow::Result<()> {
    let Some(process) = place.state().and_then(|state| watch(state.pid)) else { return Ok(()) };
    let asked = protocol::ask::<()>(&place.control_socket(), place.name(), &Request::Down);
    if asked.is_err() {
        // It is not up yet, or does not answer: a signal does the same.
        let _ = pidfd_send_signal(&process, Signal::TERM);
    }
    if !has_ended(&process, PATIENCE)? {
        eprintln!("lab {:?} does not end when asked to; it is killed", place.name());
        let _ = pidfd_send_signal(&process, Signal::KILL);
        has_ended(&process, PATIENCE)?;
    }
    Ok(())
}

fn watch(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

fn has_ended(process: &OwnedFd, within: Duration) -> anyhow::Result<bool> {
    let within = Timespec::try_from(within)?;
    let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&within));
    Ok(ready.context("cannot wait for the lab's end")? == 1)
}
