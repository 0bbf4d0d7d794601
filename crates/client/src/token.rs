//! Tokens: a fixed one, or one that is asked for whenever it is needed.

use crate::Error;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

type Source = dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync;

/// What a connection proves its identity with.
#[derive(Clone)]
pub struct Token(Kind);

#[derive(Clone)]
enum Kind {
    Fixed(Arc<str>),
    Renewed(Arc<Source>),
}

impl Token {
    /// A token that `source` gives. It is asked for every HTTP request and every new stream, so it should
    /// keep its answer until shortly before that expires. When it fails, the call is tried again later.
    ///
    /// ```
    /// # use codeq_client::Token;
    /// # async fn ask_the_identity_provider() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// let token = Token::renewed(|| async { ask_the_identity_provider().await });
    /// ```
    pub fn renewed<F, T, E>(source: F) -> Token
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, E>> + Send + 'static,
        E: fmt::Display,
    {
        let source = move || source().map(|token| token.map_err(|error| error.to_string())).boxed();
        Token(Kind::Renewed(Arc::new(source)))
    }

    pub(crate) async fn get(&self) -> Result<String, Error> {
        match &self.0 {
            Kind::Fixed(token) => Ok(token.to_string()),
            Kind::Renewed(source) => {
                source().await.map_err(|error| Error::unavailable(format!("no token: {error}")))
            }
        }
    }

    /// Whether there is another token than the one that was refused.
    pub(crate) async fn replaces(&self, refused: &str) -> bool {
        match &self.0 {
            Kind::Fixed(_) => false,
            Kind::Renewed(_) => self.get().await.is_ok_and(|token| token != refused),
        }
    }
}

impl From<&str> for Token {
    fn from(token: &str) -> Token {
        Token(Kind::Fixed(token.into()))
    }
}

impl From<String> for Token {
    fn from(token: String) -> Token {
        Token(Kind::Fixed(token.into()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
