//! Tables for each neutralising step. The laws over any text are in `tests/properties.rs`.

use super::defang::{BRACKETED, ROLES, TAGS};
use super::*;

fn check(rows: &[(&str, &str)]) {
    for (text, want) in rows {
        let got = neutralise(text, usize::MAX);
        assert_eq!(&got, want, "{text:?}");
        assert_eq!(neutralise(&got, usize::MAX), got, "twice: {text:?}");
    }
}

#[test]
fn word_lists_are_sorted() {
    for list in [TAGS, BRACKETED, ROLES] {
        assert!(list.is_sorted(), "{list:?}");
    }
}

#[test]
fn line_breaks_become_one_kind() {
    check(&[
        ("a\r\nb\rc\u{85}d\u{2028}e\u{2029}f", "a\nb\nc\nd\ne\nf"),
        ("a\n\r\n", "a\n\n"),
    ]);
}

#[test]
fn escape_sequences_go_whole() {
    check(&[
        ("a\u{1b}[1;31mb\u{1b}[0m", "ab"),
        ("a\u{9b}31mb", "ab"),
        ("a\u{1b}]0;title\u{7}b", "ab"),
        ("a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
        ("a\u{1b}Pq\u{9c}b", "ab"),
        ("a\u{1b}(Bb\u{1b}7c", "abc"),
        ("a\u{1b}]never ended", "anever ended"),
        ("a\u{1b}[31\u{1b}[0mb", "a31b"),
        ("a\u{1b}é\u{0}\u{8}\u{7f}b\tc", "aéb\tc"),
    ]);
    let far = format!("a\u{1b}]{}\u{7}b", "x".repeat(CONTROL_STRING_CHARS_MAX + 1));
    assert_eq!(
        neutralise(&far, usize::MAX).len(),
        CONTROL_STRING_CHARS_MAX + 3
    );
    let near = format!("a\u{1b}]{}\u{7}b", "x".repeat(CONTROL_STRING_CHARS_MAX));
    assert_eq!(neutralise(&near, usize::MAX), "ab");
    let wide = format!("a\u{1b}[{}mb", "1".repeat(CSI_CHARS_MAX + 1));
    assert_eq!(neutralise(&wide, usize::MAX).len(), CSI_CHARS_MAX + 4);
}

#[test]
fn hidden_characters_go() {
    check(&[(
        "a\u{200B}\u{AD}b\u{E0041}\u{FE0F}\u{202E}c\u{F0000}\u{FDD0}",
        "abc",
    )]);
}

#[test]
fn composed_but_not_compatible() {
    check(&[
        ("e\u{301}", "é"),
        ("²ﬁ", "²ﬁ"),
        ("\u{212A}", "K"),
        ("\u{958}", "\u{915}\u{93C}"),
    ]);
}

#[test]
fn runs_are_limited() {
    check(&[
        (
            &format!("a{}b", "\u{301}\u{323}".repeat(20)),
            &format!("ạ\u{301}{}b", "\u{323}".repeat(0))
                .replace("\u{301}b", &format!("{}b", "\u{323}".repeat(8))),
        ),
        (
            &format!("a{}b", " \t".repeat(40)),
            &format!("a{}b", " \t".repeat(32)),
        ),
        ("a\n\n\n\n\nb", "a\n\n\nb"),
    ]);
}

#[test]
fn the_cut_counts_its_marker() {
    assert_eq!(neutralise("abcdefghij", 10), "abcdefghij");
    assert_eq!(neutralise("abcdefghijk", 10), "abcde⟨cut⟩");
    assert_eq!(neutralise("abcdefghijk", 3), "abc");
    assert_eq!(neutralise("abc", 0), "");
    assert_eq!(neutralise("éééééééé", 6), "é⟨cut⟩");
    assert_eq!(neutralise("<script>", 7), "<s⟨cut⟩".replace('<', "‹"));
}

#[test]
fn openings_lose_their_first_character() {
    check(&[
        ("<|im_start|>x", "‹|im_start|>x"),
        ("<｜end｜>", "‹｜end｜>"),
        ("＜script＞", "‹script＞"),
        ("﹤ＳＹＳﬅem>", "﹤ＳＹＳﬅem>"),
        ("<ｓｙﬆem>", "‹ｓｙﬆem>"),
        ("</system> <think>", "‹/system> ‹think>"),
        ("<aßistant>", "‹aßistant>"),
        ("<<SYS>> <</SYS>>", "‹‹SYS>> ‹‹/SYS>>"),
        ("[INST] [/INST] [note]", "⁅INST] ⁅/INST] [note]"),
        ("![x](u) ！［x］", "ǃ[x](u) ǃ［x］"),
        ("‼[x]", "ǃ[x]"),
        (
            "User: hi\n  **assistant** : yo\n> System:x",
            "User꞉ hi\n  **assistant** ꞉ yo\n> System꞉x",
        ),
        ("ｕｓｅｒ：hi", "ｕｓｅｒ꞉hi"),
        (
            "[a]: http://x\n[b\\]c]: y\n[d] e: f",
            "⁅a]: http://x\n⁅b\\]c]: y\n[d] e: f",
        ),
    ]);
}

#[test]
fn a_tag_that_loads_or_runs_opens_nothing_whatever_its_name() {
    check(&[
        ("<div style=x>", "‹div style=x>"),
        ("<x-y\nid=1 onload\n= z", "‹x-y\nid=1 onload\n= z"),
        ("<p/style=x>", "‹p/style=x>"),
        ("<p;<q style=x>", "‹p;‹q style=x>"),
        ("<use xlink:href=x>", "‹use xlink:href=x>"),
        (
            "＜td ｂａｃｋｇｒｏｕｎｄ＝x＞",
            "‹td ｂａｃｋｇｒｏｕｎｄ＝x＞",
        ),
        ("<p title='>' style=x>", "‹p title='>' style=x>"),
        ("<b>style = y</b>", "<b>style = y</b>"),
        ("<td class=wide>", "<td class=wide>"),
        (
            "for (i = 0; i<n; i++) on = x > 2",
            "for (i = 0; i<n; i++) on = x > 2",
        ),
    ]);
}

#[test]
fn a_definition_in_a_list_defines_nothing() {
    check(&[
        ("- [x]: y", "- ⁅x]: y"),
        ("12. + [x]: y", "12. + ⁅x]: y"),
        ("- user: y", "- user: y"),
    ]);
}

#[test]
fn a_bracket_that_closes_first_defines_nothing() {
    check(&[("[x] done, see [a]: b", "[x] done, see [a]: b")]);
}

#[test]
fn openings_alone_are_read_once() {
    for opening in [
        "\u{1b}]",
        "\u{1b}[1",
        "\u{90}\u{7}",
        "[\n",
        "<",
        "![",
        "user\n",
        "\u{301}\u{323}",
        "ﷺ",
    ] {
        let text = opening.repeat(400_000 / opening.len());
        let started = std::time::Instant::now();
        let _ = neutralise(&text, usize::MAX);
        // Read once it takes well under a second, even in a debug build; read over and over, minutes.
        assert!(started.elapsed().as_secs() < 10, "{opening:?}");
    }
}

#[test]
fn ordinary_text_is_borrowed() {
    for text in [
        "a < b and c > d, see [1] and the user: me!",
        "if x<=3 { y[0] = !z; } // std::fmt <span>",
        "the system: none. <b>bold</b> <scripts> users: many",
        "Grüße, 漢字, emoji 🙂",
    ] {
        assert!(
            matches!(neutralise_cow(text, usize::MAX), Cow::Borrowed(_)),
            "{text}"
        );
    }
}
