//! ovn-controller.

use std::path::Path;

use crate::checks::answers;
use crate::daemon::{Control, Daemon, Stop};

/// ovn-controller of this node. `switch` is the run directory of Open vSwitch. It is stopped in a way that leaves its flows and its chassis
/// in place: the next one takes them over, and traffic goes on meanwhile.
pub fn ovn_controller(switch: &Path, run: &Path) -> Daemon {
    Daemon::new("ovn-controller", Control::InDirectory(run.into()))
        .args(["-vconsole:info", "-vsyslog:off", "-vfile:off"])
        .args([
            // It has no option for its control socket: the directory of this file decides.
            format!("--pidfile={}", run.join("ovn-controller.pid").display()),
            format!("unix:{}", switch.join("db.sock").display()),
        ])
        .env("OVN_RUNDIR", run)
        .env("OVS_RUNDIR", switch)
        .stop(Stop::Command("exit", &["--restart"]))
        .check("southbound", |control| answers(control, "connection-status", |said| said == "connected"))
}
