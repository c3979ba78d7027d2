//! Random bytes from the system, for ids and nonces.

/// `N` random bytes.
///
/// # Errors
/// When the system has none; the caller stops what it was doing.
pub fn bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| std::io::Error::other("the system has no random bytes"))?;
    Ok(bytes)
}
