//! The first frame each way, and the answer every link has. Used by `bxcore`'s client and server.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version of every message in this crate. The programs ship together, so both ends must be equal.
pub const PROTOCOL_VERSION: u32 = 1;

/// One link: its name on the wire and its two message types.
pub trait Link: 'static {
    /// The name both hellos carry.
    const NAME: &'static str;
    type Request: Serialize + DeserializeOwned + Send + 'static;
    type Reply: Serialize + DeserializeOwned + From<Refused> + Send + 'static;
    /// The refusal inside a reply, if it is one.
    fn refused(reply: &Self::Reply) -> Option<&Refused>;
}

/// The first frame each way. Unequal protocol or version counts as "down" (`wire-version-mismatch`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Hello {
    /// The link's name.
    pub protocol: String,
    pub version: u32,
    /// Build of the sender; shown to people, never compared.
    pub build: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Form {
    Hello {
        protocol: String,
        version: u32,
        build: String,
    },
}

impl From<Form> for Hello {
    fn from(
        Form::Hello {
            protocol,
            version,
            build,
        }: Form,
    ) -> Self {
        Self {
            protocol,
            version,
            build,
        }
    }
}

impl From<Hello> for Form {
    fn from(hello: Hello) -> Self {
        Self::Hello {
            protocol: hello.protocol,
            version: hello.version,
            build: hello.build,
        }
    }
}

impl Hello {
    /// This program's hello for a link.
    #[must_use]
    pub fn of<L: Link>() -> Self {
        Self {
            protocol: L::NAME.into(),
            version: PROTOCOL_VERSION,
            build: env!("CARGO_PKG_VERSION").into(),
        }
    }

    /// Whether the two ends may talk.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.version == other.version
    }
}

/// The answer to a request that was not carried out. Nothing of the request is repeated in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// A fixed word for programs: `bad-frame`, `too-long`, `busy`, `unknown-session`, …
    pub kind: String,
    /// What and why, for a person.
    pub message: String,
    /// The runbook entry, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
}

impl Refused {
    #[must_use]
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            runbook: None,
        }
    }

    #[must_use]
    pub fn with_runbook(mut self, anchor: &str) -> Self {
        self.runbook = Some(anchor.into());
        self
    }
}
