//! What an address in a configuration may hold, and how one is shown. Used where an address is read or printed; a
//! name, a password or a query in one is never shown.

/// An http:// or https:// address with a host, and perhaps a path: no name or password, query or fragment.
#[must_use]
pub fn is_plain(url: &str) -> bool {
    rest(url).is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.chars().all(|c| c.is_ascii_graphic())
            && !rest.contains(['@', '?', '#', '\\'])
    })
}

/// [`is_plain`], and no path either.
#[must_use]
pub fn is_origin(url: &str) -> bool {
    rest(url).is_some_and(|rest| {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    })
}

/// An address to print; one that may hold a secret is not shown at all.
#[must_use]
pub fn shown(url: &str) -> &str {
    if is_plain(url) {
        url
    } else {
        "an address that is not shown: it is not a plain http:// or https:// one"
    }
}

fn rest(url: &str) -> Option<&str> {
    url.strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_by_what_they_hold() {
        let rows = [
            ("http://127.0.0.1:8000", true, true),
            ("https://h.example/", true, true),
            ("http://[::1]:8000", true, true),
            ("http://h:8080/v1", true, false),
            ("http://canary:canary@h", false, false),
            ("http://canary:ca/nary@h", false, false),
            ("http://h/v1?key=canary", false, false),
            ("http://h#canary", false, false),
            ("http://h/a b canary", false, false),
            ("http:///canary", false, false),
            ("http://", false, false),
            ("canary", false, false),
        ];
        for (url, plain, origin) in rows {
            assert_eq!((is_plain(url), is_origin(url)), (plain, origin), "{url}");
            assert_eq!(shown(url) == url, plain, "{url}");
            assert!(!shown(url).contains("canary"), "{url}");
        }
    }
}
