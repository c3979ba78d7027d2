//! What crosses a Boxmaker socket, and the records of a session log. Used by every daemon and by
//! `bxctl`; does no I/O of its own beyond reading and writing one frame.
#![forbid(unsafe_code)]

mod frame;
mod hello;
mod ids;
mod label;
pub mod links;
pub mod log;

pub use frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
pub use hello::{Hello, Link, PROTOCOL_VERSION, Refused};
pub use ids::{CallId, EditId, ItemId, ParseIdError, SessionId};
pub use label::{Audience, Cause, Class, Label, Origin, Speaker, Trust};
