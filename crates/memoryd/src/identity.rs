//! The two files of identity, and what the system text says of them. Called by the store, `accept` and the
//! service. Values only.

use bxsanitize::neutralise;
use bxwire::{Audience, Class, Label, links::memory_tools::About};

use crate::{items, memory::Contents, screen::one_line};

/// The file about one of the two, whole.
#[must_use]
pub fn render(contents: &Contents, about: About) -> String {
    let heading = match about {
        About::User => "About the owner",
        About::Agent => "About the agent and its work",
    };
    let entries = contents.entries(about).iter();
    items::render(
        heading,
        entries.map(|entry| (entry.id.as_str(), entry.text.clone())),
    )
}

/// What the system text says of owner and agent: nothing to an audience that may not see what is private. The
/// ids stand there so that the model can name an entry.
#[must_use]
pub fn system_text(contents: &Contents, audience: Audience) -> (String, Label) {
    use std::fmt::Write as _;
    let mut text = String::new();
    if audience.class_max() >= Class::Private {
        let parts = [
            (About::User, "What you know of the owner:"),
            (About::Agent, "What you know of yourself and your work:"),
        ];
        for (about, heading) in parts {
            let entries = contents.entries(about);
            if entries.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{heading}"); // Writing to a String cannot fail.
            for entry in entries {
                let line = one_line(&neutralise(&entry.text, usize::MAX));
                let _ = writeln!(text, "- [{}] {line}", entry.id);
            }
        }
    }
    let label = if text.is_empty() {
        Label::default()
    } else {
        Label::PRIVATE
    };
    (text, label)
}

#[cfg(test)]
mod tests {
    use bxwire::EditId;

    use super::*;
    use crate::{
        edit::{By, Change, Edit},
        memory::Memory,
    };

    fn memory() -> Memory {
        let added = |about, entry: &str, text: &str| Change::Added {
            about,
            entry: entry.into(),
            text: text.into(),
        };
        let mut memory = Memory::default();
        let edit = Edit {
            id: EditId(1),
            at: "2026-01-31T10:00:00.000Z".into(),
            by: By::Owner {},
            what: "accept".into(),
            changes: vec![
                added(About::User, "u1", "likes tea"),
                added(About::Agent, "a1-2", "keeps the garden log"),
            ],
            undoes: None,
            label: Label::PRIVATE,
            kept_local: None,
            files: Vec::new(),
        };
        memory.apply(edit).unwrap();
        memory
    }

    #[test]
    fn a_file_shows_its_half_only() {
        let memory = memory();
        assert_eq!(
            render(memory.contents(), About::User),
            "# About the owner\n\n- likes tea ^u1\n"
        );
        assert!(!render(memory.contents(), About::Agent).contains("tea"));
    }

    #[test]
    fn only_who_may_see_private_things_is_told() {
        let memory = memory();
        let rows = [
            (Audience::Owner {}, true),
            (
                Audience::Others {
                    class_max: Class::Public,
                },
                false,
            ),
            (
                Audience::Others {
                    class_max: Class::Private,
                },
                true,
            ),
            (
                Audience::Others {
                    class_max: Class::Secret,
                },
                true,
            ),
        ];
        for (audience, told) in rows {
            let (text, label) = system_text(memory.contents(), audience);
            assert_eq!(text.contains("[u1] likes tea"), told, "{audience:?}");
            assert_eq!(label == Label::PRIVATE, told, "{audience:?}");
        }
    }
}
