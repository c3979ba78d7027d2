//! The table of commands: one entry gives parsing and `--help`. Read by `main`; does nothing itself.

use bxcore::paths::HomeArgs;
use bxwire::{EditId, ItemId, SessionId};
use clap::{Args, Parser, Subcommand};

const EXITS: &str = "\
Exit codes: 0 done; 1 done, and something needs you; 2 wrong usage; 69 a daemon cannot be reached;
74 a file or the terminal cannot be used; 77 refused; 78 the configuration is wrong.

Start here: `bxctl up` runs everything and opens a chat. `bxctl runbook` explains every message.";

/// Boxmaker's command: run it, talk to it, see what it remembers and where that went.
#[derive(Debug, Parser)]
#[command(name = "bxctl", version, after_help = EXITS, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(flatten)]
    pub home: HomeArgs,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run all daemons in the foreground, and chat
    ///
    /// Without URLs this also runs the local stand-ins model-local and honcho-local, on free ports of this
    /// machine. Everything ends together: when you leave the chat, at Ctrl-C or SIGTERM, or when a part dies.
    /// Logs are in state/log/.
    ///
    /// Missing configuration files are written at the first run. In loopd.toml and memoryd.toml the url is kept
    /// up to date for as long as the first line says "# written by bxctl up"; take that line out and the file is
    /// yours: its url is used, and the stand-in is not started.
    Up(Up),
    /// Talk to the agent
    ///
    /// Replies are streamed; on a terminal there is line editing and history, otherwise each line of stdin is a
    /// message. Ctrl-C stops the running turn, twice leaves; Ctrl-D leaves. /help lists what else can be typed.
    Chat(Chat),
    /// Show each daemon, and what needs you
    ///
    /// What needs you comes first. Exit code 69 when a daemon is down, 1 when something needs you.
    Status(Json),
    /// What the agent remembers, and where it went
    #[command(subcommand)]
    Memory(Memory),
    /// Conversations and their labels
    #[command(subcommand)]
    Session(Session),
    /// Print the runbook, or one entry of it; needs no daemon
    ///
    /// Every warning and error names its entry, as in docs/runbook.md#honcho-unreachable.
    Runbook {
        /// The entry a message names, for example honcho-unreachable
        entry: Option<String>,
    },
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Use this OpenAI-compatible model server, for example http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub model_url: Option<String>,
    /// Use this Honcho; its keys go into memoryd.toml as [secrets.honcho_trusted] file = "…"
    #[arg(long, value_name = "URL")]
    pub honcho_url: Option<String>,
    /// Open no chat: run until Ctrl-C or SIGTERM
    #[arg(long)]
    pub no_chat: bool,
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// Go on with this session (see `bxctl session list`) instead of a new one
    #[arg(long, value_name = "ID")]
    pub session: Option<SessionId>,
    /// Send this one message, print the reply alone, and end; - reads it from stdin
    #[arg(long, value_name = "TEXT")]
    pub once: Option<String>,
    /// Mark what is sent as somebody else's words, not the owner's
    #[arg(long)]
    pub untrusted: bool,
    /// One event a line, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Json {
    /// One object a line, as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Memory {
    /// Show identity, notes, and files changed by hand
    Show(Json),
    /// List the newest edits
    Log {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        json: Json,
    },
    /// Take an edit back; shows what it will do and asks
    Undo {
        /// The edit, for example e12; without it the latest are offered
        edit: Option<EditId>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// List what was held back, and why
    ///
    /// Notes that are untrusted, flagged or may hold a key, turns that went to the untrusted workspace or nowhere, what
    /// was withdrawn or refused, and files changed by hand. Exit code 1 when there is anything.
    Review(Json),
    /// Make a note your own: clean and private, or clean and secret; shows it and asks
    ///
    /// It is an edit of yours that `undo` takes back. A secret session's note becomes clean, stays secret and stays on
    /// this machine. Turns are not promoted.
    Promote {
        /// The note as review shows it, for example n4, or the edit that wrote it
        #[arg(value_name = "NOTE|EDIT")]
        note: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Remove a session's texts, here and in Honcho; shows what goes and what stays, and asks
    ///
    /// Its turns and its notes go: from the log, memory, the index, and Honcho with all it concluded from them. What it
    /// made part of identity, or a fact about you, stays; `bxctl memory undo` takes that back. The session takes no
    /// more turns. This cannot be undone.
    Purge {
        /// The session, as `bxctl session list` shows it
        session: SessionId,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Take over what was changed in the Markdown files by hand; shows it and asks
    Accept {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Search memory as the agent does
    Recall {
        /// Words to look for
        #[arg(required = true)]
        query: Vec<String>,
        /// How many hits
        #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
        k: Option<u32>,
        #[command(flatten)]
        json: Json,
    },
    /// Ask Honcho what all that was said and noted adds up to
    ///
    /// It thinks for seconds or minutes. Without names it is asked about this agent's own trusted workspace.
    Ask {
        /// The question
        #[arg(required = true)]
        question: Vec<String>,
        /// Ask this workspace: own, untrusted, fleet, or an agent that memoryd.toml lets this one read
        #[arg(long = "in", value_name = "WORKSPACE")]
        workspaces: Vec<String>,
        /// Have it think longer
        #[arg(long)]
        low: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Show what went to Honcho and what did not yet
    ///
    /// A line for each workspace, then why anything waits, and each item that is undecided, failed or in doubt.
    /// Exit code 1 when there is such an item or something waits.
    Sync(Sync),
    /// Show how a turn or an edit was decided, and where it is in Honcho
    Why {
        /// A turn as SESSION/NUMBER, an edit as e7, an entry, note or fact as u1, n4, f3 or d6, or Honcho's id as a
        /// recall shows it, where the agent that wrote it runs
        item: Item,
        #[command(flatten)]
        json: Json,
    },
}

/// Arguments of `sync`.
#[derive(Debug, Args)]
pub struct Sync {
    /// Only what failed or is in doubt
    #[arg(long, conflicts_with_all = ["retry", "now", "watch"])]
    pub failed: bool,
    /// Try an item again that failed or is in doubt, or all of them
    #[arg(long, value_name = "ITEM|all", conflicts_with_all = ["now", "watch"])]
    pub retry: Option<Retry>,
    /// End every wait and try at once
    #[arg(long, conflicts_with = "watch")]
    pub now: bool,
    /// Keep showing it, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub json: Json,
}

/// What `--retry` names.
#[derive(Debug, Clone)]
pub enum Retry {
    All,
    Item(ItemId),
}

impl std::str::FromStr for Retry {
    type Err = bxwire::ParseIdError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            item => item.parse().map(Self::Item),
        }
    }
}

/// What `why` names.
#[derive(Debug, Clone)]
pub enum Item {
    Ours(ItemId),
    /// By Honcho's id, or an entry's or a note's.
    Found(String),
}

/// Shortest id of Honcho's; a mistyped edit or turn is none.
const HONCHO_ID_CHARS: usize = 21;

/// Whether a text looks like an id of memory's own: u1, a2, n7, f3, d6, c9, u1-2.
fn is_entry(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.strip_prefix(['u', 'a', 'n', 'f', 'd', 'c']);
    number.is_some_and(|number| match number.split_once('-') {
        Some((edit, place)) => digits(edit) && digits(place),
        None => digits(number),
    })
}

impl std::str::FromStr for Item {
    type Err = NotAnItem;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_:".contains(c);
        match text.parse() {
            Ok(item) => Ok(Self::Ours(item)),
            Err(_) if text.len() >= HONCHO_ID_CHARS && text.chars().all(plain) => {
                Ok(Self::Found(text.into()))
            }
            Err(_) if is_entry(text) => Ok(Self::Found(text.into())),
            Err(_) => Err(NotAnItem),
        }
    }
}

/// A text that names nothing that `why` could tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an item (a turn as SESSION/NUMBER, an edit as e7, an entry, note or fact as u1, n4, f3 or d6, or Honcho's id \
     as a recall shows it)"
)]
pub struct NotAnItem;

