//! The names of the runbook's entries. Each is a heading of `docs/runbook.md`, and each heading is here
//! (a test); a name never changes.

/// One entry of the runbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Runbook(&'static str);

impl Runbook {
    /// The heading, as in `docs/runbook.md#honcho-unreachable`.
    #[must_use]
    pub fn anchor(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for Runbook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "docs/runbook.md#{}", self.0)
    }
}

macro_rules! entries {
    ($($name:ident = $anchor:literal;)*) => {
        $(pub const $name: Runbook = Runbook($anchor);)*
        /// Every entry.
        pub const ALL: &[Runbook] = &[$($name),*];
    };
}

entries! {
    // Starting and files.
    CONFIG_INVALID = "config-invalid";
    SECRET_UNAVAILABLE = "secret-unavailable";
    CERTIFICATES_UNREADABLE = "certificates-unreadable";
    STATE_LOCKED = "state-locked";
    STATE_UNUSABLE = "state-unusable";
    SOCKET_IN_USE = "socket-in-use";
    SOCKET_UNUSABLE = "socket-unusable";
    FILE_CORRUPT = "file-corrupt";
    FILE_NEWER = "file-newer";
    APPEND_FAILED = "append-failed";
    SYNC_FAILED = "sync-failed";
    DAEMON_PANICKED = "daemon-panicked";
    // Links.
    DAEMON_DOWN = "daemon-down";
    WIRE_VERSION_MISMATCH = "wire-version-mismatch";
    WIRE_REFUSED = "wire-refused";
    // Turns.
    MODEL_UNREACHABLE = "model-unreachable";
    MODEL_REFUSED = "model-refused";
    MODEL_UNUSABLE = "model-unusable";
    CONTEXT_FULL = "context-full";
    TOOLS_UNAVAILABLE = "tools-unavailable";
    MEMORY_UNAVAILABLE = "memory-unavailable";
    SESSION_UNKNOWN = "session-unknown";
    SESSION_BUSY = "session-busy";
    SESSION_PURGED = "session-purged";
    TURN_INTERRUPTED = "turn-interrupted";
    // Tools.
    ROOT_REFUSED = "root-refused";
    // Memory.
    MEMORY_WRITE_REFUSED = "memory-write-refused";
    HAND_EDIT_HELD = "hand-edit-held";
    UNDO_REFUSED = "undo-refused";
    ITEM_UNKNOWN = "item-unknown";
    INDEX_REBUILT = "index-rebuilt";
    // Honcho.
    HONCHO_CONFIG_INVALID = "honcho-config-invalid";
    HONCHO_UNREACHABLE = "honcho-unreachable";
    HONCHO_SEND_REFUSED = "honcho-send-refused";
    HONCHO_KEY_REFUSED = "honcho-key-refused";
    RECALL_SOURCE_UNAVAILABLE = "recall-source-unavailable";
    HONCHO_WORKSPACE_CONFIG = "honcho-workspace-config";
    HONCHO_IN_DOUBT = "honcho-in-doubt";
    HONCHO_ITEMS_GONE = "honcho-items-gone";
    HONCHO_NOTHING_DERIVED = "honcho-nothing-derived";
    BROKER_STATE_UNAVAILABLE = "broker-state-unavailable";
    SESSION_NOT_SEEN = "session-not-seen";
}
