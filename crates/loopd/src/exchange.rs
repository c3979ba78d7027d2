//! One request to the model server and its answer, read as it comes. Called by `model`, which decides what a
//! failure means; never sends twice.

use std::time::Duration;

use crate::{
    cancel::Cancel,
    config::{Limits, ModelConfig},
    errors::ServerError,
    model::Event,
    sse::Sse,
    stream::{Assembled, Assembler, StreamError},
    think::Live,
    transport::{self, HttpError, Waits},
};

/// How one request failed.
pub enum Failure {
    /// No answer began.
    Before(HttpError),
    /// A status that is not 200.
    Answered(ServerError, Option<Duration>),
    /// The answer's bytes stopped.
    During(HttpError),
    /// The answer's events say so.
    Stream(StreamError),
}

/// One request, one answer.
pub fn once(
    config: &ModelConfig,
    limits: &Limits,
    body: &[u8],
    live: &mut Live,
    cancel: &Cancel,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Assembled, Failure> {
    let url = format!("{}/v1/chat/completions", config.url);
    let waits = Waits {
        first_byte: limits.first_byte_ms_max,
        silence: limits.silence_ms_max,
    };
    let answer = transport::send(&url, config.key.as_ref(), Some(body), waits, cancel)
        .map_err(Failure::Before)?;
    if answer.status != 200 {
        let (status, after) = (answer.status, answer.retry_after);
        let body = answer.whole().unwrap_or_default();
        return Err(Failure::Answered(
            ServerError::answered(status, &body),
            after,
        ));
    }
    let mut reply = Assembler::default();
    if !answer.is_stream {
        let body = answer.whole().map_err(Failure::During)?;
        reply.whole(&body).map_err(Failure::Stream)?;
        return reply.finished().map_err(Failure::Stream);
    }
    let mut sse = Sse::default();
    let mut failed = None;
    let mut take = |data: &str, reply: &mut Assembler, failed: &mut Option<StreamError>| {
        if failed.is_some() {
            return;
        }
        match reply.event(data) {
            Ok(added) => {
                if reply.thinks() {
                    live.release();
                }
                let shown = live.push(&added);
                if !shown.is_empty() {
                    on(Event::Text(&shown));
                }
            }
            Err(error) => *failed = Some(error),
        }
    };
    let read = answer.pieces(|bytes| {
        let fits = sse.push(bytes, |data| take(data, &mut reply, &mut failed));
        if fits.is_err() {
            failed.get_or_insert(StreamError::TooLong);
        }
        failed.is_none()
    });
    if failed.is_none() {
        sse.end(|data| take(data, &mut reply, &mut failed));
    }
    match (failed, read) {
        (Some(error), _) => Err(Failure::Stream(error)),
        (None, Err(error @ (HttpError::Silent | HttpError::Cancelled))) => {
            Err(Failure::During(error))
        }
        // A body that ended early is whole if its reply was.
        (None, _) => reply.finished().map_err(Failure::Stream),
    }
}
