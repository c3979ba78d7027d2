//! What a whole reply asks for: to be shown, tools to be run, another try, or an end. Called by `turn` after
//! each model call; takes values only, and never runs anything.

use std::collections::BTreeMap;

use bxwire::{CallId, log::Call};
use serde_json::Value;

use crate::{
    stream::{Assembled, Finish, RawCall},
    textcall, think,
};

/// How often a model is told of a wrong call in one turn.
pub const WRONG_CALLS_TOLD_MAX: u32 = 2;
/// Longest arguments of one call in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;
/// A call that gave the same result this often is not run again.
const SAME_RESULTS_MAX: u32 = 2;

/// What to do about a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The turn's reply.
    Final,
    /// Calls to answer, in order.
    Calls(Vec<(Call, Task)>),
    /// Nothing usable: asking once more will say what was wrong.
    Again,
    /// The turn fails, for this reason.
    Fail(&'static str),
}

/// How a call is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    Run(Value),
    /// With these words, without running it.
    Tell(String),
}

/// A reply with its thinking taken out.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub text: String,
    pub reasoning: Option<String>,
    pub verdict: Verdict,
    /// The text held thinking that nothing opened: hold later replies back.
    pub hidden_thinking: bool,
}

/// What one turn's replies have used up.
#[derive(Debug, Default)]
pub struct Tally {
    wrong_calls: u32,
    empty: u32,
    text_calls: u32,
    cut_calls: u32,
    seen: BTreeMap<(String, String), Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    result: String,
    times: u32,
    told: bool,
}

impl Tally {
    /// Judges a reply. `tools` are the names on offer, `new_id` gives ids for calls.
    pub fn judge(
        &mut self,
        reply: Assembled,
        tools: &[String],
        max_tokens: u64,
        mut new_id: impl FnMut() -> CallId,
    ) -> Reply {
        let (inline, mut text) = think::split(&reply.text);
        let hidden_thinking = !inline.is_empty() && !reply.text.trim_start().starts_with('<');
        let reasoning = [reply.reasoning.as_str(), inline.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        let cut = reply.finish == Finish::Length
            || reply
                .usage
                .is_some_and(|usage| usage.completion_tokens >= max_tokens);
        let mut calls = reply.calls;
        let truncated = reply.finish == Finish::Length;
        if calls.is_empty() && !truncated {
            // Run only what is on offer; anything else is told once.
            calls.extend(textcall::whole(&text).filter(|call| tools.contains(&call.tool)));
        }
        let verdict = if !calls.is_empty() {
            self.calls(calls, tools, truncated, cut, &mut new_id)
        } else if text.trim().is_empty() {
            text.clear();
            self.empty()
        } else if (textcall::has_marker(&text) || textcall::whole(&text).is_some())
            && self.text_calls == 0
        {
            self.text_calls += 1;
            Verdict::Again
        } else {
            text = without_made_up_results(&text);
            if text.trim().is_empty() {
                text.clear();
                self.empty()
            } else {
                if truncated {
                    text.push_str("\n\n[The reply was cut here: it reached its length limit.]");
                }
                Verdict::Final
            }
        };
        Reply {
            text,
            reasoning: Some(reasoning).filter(|reasoning| !reasoning.is_empty()),
            verdict,
            hidden_thinking,
        }
    }

    /// Notes what a call gave; brokerd may have found its arguments wrong.
    ///
    /// # Errors
    /// Why the turn fails.
    pub fn answered(&mut self, call: &Call, result: &str, wrong: bool) -> Result<(), &'static str> {
        let seen = self.seen.entry(key(call)).or_default();
        let result = without_fences(result);
        if seen.result == result {
            seen.times += 1;
        } else {
            seen.result = result;
            seen.times = 1;
        }
        if wrong {
            self.wrong_calls += 1;
            if self.wrong_calls > WRONG_CALLS_TOLD_MAX {
                return Err("the model kept calling tools wrongly");
            }
        }
        Ok(())
    }

    fn calls(
        &mut self,
        calls: Vec<RawCall>,
        tools: &[String],
        truncated: bool,
        cut: bool,
        new_id: &mut impl FnMut() -> CallId,
    ) -> Verdict {
        let broken = |call: &RawCall| parse(&call.arguments).is_none();
        if truncated || (cut && calls.iter().any(broken)) {
            self.cut_calls += 1;
            if self.cut_calls > 1 {
                return Verdict::Fail("the model's tool calls did not fit its length limit");
            }
            let words =
                "Not run: your reply was cut at its length limit. Make one smaller call at a time.";
            return Verdict::Calls(
                calls
                    .into_iter()
                    .map(|raw| (named(raw, new_id()), Task::Tell(words.into())))
                    .collect(),
            );
        }
        let mut judged = Vec::new();
        let mut wrong = false;
        for raw in calls {
            let arguments = parse(&raw.arguments);
            let call = named(raw, new_id());
            let task = match arguments {
                _ if !tools.contains(&call.tool) => {
                    wrong = true;
                    Task::Tell(format!("There is no tool of that name. The tools are: {}.", tools.join(", ")))
                }
                None => {
                    wrong = true;
                    Task::Tell("Not run: the arguments are not one JSON object (or are too long). Call again with valid arguments.".into())
                }
                Some(arguments) => match self.repeated(&call) {
                    Repeated::No => Task::Run(arguments),
                    Repeated::Told => {
                        Task::Tell("Not run: this same call gave this same result before. Use that result, or do something else.".into())
                    }
                    Repeated::Again => return Verdict::Fail("the model repeated one tool call without end"),
                },
            };
            judged.push((call, task));
        }
        if wrong {
            self.wrong_calls += 1;
            if self.wrong_calls > WRONG_CALLS_TOLD_MAX {
                return Verdict::Fail("the model kept calling tools wrongly");
            }
        }
        Verdict::Calls(judged)
    }

    fn repeated(&mut self, call: &Call) -> Repeated {
        match self.seen.get_mut(&key(call)) {
            Some(seen) if seen.told => Repeated::Again,
            Some(seen) if seen.times >= SAME_RESULTS_MAX => {
                seen.told = true;
                Repeated::Told
            }
            _ => Repeated::No,
        }
    }

    fn empty(&mut self) -> Verdict {
        self.empty += 1;
        if self.empty > 1 {
            return Verdict::Fail("the model gave no reply");
        }
        Verdict::Again
    }
}

enum Repeated {
    No,
    Told,
    Again,
}

fn named(raw: RawCall, id: CallId) -> Call {
    Call {
        id,
        tool: raw.tool,
        arguments: raw.arguments,
    }
}

fn parse(arguments: &str) -> Option<Value> {
    if arguments.len() > ARGUMENTS_BYTES_MAX {
        return None;
    }
    serde_json::from_str::<Value>(arguments)
        .ok()
        .filter(Value::is_object)
}

fn key(call: &Call) -> (String, String) {
    let canonical =
        parse(&call.arguments).map_or_else(|| call.arguments.clone(), |value| value.to_string());
    (call.tool.clone(), canonical)
}

/// A fence's line carries a number of its own each time.
fn without_fences(result: &str) -> String {
    result
        .lines()
        .filter(|line| !line.starts_with('⟦'))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Only a tool gives results; a model that writes one itself is not believed.
fn without_made_up_results(text: &str) -> String {
    const OPEN: &str = "<tool_response>";
    const CLOSE: &str = "</tool_response>";
    let (mut kept, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(OPEN) {
        kept.push_str(&rest[..at]);
        rest = rest[at..]
            .find(CLOSE)
            .map_or("", |end| &rest[at + end + CLOSE.len()..]);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
