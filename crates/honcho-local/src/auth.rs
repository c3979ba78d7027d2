//! Keys: signed tokens (HS256) that name a workspace, a peer, a session or the administrator. Made and
//! checked with one secret; asked once per call, before its body is read.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::errors::Refusal;

const BLOCK_BYTES: usize = 64;

pub struct Keys {
    secret: Vec<u8>,
}

/// Whom a key was made for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub admin: bool,
    pub workspace: Option<String>,
    pub peer: Option<String>,
    pub session: Option<String>,
}

/// What a call needs its key to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need<'a> {
    Admin,
    /// Everything in the workspace, or the workspace itself.
    Workspace(&'a str),
    /// Any key made for the workspace or for something in it.
    AnyOf(&'a str),
    Peer(&'a str, &'a str),
    /// A member of the session may read it.
    SessionRead {
        workspace: &'a str,
        session: &'a str,
    },
    SessionWrite(&'a str, &'a str),
}

impl Keys {
    pub fn new(secret: &str) -> Self {
        Self {
            secret: secret.as_bytes().to_vec(),
        }
    }

    /// A key that never expires. Two made within one second are equal.
    pub fn mint(&self, claims: &Claims, expires_at: Option<&str>) -> String {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut map = Map::new();
        map.insert(String::from("t"), json!(seconds));
        if claims.admin {
            map.insert(String::from("ad"), json!(true));
        }
        for (name, value) in [
            ("w", &claims.workspace),
            ("p", &claims.peer),
            ("s", &claims.session),
        ] {
            if let Some(value) = value {
                map.insert(String::from(name), json!(value));
            }
        }
        if let Some(expires_at) = expires_at {
            map.insert(String::from("exp"), json!(expires_at));
        }
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!(
            "{head}.{}",
            URL_SAFE_NO_PAD.encode(Value::Object(map).to_string())
        );
        let signature = URL_SAFE_NO_PAD.encode(self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// # Errors
    /// 401 without a key or with a wrong one; 500 for a numeric expiry, as on Honcho.
    pub fn claims(&self, authorization: Option<&str>) -> Result<Claims, Refusal> {
        let token = authorization
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty())
            .ok_or_else(|| Refusal::new(401, "No access token provided"))?;
        let invalid = || Refusal::new(401, "Invalid JWT");
        let (signed, signature) = token.rsplit_once('.').ok_or_else(invalid)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| invalid())?;
        if !equal(&self.sign(signed.as_bytes()), &signature) {
            return Err(invalid());
        }
        let (_, payload) = signed.split_once('.').ok_or_else(invalid)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| invalid())?;
        let map: Map<String, Value> = serde_json::from_slice(&payload).map_err(|_| invalid())?;
        match map.get("exp") {
            None | Some(Value::Null) => {}
            Some(Value::Number(_)) => return Err(Refusal::unexpected()),
            Some(_) => return Err(invalid()),
        }
        let text = |name| map.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Claims {
            admin: map.get("ad").and_then(Value::as_bool).unwrap_or(false),
            workspace: text("w"),
            peer: text("p"),
            session: text("s"),
        })
    }

    fn sign(&self, message: &[u8]) -> [u8; 32] {
        let mut key = [0_u8; BLOCK_BYTES];
        if self.secret.len() > BLOCK_BYTES {
            key[..32].copy_from_slice(&Sha256::digest(&self.secret));
        } else {
            key[..self.secret.len()].copy_from_slice(&self.secret);
        }
        let inner = Sha256::new()
            .chain_update(key.map(|byte| byte ^ 0x36))
            .chain_update(message)
            .finalize();
        Sha256::new()
            .chain_update(key.map(|byte| byte ^ 0x5c))
            .chain_update(inner)
            .finalize()
            .into()
    }
}

impl Claims {
    pub fn admin() -> Self {
        Self {
            admin: true,
            ..Self::default()
        }
    }

