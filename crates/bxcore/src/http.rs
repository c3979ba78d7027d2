//! What every call over HTTP has in common: the roots of certificates that this system trusts, no redirect, no proxy of
//! the environment's, a connection of its own. Used by whoever makes a client; calls nothing itself.

use std::sync::{Arc, OnceLock};

use ureq::{
    Agent,
    config::ConfigBuilder,
    tls::{Certificate, RootCerts, TlsConfig},
    typestate::AgentScope,
};

use crate::runbook::{self, Runbook};

/// Read once, when the first address with TLS is configured: they are some hundred certificates.
static ROOTS: OnceLock<RootCerts> = OnceLock::new();

/// There is nothing to check a server's certificate against.
#[derive(Debug, thiserror::Error)]
#[error("no root certificate can be read, so nothing can be called over TLS: {0}")]
pub struct NoRoots(String);

impl NoRoots {
    /// The runbook's entry.
    pub const RUNBOOK: Runbook = runbook::CERTIFICATES_UNREADABLE;
}

/// Makes sure that an address can be called: where it is one with TLS, reads the system's roots, or those that
/// SSL_CERT_FILE and SSL_CERT_DIR name. A daemon does this before it is ready; without it, [`config`] does.
///
/// # Errors
/// [`NoRoots`]; nothing is kept then, and the next call reads again.
pub fn ready(url: &str) -> Result<(), NoRoots> {
    if url.starts_with("https://") && ROOTS.get().is_none() {
        let roots = read()?;
        // Somebody else's are the same ones.
        let _ = ROOTS.set(roots);
    }
    Ok(())
}

/// The beginning of every client's configuration. Where no root can be read, its calls over TLS fail: no certificate
/// is good enough.
#[must_use]
pub fn config(url: &str) -> ConfigBuilder<AgentScope> {
    let roots = ready(url).ok().and_then(|()| ROOTS.get().cloned());
    let roots = roots.unwrap_or_else(|| RootCerts::Specific(Arc::default()));
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_idle_connections(0)
        // Without this a proxy of the environment's would be handed the key.
        .proxy(None)
        .tls_config(TlsConfig::builder().root_certs(roots).build())
}

fn read() -> Result<RootCerts, NoRoots> {
    // Whatever the environment says, and from the same places as roncho.
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first();
        return Err(NoRoots(why.map_or_else(
            || "the system has none; SSL_CERT_FILE names others".into(),
            ToString::to_string,
        )));
    }
    for error in &found.errors {
        tracing::warn!("some root certificates cannot be read: {error}");
    }
    // Another call may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned());
    Ok(RootCerts::Specific(Arc::new(certificates.collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_no_root_is_read_and_none_is_trusted() {
        ready("http://127.0.0.1:1").unwrap();
        let config = config("http://127.0.0.1:1").build();
        let trusted = config.tls_config().root_certs();
        assert!(matches!(trusted, RootCerts::Specific(roots) if roots.is_empty()));
        assert!(ROOTS.get().is_none());
    }
}
