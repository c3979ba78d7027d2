//! A session: what loopd wrote down of it, and what is true of it besides.

use super::*;

/// One conversation.
pub struct Session {
    pub id: SessionId,
    /// loopd's log, durable.
    pub records: Vec<Record>,
    /// The turn that is running.
    pub open: Option<u64>,
    pub turns: u64,
    /// The join of everything that really came in.
    pub truth: Label,
    /// What brokerd released besides, and loopd was killed before it wrote it down.
    pub released: Label,
    /// Both, at the end of each turn.
    pub truth_at: BTreeMap<u64, (Label, Label)>,
    pub source: &'static str,
    /// The owner had its texts removed: it is over.
    pub purged: bool,
}

impl Session {
    /// Whether its log held a result of brokerd's when a turn ended.
    pub fn had_results(&self, turn: u64) -> bool {
        let until = self.records.iter().position(
            |record| matches!(record.body, Body::TurnEnd { turn: ended, .. } if ended == turn),
        );
        let records = &self.records[..until.unwrap_or(self.records.len())];
        let of_broker = |record: &Record| {
            matches!(
                record.body,
                Body::ToolResult {
                    from_broker: true,
                    ..
                }
            )
        };
        records.iter().any(of_broker)
    }

    pub fn new(n: u8, random: &mut Random) -> Self {
        let id = SessionId::new("20260131", [n; 12]).expect("a session id");
        Self::of(id, random.pick::<&str>(&["chat", "chat", "home:noisy"]))
    }

    pub fn of(id: SessionId, source: &'static str) -> Self {
        Self {
            records: vec![Record {
                seq: 1,
                at: Millis(1_000).to_string(),
                body: Body::Session {
                    session: id.clone(),
                    source: source.into(),
                    audience: Audience::Owner {},
                },
            }],
            id,
            open: None,
            turns: 0,
            truth: Label::default(),
            released: Label::default(),
            truth_at: BTreeMap::new(),
            source,
            purged: false,
        }
    }
}
