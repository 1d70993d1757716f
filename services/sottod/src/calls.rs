//! Counting calls, for all of them in one place.

use core::pin::Pin;
use core::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use sotto_wire::Refused;
use sotto_wire::status::REASON;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics::SharedMetrics;

/// Counts what every call begins to be answered with, and how long that takes.
#[derive(Clone)]
pub(crate) struct CountCalls(pub(crate) SharedMetrics);

impl<S> Layer<S> for CountCalls {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, metrics: self.0.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Counting<S> {
    inner: S,
    metrics: SharedMetrics,
}

impl<S, B, C> Service<Request<B>> for Counting<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<C>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let name = name(request.uri().path());
        let (metrics, began) = (self.metrics.clone(), Instant::now());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            metrics.call(name, outcome(answer.headers()), began.elapsed());
            Ok(answer)
        })
    }
}

/// The calls there are; whatever else somebody asks for is one more.
fn name(path: &str) -> &'static str {
    const CALLS: [(&str, &str); 12] = [
        ("Info", "info"),
        ("Challenge", "challenge"),
        ("Register", "register"),
        ("UploadKeys", "upload_keys"),
        ("Watch", "watch"),
        ("Deposit", "deposit"),
        ("Mapping", "mapping"),
        ("Retrieve", "retrieve"),
        ("RetrieveAgain", "retrieve_again"),
        ("Unit", "unit"),
        ("Hint", "hint"),
        ("Manifests", "manifests"),
    ];
    let called = path.strip_prefix("/sotto.v1.Sotto/");
    CALLS.iter().find(|(call, _)| Some(*call) == called).map_or("other", |(_, name)| name)
}

/// How an answer begins: `ok` if what is asked for follows, else the word of the refusal.
fn outcome(headers: &HeaderMap) -> &'static str {
    match headers.get("grpc-status") {
        None => "ok",
        Some(status) if status == "0" => "ok",
        Some(_) => {
            let reason = headers.get(REASON).and_then(|reason| reason.to_str().ok());
            reason.and_then(Refused::from_reason).map_or("error", Refused::reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sotto_wire::Refused;
    use tonic::Status;

    use super::{name, outcome};

    #[test]
    fn nothing_that_a_caller_makes_up_becomes_a_label() {
        assert_eq!(name("/sotto.v1.Sotto/Deposit"), "deposit");
        assert_eq!(name("/sotto.v1.Sotto/Deposit1234"), "other");
        assert_eq!(name("/anything"), "other");
        let headers = |status: Status| {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            headers
        };
        assert_eq!(outcome(&HeaderMap::new()), "ok");
        assert_eq!(outcome(&headers(Refused::Quota.into())), "quota");
        assert_eq!(outcome(&headers(Status::unimplemented("no such call"))), "error");
    }
}
