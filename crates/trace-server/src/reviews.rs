//! Tokens: the API server says whose they are. Whoever can reach the port can send tokens, so what that costs the API server is
//! bounded: reviews of one peer by rate, all of them by number, and a token that was rejected is not reviewed again at once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::identity::{Unauthenticated, User};

/// How many reviews are under way at once.
const AT_ONCE: usize = 4;
/// How often the tokens of one peer are reviewed in the long run, and how many at once before that.
const INTERVAL: Duration = Duration::from_millis(50);
const BURST: u32 = 40;
/// How long a rejected token stays rejected.
const REJECTED_FOR: Duration = Duration::from_secs(10);
/// No token is longer.
const LONGEST: usize = 16 * 1024;
/// How many rejected tokens and how many peers are remembered.
const REMEMBERED: usize = 1024;

/// Reviews tokens.
pub(crate) struct Reviews {
    client: Client,
    turns: Semaphore,
    memory: Mutex<Memory>,
}

type Fingerprint = [u8; 32];

#[derive(Debug, Default)]
struct Memory {
    /// Until when a token stays rejected.
    rejected: BTreeMap<Fingerprint, Instant>,
    /// When the reviews that a peer has had are paid for.
    paid: BTreeMap<IpAddr, Instant>,
}

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, turns: Semaphore::new(AT_ONCE), memory: Mutex::default() }
    }

    /// Whose token this is.
    pub(crate) async fn review(&self, peer: IpAddr, token: &str) -> Result<User, Unauthenticated> {
        if token.len() > LONGEST {
            return Err(Unauthenticated::Token);
        }
        let fingerprint: Fingerprint = Sha256::digest(token.as_bytes()).into();
        self.memory().admit(peer, &fingerprint, Instant::now())?;
        let _turn = self.turns.acquire().await.expect("invariant: the semaphore is never closed");
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let api = Api::<TokenReview>::all(self.client.clone());
        let user = user_of(api.create(&PostParams::default(), &review).await?);
        if user.is_none() {
            self.memory().reject(fingerprint, Instant::now());
        }
        user.ok_or(Unauthenticated::Token)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn user_of(review: TokenReview) -> Option<User> {
    let status = review.status.filter(|status| status.authenticated == Some(true))?;
    let user = status.user?;
    let user = User {
        name: user.username.filter(|name| !name.is_empty())?,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    };
    Some(user).filter(|user| !user.is_anonymous())
}

impl Memory {
    /// Whether a token is to be reviewed now.
    fn admit(&mut self, peer: IpAddr, token: &Fingerprint, now: Instant) -> Result<(), Unauthenticated> {
        if self.rejected.get(token).is_some_and(|until| *until > now) {
            return Err(Unauthenticated::Token);
        }
        if self.paid.len() >= REMEMBERED {
            self.paid.retain(|_, paid| *paid > now);
        }
        if self.paid.len() >= REMEMBERED && !self.paid.contains_key(&peer) {
            return Err(Unauthenticated::TooMany);
        }
        let paid = self.paid.entry(peer).or_insert(now);
        let begin = (*paid).max(now);
        if begin - now >= INTERVAL * BURST {
            return Err(Unauthenticated::TooMany);
        }
        *paid = begin + INTERVAL;
        Ok(())
    }

    fn reject(&mut self, token: Fingerprint, now: Instant) {
        if self.rejected.len() >= REMEMBERED {
            self.rejected.retain(|_, until| *until > now);
        }
        if self.rejected.len() < REMEMBERED {
            self.rejected.insert(token, now + REJECTED_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use portolan_watch::fake::{Answer, FakeApi};
    use serde_json::json;

    use super::*;

    const REVIEWS: &str = "POST /apis/authentication.k8s.io/v1/tokenreviews";

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn answer(authenticated: bool) -> Answer {
        let status = json!({"authenticated": authenticated, "user": {"username": "ann"}});
        Answer::Object(201, json!({"metadata": {}, "spec": {}, "status": status}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_not_reviewed_again_at_once() {
        let api = FakeApi::default();
        api.script(REVIEWS, 1, answer(false));
        let reviews = Reviews::new(api.client());
        for _ in 0..5 {
            assert!(matches!(reviews.review(peer(1), "t").await, Err(Unauthenticated::Token)));
        }
        assert_eq!(api.requests(REVIEWS).len(), 1);
        api.always(REVIEWS, answer(true));
        assert_eq!(reviews.review(peer(1), "another").await.unwrap().name, "ann");
        tokio::time::advance(REJECTED_FOR).await;
        assert_eq!(reviews.review(peer(1), "t").await.unwrap().name, "ann", "rejection is not for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_sends_many_tokens_is_put_off_and_others_are_not() {
        let api = FakeApi::default();
        api.always(REVIEWS, answer(true));
        let reviews = Reviews::new(api.client());
        let burst = usize::try_from(BURST).unwrap();
        for number in 0..burst {
            assert!(reviews.review(peer(1), &number.to_string()).await.is_ok());
        }
        assert!(matches!(reviews.review(peer(1), "one more").await, Err(Unauthenticated::TooMany)));
        assert_eq!(api.requests(REVIEWS).len(), burst, "which costs the API server nothing");
        assert!(reviews.review(peer(2), "x").await.is_ok());
        tokio::time::advance(INTERVAL).await;
        assert!(reviews.review(peer(1), "later").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_has_few_reviews_to_answer() {
        let api = FakeApi::default();
        api.always(REVIEWS, Answer::Silence);
        let reviews = Reviews::new(api.client());
        let tokens: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let asked = tokens.iter().map(|token| reviews.review(peer(1), token));
        let all = tokio::time::timeout(Duration::from_secs(20), futures::future::join_all(asked));
        assert!(all.await.is_err());
        assert_eq!(api.requests(REVIEWS).len(), AT_ONCE);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        for number in 0..5000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            let admitted = memory.admit(address, &[255; 32], now).is_ok();
            assert_eq!(admitted, usize::try_from(number).unwrap() < REMEMBERED);
            let mut token = [0; 32];
            token[..4].copy_from_slice(&number.to_be_bytes());
            memory.reject(token, now);
        }
        assert_eq!((memory.paid.len(), memory.rejected.len()), (REMEMBERED, REMEMBERED));
        assert!(memory.admit(peer(1), &[1; 32], now + Duration::from_secs(1)).is_ok(), "and passes");
    }
}
