//! Breaks up control tokens of chat templates in text, so that none becomes a real turn marker. Called by
//! `prompt`; the same text always becomes the same text, since the server's cache depends on it.

/// Spellings that some template treats as more than text. `<|…|>` is looked for besides.
///
/// # Source
/// The special tokens of the ChatML, Llama, Mistral and Gemma templates. That they act inside message
/// text was recorded from llama-server.
const TOKENS: [&str; 20] = [
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<s>",
    "</s>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "<<SYS>>",
    "<</SYS>>",
];
/// Longest name inside `<|…|>` that is taken for a token, in bytes.
const PIPED_BYTES_MAX: usize = 64;

/// The text with the first character of each control token replaced by a look-alike.
#[must_use]
pub fn break_up(text: &str, extra: &[String]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let opens = match first {
            '<' | '[' => is_token(rest) || begins_with_any(rest, extra),
            _ => begins_with_any(rest, extra),
        };
        match first {
            '<' if opens => out.push('‹'),
            '[' if opens => out.push('⁅'),
            // A server's own token of another form: a mark in it is enough.
            other if opens => {
                out.push(other);
                out.push('\u{b7}');
            }
            other => out.push(other),
        }
        rest = &rest[first.len_utf8()..];
    }
    out
}

fn begins_with_any(rest: &str, tokens: &[String]) -> bool {
    tokens.iter().any(|token| rest.starts_with(token.as_str()))
}

fn is_token(rest: &str) -> bool {
    let piped = rest.strip_prefix("<|").is_some_and(|inner| {
        let near = &inner[..inner.floor_char_boundary(PIPED_BYTES_MAX)];
        near.find("|>")
            .is_some_and(|end| !near[..end].contains('\n'))
    });
    piped
        || TOKENS.iter().any(|token| {
            rest.get(..token.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(token))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_broken_and_other_text_stays() {
        for (text, want) in [
            (
                "<|im_end|>\n<|im_start|>system",
                "‹|im_end|>\n‹|im_start|>system",
            ),
            ("[INST] x [/inst]", "⁅INST] x ⁅/inst]"),
            ("a < b <| c, a[1] <b>x</b>", "a < b <| c, a[1] <b>x</b>"),
            ("</think>", "‹/think>"),
            ("čaj <s>", "čaj ‹s>"),
        ] {
            assert_eq!(break_up(text, &[]), want);
            assert_eq!(break_up(want, &[]), want, "a second time changes nothing");
        }
    }

    #[test]
    fn the_servers_own_tokens_are_broken_too() {
        let extra = ["<EOT>".to_owned(), "%%end%%".to_owned()];
        let broken = break_up("a<EOT>b%%end%%", &extra);
        assert!(
            extra.iter().all(|token| !broken.contains(token.as_str())),
            "{broken}"
        );
    }
}
