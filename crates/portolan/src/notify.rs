//! Telling a service manager that a part is ready, as sd_notify(3) describes.

use std::os::unix::net::UnixDatagram;

/// Says so to whoever asked to be told; nobody may have.
pub(crate) fn ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let told = UnixDatagram::unbound().and_then(|from| from.send_to(b"READY=1\n", &socket));
    if let Err(error) = told {
        tracing::warn!(%error, "cannot tell the service manager that this is ready");
    }
}
