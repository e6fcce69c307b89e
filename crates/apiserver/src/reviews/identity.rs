//! Whose a token is.

use apimachinery::Status;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::user_info;
use crate::authn::{Authenticator, Credentials};

/// The status of a review of a token.
pub(super) fn of_token(review: &Value, authenticator: &dyn Authenticator) -> Result<Value, Status> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    let Ok(header) = HeaderValue::from_str(&format!("Bearer {token}")) else { return Ok(unknown) };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, header)]);
    Ok(match authenticator.authenticate(&Credentials { certificate: None, headers: &headers }) {
        Ok(Some(user)) => json!({"authenticated": true, "user": user_info(&user)}),
        Ok(None) | Err(_) => unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::{StaticTokens, UserInfo};

    #[test]
    fn a_known_token_names_its_user() {
        let tokens = StaticTokens::new([("secret".into(), UserInfo::new("jane", ["dev".into()]))]);
        let review = |token: &str| of_token(&json!({"spec": {"token": token}}), &tokens);
        assert_eq!(
            review("secret").unwrap(),
            json!({"authenticated": true, "user": {"username": "jane", "groups": ["dev", "system:authenticated"]}})
        );
        assert_eq!(review("other").unwrap(), json!({"user": {}, "error": "invalid bearer token"}));
        assert_eq!(review("a\nb").unwrap(), json!({"user": {}, "error": "invalid bearer token"}));
        assert_eq!(review("").unwrap_err().message, "token is required for TokenReview in authentication");
    }
}
