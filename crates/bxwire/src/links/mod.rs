//! One file a link: its request and reply enums. `golden.rs` in the tests holds a fixture per variant.

pub mod control;
pub mod memory;
pub mod memory_tools;
pub mod session_state;
pub mod tools;
pub mod turns;

/// Ties a link's name to its two enums; each reply enum has a `Refused` variant.
macro_rules! declare_link {
    ($(#[$doc:meta])* $link:ident, $name:literal, $request:ty, $reply:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $link;

        impl $crate::Link for $link {
            const NAME: &'static str = $name;
            type Request = $request;
            type Reply = $reply;
            fn refused(reply: &$reply) -> Option<&$crate::Refused> {
                match reply {
                    $reply::Refused(refused) => Some(refused),
                    _ => None,
                }
            }
        }

        impl From<$crate::Refused> for $reply {
            fn from(refused: $crate::Refused) -> Self {
                Self::Refused(refused)
            }
        }
    };
}
use declare_link;
