//! The hosts a person named in a text. Called by `turn` for what the owner wrote; takes values only.

/// Most hosts kept of a session; the first named go first.
pub const HOSTS_MAX: usize = 64;

/// Adds the hosts of the web addresses in a text, in lower case, each once.
pub fn collect(text: &str, hosts: &mut Vec<String>) {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some(at) = rest.find("://") {
        let scheme = &rest[..at];
        rest = &rest[at + 3..];
        if !scheme.ends_with("http") && !scheme.ends_with("https") {
            continue;
        }
        let ends = |c: char| c.is_whitespace() || "/?#\\\"'<>()`|,;".contains(c);
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        // What stands before an @ is a name and password, whatever it looks like.
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((inside, _)) => inside,
            None => host
                .split(':')
                .next()
                .unwrap_or_default()
                .trim_end_matches('.'),
        };
        let plain = !host.is_empty()
            && host
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
        if plain && !hosts.iter().any(|known| known == host) {
            if hosts.len() >= HOSTS_MAX {
                hosts.remove(0);
            }
            hosts.push(host.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_would_be_asked() {
        let text = "see HTTPS://Example.org/x, (http://a.example:80/) and https://good.example@evil.example/. \
            http://[::1]:8080/ ftp://files.example https://example.org.";
        let mut hosts = Vec::new();
        collect(text, &mut hosts);
        assert_eq!(hosts, ["example.org", "a.example", "evil.example", "::1"]);
    }

    #[test]
    fn the_latest_are_kept() {
        let mut hosts = Vec::new();
        for number in 0..=HOSTS_MAX {
            collect(&format!("http://h{number}/"), &mut hosts);
        }
        assert_eq!((hosts.len(), hosts[0].as_str()), (HOSTS_MAX, "h1"));
    }
}
