//! Why a caller was turned away.

use thiserror::Error;

/// A refusal of the gate: a status, a stable code and a text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    #[error("missing Authorization header")]
    MissingAuthorization,
    #[error("invalid Authorization format")]
    InvalidAuthorization,
    /// The text of the validator.
    #[error("{0}")]
    InvalidToken(String),
    /// A worker token without any event type.
    #[error("missing eventTypes")]
    MissingEventTypes,
    /// A worker token without any scope.
    #[error("missing scope")]
    MissingScope,
    /// The token has scopes, but not the one of the route.
    #[error("missing scope")]
    ScopeNotGranted,
    #[error("invalid tenant claims")]
    InvalidTenant,
    #[error("unauthorized. Admin only")]
    AdminOnly,
    /// The keys cannot be had just now, so nothing can be said about the token.
    #[error("{0}")]
    Unavailable(String),
    /// Cannot happen after a valid start.
    #[error("{0}")]
    NotConfigured(&'static str),
}

impl Denied {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Denied::MissingAuthorization
            | Denied::InvalidAuthorization
            | Denied::InvalidToken(_)
            | Denied::MissingEventTypes
            | Denied::MissingScope => 401,
            Denied::ScopeNotGranted | Denied::InvalidTenant | Denied::AdminOnly => 403,
            Denied::NotConfigured(_) => 500,
            Denied::Unavailable(_) => 503,
        }
    }

    /// The stable code of the error body.
    pub fn code(&self) -> &'static str {
        match self {
            Denied::MissingAuthorization => "missing_authorization",
            Denied::InvalidAuthorization => "invalid_authorization",
            Denied::InvalidToken(_) => "invalid_token",
            Denied::MissingEventTypes => "missing_event_types",
            Denied::MissingScope | Denied::ScopeNotGranted => "missing_scope",
            Denied::InvalidTenant => "invalid_tenant",
            Denied::AdminOnly => "admin_only",
            Denied::Unavailable(_) => "auth_unavailable",
            Denied::NotConfigured(_) => "auth_not_configured",
        }
    }

    /// What static tokens and `any` routes say, whatever was wrong.
    pub(super) fn invalid_token() -> Denied {
        Denied::InvalidToken("invalid token".to_owned())
    }

    pub(super) fn malformed() -> Denied {
        Denied::InvalidToken("token is malformed".to_owned())
    }

    pub(super) fn is_unavailable(&self) -> bool {
        matches!(self, Denied::Unavailable(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_status_code_and_text() {
        let no_worker = Denied::NotConfigured("worker validator not configured");
        let down = Denied::Unavailable("JWKS endpoint returned status 500".to_owned());
        let table = [
            (Denied::MissingAuthorization, 401, "missing_authorization", "missing Authorization header"),
            (Denied::InvalidAuthorization, 401, "invalid_authorization", "invalid Authorization format"),
            (Denied::invalid_token(), 401, "invalid_token", "invalid token"),
            (Denied::malformed(), 401, "invalid_token", "token is malformed"),
            (Denied::MissingEventTypes, 401, "missing_event_types", "missing eventTypes"),
            (Denied::MissingScope, 401, "missing_scope", "missing scope"),
            (Denied::ScopeNotGranted, 403, "missing_scope", "missing scope"),
            (Denied::InvalidTenant, 403, "invalid_tenant", "invalid tenant claims"),
            (Denied::AdminOnly, 403, "admin_only", "unauthorized. Admin only"),
            (down, 503, "auth_unavailable", "JWKS endpoint returned status 500"),
            (no_worker, 500, "auth_not_configured", "worker validator not configured"),
        ];
        for (denied, status, code, text) in table {
            assert_eq!((denied.status(), denied.code(), denied.to_string().as_str()), (status, code, text));
        }
    }
}
