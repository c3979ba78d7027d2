//! The tables, and nothing else. Applied by `Store::open` to a new file; a file of another version is
//! refused there.

/// Kept in the file as `user_version`.
pub const VERSION: i64 = 1;

/// Tables that a file of this version may not have yet; one that has them is read by older programs all the same.
/// A row of `unscrubbed` says that the file's bytes may hold what its rows no longer do.
pub const LATER: &str = "
CREATE TABLE IF NOT EXISTS summaries (
    session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE, content TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS unscrubbed (key INTEGER PRIMARY KEY);
";

/// `created_at` and `deleted_at` are microseconds since 1970; JSON is stored compact. The two FTS5
/// tables hold no text of their own. A message's text comes last, so that looking for metadata does not
/// have to read past it. `uid` is the id that Honcho's queue status shows for a session.
pub const TABLES: &str = "
CREATE TABLE workspaces (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, metadata TEXT NOT NULL,
    configuration TEXT NOT NULL, created_at INTEGER NOT NULL, deleted_at INTEGER
);
CREATE TABLE peers (
    key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    id TEXT NOT NULL, metadata TEXT NOT NULL, configuration TEXT NOT NULL,
    created_at INTEGER NOT NULL, UNIQUE (workspace, id)
);
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    id TEXT NOT NULL, uid TEXT NOT NULL, metadata TEXT NOT NULL, configuration TEXT NOT NULL,
    created_at INTEGER NOT NULL, deleted_at INTEGER, UNIQUE (workspace, id)
);
CREATE TABLE members (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    peer INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    observe_me INTEGER, observe_others INTEGER, gone INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, peer)
) WITHOUT ROWID;
CREATE TABLE messages (
    key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    peer INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    metadata TEXT NOT NULL, configuration TEXT NOT NULL, created_at INTEGER NOT NULL,
    tokens INTEGER NOT NULL, content TEXT NOT NULL
);
CREATE INDEX messages_by_session ON messages (session, key);
CREATE INDEX messages_by_peer ON messages (peer, key);
CREATE TABLE conclusions (
    key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    workspace INTEGER NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    observer INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    observed INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    content TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE INDEX conclusions_by_pair ON conclusions (workspace, observer, observed, key);
CREATE INDEX conclusions_by_session ON conclusions (session);
CREATE INDEX conclusions_by_observer ON conclusions (observer);
CREATE INDEX conclusions_by_observed ON conclusions (observed);
CREATE TABLE cards (
    observer INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    observed INTEGER NOT NULL REFERENCES peers ON DELETE CASCADE,
    card TEXT NOT NULL, PRIMARY KEY (observer, observed)
) WITHOUT ROWID;
CREATE TABLE scopes (
    key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    id TEXT NOT NULL, metadata TEXT NOT NULL, created_at INTEGER NOT NULL, UNIQUE (workspace, id)
);
CREATE TABLE scope_sessions (
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    backfilled_at INTEGER, PRIMARY KEY (scope, session)
) WITHOUT ROWID;
CREATE INDEX sessions_deleted ON sessions (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX workspaces_deleted ON workspaces (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE VIRTUAL TABLE messages_fts USING fts5 (
    content, content = 'messages', content_rowid = 'key', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE conclusions_fts USING fts5 (
    content, content = 'conclusions', content_rowid = 'key', tokenize = 'porter unicode61'
);
CREATE TRIGGER messages_in AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts (rowid, content) VALUES (new.key, new.content);
END;
CREATE TRIGGER messages_out AFTER DELETE ON messages BEGIN
    INSERT INTO messages_fts (messages_fts, rowid, content) VALUES ('delete', old.key, old.content);
END;
CREATE TRIGGER conclusions_in AFTER INSERT ON conclusions BEGIN
    INSERT INTO conclusions_fts (rowid, content) VALUES (new.key, new.content);
END;
CREATE TRIGGER conclusions_out AFTER DELETE ON conclusions BEGIN
    INSERT INTO conclusions_fts (conclusions_fts, rowid, content) VALUES ('delete', old.key, old.content);
END;
";
