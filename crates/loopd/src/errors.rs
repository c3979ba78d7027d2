//! What a model server's refusal asks for: wait, try again, repair, or say so. Called by `model`; takes
//! values only. The server's words steer the choice and are shown to nobody: they quote the request.

use serde_json::Value;

/// An error object in any of the shapes servers use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerError {
    pub status: Option<u16>,
    kind: String,
    message: String,
}

impl std::fmt::Debug for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerError({:?})", self.status)
    }
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// The model is being loaded: wait, then send again.
    Load,
    /// Busy or limited: send again later.
    Wait,
    /// Send again, at most this often.
    Retry { times: u32 },
    /// The key is wrong, or the account may not.
    Refused,
    /// Wrong address or unknown model.
    NotFound,
    /// The prompt does not fit.
    ContextFull,
    /// Write the history in its plainest form and send once more.
    Repair,
    /// Send without tools.
    WithoutTools,
    /// Say so; the same bytes would fail the same way.
    Report,
}

impl ServerError {
    /// The error in an answer or an event, if there is one.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let error = &object["error"];
        match error {
            Value::Object(_) => Some(Self::read(error)),
            Value::String(message) => Some(Self {
                message: message.clone(),
                ..Self::default()
            }),
            _ if object["object"] == "error" => Some(Self::read(object)),
            _ => None,
        }
    }

    fn read(error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        Self {
            status: error["code"]
                .as_u64()
                .and_then(|code| u16::try_from(code).ok())
                .filter(|code| (400..600).contains(code)),
            kind: text("type"),
            message: text("message"),
        }
    }

    /// The error of an answer with a status that is not 200.
    #[must_use]
    pub fn answered(status: u16, body: &[u8]) -> Self {
        let mut error = serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|object| Self::of(&object))
            .unwrap_or_default();
        error.status = Some(status);
        error
    }

    /// What to do.
    ///
    /// # Source
    /// Refusals recorded from llama-server, and the documented ones of other servers: `fixtures/`.
    #[must_use]
    pub fn reaction(&self) -> Reaction {
        let status = self.status.unwrap_or(500);
        let message = self.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if self.kind == "exceed_context_size_error"
            || says(&[
                "maximum context length",
                "context_length_exceeded",
                "context size has been exceeded",
            ])
        {
            return Reaction::ContextFull;
        }
        if says(&[
            "does not support tools",
            "--jinja flag",
            "tool choice is not enabled",
            "support tool use",
        ]) {
            return Reaction::WithoutTools;
        }
        let schema = says(&["json schema error", "failed to parse tools"]);
        let template = !schema
            && says(&[
                "jinja exception",
                "unable to generate parser for this template",
                "failed to parse tool call arguments",
                "invalid tool call arguments",
                "failed to parse messages",
            ]);
        match status {
            400 | 500 if template => Reaction::Repair,
            401..=403 => Reaction::Refused,
            404 => Reaction::NotFound,
            408 | 502 | 504 => Reaction::Retry { times: 2 },
            429 => Reaction::Wait,
            503 if says(&["loading model"]) => Reaction::Load,
            503 => Reaction::Wait,
            500 if says(&[
                "failed to parse",
                "cannot continue",
                "cannot have 2",
                "input is not supported",
            ]) =>
            {
                Reaction::Report
            }
            500.. => Reaction::Retry { times: 1 },
            _ => Reaction::Report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(name: &str) -> ServerError {
        let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let Some((head, body)) = text.split_once("\n\n") else {
            return ServerError::answered(400, text.as_bytes());
        };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        ServerError::answered(status, body.as_bytes())
    }

    #[test]
    fn each_recorded_refusal_has_its_reaction() {
        for (name, want) in [
            ("err-auth-missing.response.http", Reaction::Refused),
            ("err-auth-wrong.response.http", Reaction::Refused),
            ("err-loading-chat.response.http", Reaction::Load),
            ("err-loading-health.response.http", Reaction::Load),
            ("err-context.response.http", Reaction::ContextFull),
            ("err-context-stream.response.http", Reaction::ContextFull),
            ("err-bad-json.response.http", Reaction::Report),
            ("err-max-tokens-string.response.http", Reaction::Report),
            ("err-no-messages.response.http", Reaction::Report),
            ("err-tool-schema-bad-type.response.http", Reaction::Report),
            ("err-tool-without-name.response.http", Reaction::Report),
            ("err-roles-must-alternate.response.http", Reaction::Repair),
            (
                "err-roles-user-after-tool-result.response.http",
                Reaction::Repair,
            ),
            ("err-system-in-the-middle.response.http", Reaction::Repair),
            ("err-no-user-message.response.http", Reaction::Repair),
            ("err-tool-id-format.response.http", Reaction::Repair),
            ("err-history-args-cut.response.http", Reaction::Repair),
            ("err-history-args-empty.response.http", Reaction::Repair),
            ("err-tools-need-jinja.response.http", Reaction::WithoutTools),
            (
                "err-last-message-is-tool-call.response.http",
                Reaction::Report,
            ),
            ("err-two-assistants-at-end.response.http", Reaction::Report),
            ("err-image-to-text-model.response.http", Reaction::Report),
            ("router-err-unknown-model.response.http", Reaction::Report),
            ("unknown-route.response.http", Reaction::NotFound),
            ("constructed/vllm-error-context.json", Reaction::ContextFull),
            ("constructed/vllm-error-flat.json", Reaction::WithoutTools),
        ] {
            assert_eq!(answered(name).reaction(), want, "{name}");
        }
    }

    #[test]
    fn what_is_no_json_goes_by_its_status() {
        for (status, want) in [
            (429, Reaction::Wait),
            (502, Reaction::Retry { times: 2 }),
            (500, Reaction::Retry { times: 1 }),
            (302, Reaction::Report),
            (418, Reaction::Report),
        ] {
            let error = ServerError::answered(status, b"<html>canary</html>");
            assert_eq!(error.reaction(), want, "{status}");
            assert!(!format!("{error:?}").contains("canary"));
        }
    }
}
