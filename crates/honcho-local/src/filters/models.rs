//! Which columns each kind of row may be filtered by. Tables only.

/// What kind of thing a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Time,
    Flag,
    Metadata,
    List,
}

/// The columns that one kind of row may be filtered by; several names may mean one column.
pub struct Model {
    pub name: &'static str,
    pub columns: &'static [(&'static str, &'static str, Kind)],
}

pub const WORKSPACE: Model = Model {
    name: "Workspace",
    columns: &[
        ("id", "id", Kind::Text),
        ("metadata", "metadata", Kind::Metadata),
        ("created_at", "created_at", Kind::Time),
    ],
};
pub const PEER: Model = Model {
    name: "Peer",
    columns: &[
        ("id", "id", Kind::Text),
        ("workspace_id", "workspace_id", Kind::Text),
        ("metadata", "metadata", Kind::Metadata),
        ("created_at", "created_at", Kind::Time),
    ],
};
pub const SESSION: Model = Model {
    name: "Session",
    columns: &[
        ("id", "id", Kind::Text),
        ("workspace_id", "workspace_id", Kind::Text),
        ("is_active", "is_active", Kind::Flag),
        ("metadata", "metadata", Kind::Metadata),
        ("created_at", "created_at", Kind::Time),
    ],
};
pub const MESSAGE: Model = Model {
    name: "Message",
    columns: &[
        ("peer_id", "peer_id", Kind::Text),
        ("session_id", "session_id", Kind::Text),
        ("workspace_id", "workspace_id", Kind::Text),
        ("created_at", "created_at", Kind::Time),
        ("token_count", "token_count", Kind::Number),
        ("metadata", "metadata", Kind::Metadata),
    ],
};
pub const CONCLUSION: Model = Model {
    name: "Document",
    columns: &[
        ("id", "id", Kind::Text),
        ("content", "content", Kind::Text),
        ("observer_id", "observer_id", Kind::Text),
        ("observer", "observer_id", Kind::Text),
        ("observed_id", "observed_id", Kind::Text),
        ("observed", "observed_id", Kind::Text),
        ("session_id", "session_id", Kind::Text),
        ("workspace_id", "workspace_id", Kind::Text),
        ("level", "level", Kind::Text),
        ("created_at", "created_at", Kind::Time),
        ("times_derived", "times_derived", Kind::Number),
        ("source_ids", "source_ids", Kind::List),
        ("metadata", "metadata", Kind::Metadata),
    ],
};
