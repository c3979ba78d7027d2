//! The turns link besides turns.