    pub fn workspace(name: &str) -> Self {
        Self {
            workspace: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Whether the key opens what the call needs. `is_member(peer)` tells whether that peer takes part
    /// in the session asked for.
    ///
    /// # Errors
    /// 401, always: Honcho knows no 403.
    pub fn allow(&self, need: &Need<'_>, is_member: impl Fn(&str) -> bool) -> Result<(), Refusal> {
        if self.admin {
            return Ok(());
        }
        let ours = |workspace: &str| self.workspace.as_deref() == Some(workspace);
        let whole = self.peer.is_none() && self.session.is_none();
        let allowed = match need {
            Need::Admin => return Err(Refusal::new(401, "Resource requires admin privileges")),
            Need::AnyOf(workspace) => ours(workspace),
            Need::Workspace(workspace) => ours(workspace) && whole,
            Need::Peer(workspace, peer) => {
                ours(workspace) && (whole || self.peer.as_deref() == Some(*peer))
            }
            Need::SessionWrite(workspace, session) => {
                ours(workspace) && (whole || self.session.as_deref() == Some(*session))
            }
            Need::SessionRead { workspace, session } => {
                ours(workspace)
                    && (whole
                        || self.session.as_deref() == Some(*session)
                        || self.peer.as_deref().is_some_and(is_member))
            }
        };
        if allowed {
            Ok(())
        } else {
            Err(Refusal::new(401, "JWT not permissioned for this resource"))
        }
    }
}

/// Compares without stopping at the first difference.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_signature() {
        // RFC 4231, test case 2.
        let keys = Keys::new("Jefe");
        let hex: String = keys
            .sign(b"what do ya want for nothing?")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn what_keys_open() {
        let keys = Keys::new("secret");
        let peer = Claims {
            peer: Some("p".into()),
            ..Claims::workspace("w")
        };
        let session = Claims {
            session: Some("s".into()),
            ..Claims::workspace("w")
        };
        let rows = [
            (Claims::admin(), Need::Admin, true),
            (Claims::workspace("w"), Need::Admin, false),
            (Claims::workspace("w"), Need::Workspace("w"), true),
            (Claims::workspace("w"), Need::Workspace("v"), false),
            (peer.clone(), Need::Workspace("w"), false),
            (peer.clone(), Need::Peer("w", "p"), true),
            (peer.clone(), Need::Peer("w", "q"), false),
            (
                peer.clone(),
                Need::SessionRead {
                    workspace: "w",
                    session: "s",
                },
                true,
            ),
            (peer.clone(), Need::SessionWrite("w", "s"), false),
            (session.clone(), Need::SessionWrite("w", "s"), true),
            (session.clone(), Need::SessionWrite("w", "t"), false),
            (session, Need::AnyOf("w"), true),
        ];
        for (claims, need, want) in rows {
            let token = format!("Bearer {}", keys.mint(&claims, None));
            let read = keys.claims(Some(&token)).expect("a good key");
            assert_eq!(read, claims);
            assert_eq!(
                read.allow(&need, |_| true).is_ok(),
                want,
                "{claims:?} {need:?}"
            );
        }
    }

    #[test]
    fn what_is_no_key() {
        let keys = Keys::new("secret");
        let other = format!("Bearer {}", Keys::new("other").mint(&Claims::admin(), None));
        let expiring = format!(
            "Bearer {}",
            keys.mint(&Claims::admin(), Some("2099-01-01T00:00:00Z"))
        );
        for (sent, detail) in [
            (None, "No access token provided"),
            (Some("Basic x"), "No access token provided"),
            (Some("Bearer a.b.c"), "Invalid JWT"),
            (Some(other.as_str()), "Invalid JWT"),
            (Some(expiring.as_str()), "Invalid JWT"),
        ] {
            assert_eq!(keys.claims(sent), Err(Refusal::new(401, detail)));
        }
    }
}
