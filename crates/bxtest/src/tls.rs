//! A server with TLS in front of one without, on the loopback, with a certificate from a root of the tests' own
//! (`certificates/make.sh`). Passes bytes on and reads none.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustls::{
    ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The root that the server's certificate is from.
pub const ROOT: &str = "root.pem";
/// One that it is not from.
pub const STRANGER: &str = "stranger.pem";

/// The path of a certificate.
#[must_use]
pub fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("certificates")
        .join(name)
}

/// Serves as long as the test runs; gives the address with `https`.
///
/// # Panics
/// When it cannot.
#[must_use]
pub fn before(plain: SocketAddr) -> String {
    let read = CertificateDer::from_pem_file(certificate("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_no_client_auth()
                .with_single_cert(vec![read], key)
        });
    let config = Arc::new(config.expect("a server's configuration"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || pass(&client, plain, config));
        }
    });
    format!("https://{address}")
}

/// Passes bytes on both ways until one side ends. What goes wrong ends the connection.
fn pass(client: &TcpStream, plain: SocketAddr, config: Arc<ServerConfig>) -> io::Result<()> {
    let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut &*client)?;
    }
    let server = TcpStream::connect(plain)?;
    let connection = Mutex::new(connection);
    let locked = || connection.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 16 * 1024];
            while let Ok(read @ 1..) = (&server).read(&mut buffer) {
                let mut connection = locked();
                let sent = connection.writer().write_all(&buffer[..read]);
                if sent.is_err() || flush(&mut connection, client).is_err() {
                    break;
                }
            }
            locked().send_close_notify();
            let _ = flush(&mut locked(), client);
            let _ = client.shutdown(Shutdown::Both);
        });
        let outcome = take_in(client, &server, &locked);
        let _ = server.shutdown(Shutdown::Both);
        outcome
    })
}

/// What the client sends, until it ends. The lock is not held while nothing comes.
fn take_in<'a>(
    client: &TcpStream,
    server: &TcpStream,
    locked: &impl Fn() -> std::sync::MutexGuard<'a, ServerConnection>,
) -> io::Result<()> {
    let mut sealed = [0; 16 * 1024];
    let mut open = Vec::new();
    // What came with the handshake's last bytes is there already.
    let mut came = 0;
    loop {
        let mut rest = &sealed[..came];
        loop {
            let mut connection = locked();
            if !rest.is_empty() {
                connection.read_tls(&mut rest)?;
            }
            let state = connection.process_new_packets().map_err(io::Error::other)?;
            open.resize(state.plaintext_bytes_to_read(), 0);
            if !open.is_empty() {
                connection.reader().read_exact(&mut open)?;
            }
            flush(&mut connection, client)?;
            drop(connection);
            (&mut &*server).write_all(&open)?;
            if rest.is_empty() {
                break;
            }
        }
        came = (&mut &*client).read(&mut sealed)?;
        if came == 0 {
            return Ok(());
        }
    }
}

fn flush(connection: &mut ServerConnection, client: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut &*client)?;
    }
    Ok(())
}
