//! Tells whoever started the daemon that it is ready or stopping, in systemd's notify protocol. `bxctl up`
//! and the tests listen the same way.

use std::os::unix::net::UnixDatagram;

/// Sends a state such as `READY=1` to `$NOTIFY_SOCKET`; does nothing when nobody asked. A manager that does
/// not listen is no reason to stop.
///
/// # Source
/// `sd_notify(3)`.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        match path.to_string_lossy().strip_prefix('@') {
            Some(name) => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
                socket.send_to_addr(state.as_bytes(), &address)
            }
            None => socket.send_to(state.as_bytes(), &path),
        }
    });
    if let Err(error) = sent {
        tracing::debug!(%error, "the service manager does not listen");
    }
}
