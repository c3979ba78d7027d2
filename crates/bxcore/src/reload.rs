//! What came of the last SIGHUP: logged when it happens, and kept for status while the file that is there is not the
//! configuration that runs. Used by every daemon; reads nothing itself.

use std::sync::{Mutex, PoisonError};

use bxwire::links::control::Notice;

use crate::{
    clock::Millis,
    report::{self, Actionable},
    runbook,
};

/// Most characters that a notice says of the mistakes; the log has all of them.
const WHY_CHARS_MAX: usize = 1_000;

/// Whether the configuration that runs is the file's.
#[derive(Debug, Default)]
pub struct Reloads(Mutex<Option<Notice>>);

impl Reloads {
    /// A reload has ended. `Ok`: what the log says of it; an error: the old configuration stays.
    pub fn ended(&self, outcome: Result<&str, impl Actionable + 'static>) {
        let refused = outcome.as_ref().err().map(|error| Notice {
            text: format!(
                "the configuration that runs is older than the file, which was not taken over at {}: {}",
                Millis::now(),
                why(&report::line(error, None))
            ),
            runbook: Some(
                error
                    .runbook()
                    .unwrap_or(runbook::CONFIG_INVALID)
                    .anchor()
                    .into(),
            ),
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        match outcome {
            Ok(said) => tracing::info!("{said}"),
            Err(error) => {
                tracing::error!("kept the old configuration: {}", report::actionable(&error));
            }
        }
    }

    /// For status, until a reload is taken.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// On one line, and no longer than a notice bears.
fn why(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let line = lines.join("; ");
    match line.char_indices().nth(WHY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    #[test]
    fn a_wrong_file_is_a_notice_until_a_right_one_and_its_mistakes_are_bounded() {
        let reloads = Reloads::default();
        assert_eq!(reloads.notice(), None);
        let wrong: String = (0..5_000).map(|n| format!("k{n} = 1\n")).collect();
        let error = config::parse(Path::new("x.toml"), &wrong, |_| ()).unwrap_err();
        reloads.ended(Err(error));
        let notice = reloads.notice().expect("a notice");
        assert_eq!(notice.runbook.as_deref(), Some("config-invalid"));
        assert!(notice.text.contains("5000 mistakes"), "{}", notice.text);
        assert!(notice.text.contains("x.toml:1: `k0`"), "{}", notice.text);
        assert!(!notice.text.contains('\n') && notice.text.len() < 2 * WHY_CHARS_MAX);
        reloads.ended(Ok::<_, config::ConfigError>("read again"));
        assert_eq!(reloads.notice(), None);
    }
}
