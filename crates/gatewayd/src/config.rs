//! `gatewayd.toml`. Called by `run`; knows only the bounds of the control socket, so that a chat server
//! somebody writes down is an error and never silently ignored.

use std::path::Path;

use bxcore::{
    config::{self, ConfigError},
    listen::Limits,
};

/// What the file says.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub limits: Limits,
}

/// Reads the file; one that is not there reads as an empty one.
///
/// # Errors
/// [`ConfigError`], with every mistake; the daemon does not start.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    config::load(path, |root| Config {
        limits: root
            .section("limits")
            .map_or_else(Limits::default, |mut limits| Limits::of(&mut limits)),
    })
}
