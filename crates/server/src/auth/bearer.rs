//! The token in an `Authorization` header.

use super::denied::Denied;

/// Takes the token out of the raw value of the header.
pub fn token(authorization: Option<&[u8]>) -> Result<&str, Denied> {
    let raw = authorization.ok_or(Denied::MissingAuthorization)?;
    let value = std::str::from_utf8(raw).map_err(|_| Denied::InvalidAuthorization)?.trim();
    if value.is_empty() {
        return Err(Denied::MissingAuthorization);
    }
    let (scheme, token) = value.split_once(char::is_whitespace).ok_or(Denied::InvalidAuthorization)?;
    // The value is trimmed and something follows the space, so the token is not blank.
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(Denied::InvalidAuthorization) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_read_in_any_case_and_spaces_are_trimmed() {
        for header in ["Bearer abc", "bearer abc", "BEARER   abc  ", "  Bearer\tabc"] {
            assert_eq!(token(Some(header.as_bytes())), Ok("abc"), "{header:?}");
        }
    }

    #[test]
    fn a_missing_or_blank_header_is_missing() {
        for header in [None, Some(&b""[..]), Some(&b"  \t "[..])] {
            assert_eq!(token(header), Err(Denied::MissingAuthorization));
        }
    }

    #[test]
    fn anything_else_has_the_wrong_format() {
        let cases: [&[u8]; 6] = [b"Bearer", b"Bearer   ", b"abc", b"Basic abc", b"Bearerabc", b"Bearer \xff"];
        for header in cases {
            assert_eq!(token(Some(header)), Err(Denied::InvalidAuthorization), "{header:?}");
        }
    }
}
