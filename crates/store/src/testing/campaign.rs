//! How large a campaign of random lives is: small with every change, large where somebody asks for it.

/// `short`, or `long` with `CODEQ_LONG` set, as `scripts/test.sh --long` does.
pub fn sized<T>(short: T, long: T) -> T {
    if std::env::var_os("CODEQ_LONG").is_some() { long } else { short }
}
