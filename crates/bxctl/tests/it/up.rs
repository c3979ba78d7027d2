//! `up` with the real daemons and stand-ins: starts, refuses, ends with everything it started.