#[derive(Debug, Subcommand)]
pub enum Session {
    /// List the sessions, newest last
    List(Json),
    /// Show everything that was said and done in a session
    Show {
        /// The session's id
        session: SessionId,
        #[command(flatten)]
        json: Json,
    },
    /// Show a session's label and what raised it
    Label {
        /// The session's id
        session: SessionId,
        #[command(flatten)]
        json: Json,
    },
    /// Say yourself what becomes of turns that brokerd cannot vouch for
    ///
    /// Turns wait undecided when brokerd has lost what it knew of their session. No command can declare them
    /// trusted.
    Decide(Decide),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("fate").required(true))]
pub struct Decide {
    /// The session's id
    pub session: SessionId,
    /// Send them to the untrusted workspace
    #[arg(long, group = "fate")]
    pub untrusted: bool,
    /// Send them nowhere
    #[arg(long, group = "fate")]
    pub skip: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn home_may_stand_anywhere() {
        let parsed = Arguments::try_parse_from(["bxctl", "memory", "why", "e1", "--home", "/x"]);
        assert_eq!(
            parsed.unwrap().home.home.as_deref(),
            Some(std::path::Path::new("/x"))
        );
    }

    #[test]
    fn decide_names_both_of_its_ways() {
        let error = Arguments::try_parse_from(["bxctl", "session", "decide"]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("<--untrusted|--skip>"), "{said}");
        let both = [
            "bxctl",
            "session",
            "decide",
            "--skip",
            "--untrusted",
            "20260131-abcdefghij12",
        ];
        assert!(Arguments::try_parse_from(both).is_err());
    }
}
