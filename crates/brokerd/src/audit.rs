//! The lines of `broker/audit.jsonl`: one a tool call, after its label is durable and before its result
//! leaves. Holds sizes and names, never arguments or results.

use bxcore::append::BadLine;
use bxwire::{CallId, Label, SessionId, Speaker, links::tools::CallOutcome};
use serde::{Deserialize, Serialize};

/// Members with `default` came later, or may be missing; every line ever written stays readable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    Call {
        /// When the call came: RFC 3339.
        at: String,
        session: SessionId,
        turn: u64,
        call: CallId,
        /// The tool's name, or `unknown`: a name that the model made up is its text.
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Speaker>,
        arguments_bytes: u64,
        result_bytes: u64,
        outcome: CallOutcome,
        /// The session's label before the call, loopd's own joined in.
        before: Label,
        after: Label,
        took_ms: u64,
    },
}

/// Checks a line at start.
///
/// # Errors
/// [`BadLine`].
pub fn read_line(line: &str) -> Result<Line, BadLine> {
    crate::labels::read_typed(line, &["call"])
}
