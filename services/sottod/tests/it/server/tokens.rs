//! Registration tokens: one account each, and nothing else.

use std::path::Path;

use bytes::Bytes;
use sotto_wire::{Refused, proto};
use sottod::{Registration, issue_token};
use tokio::task::JoinSet;

use crate::support::{self, Server, connect, refusal, session_by};

fn server(data: &Path) -> Server {
    support::server(|config| {
        config.data = Some(data.to_owned());
        config.registration = Registration::Token;
    })
}

fn token(data: &Path) -> Bytes {
    Bytes::copy_from_slice(issue_token(data).unwrap().bytes())
}

/// What becomes of a registration.
async fn register(server: &Server, number: u8, token: Bytes) -> Result<(), Refused> {
    let mut client = connect(server).await;
    let key = server.parameters().manifest_key;
    let session = session_by(&mut client, &key, number, token).await;
    session.map(|_| ()).map_err(|status| refusal(&status))
}

#[tokio::test]
async fn a_token_admits_one_account_whatever_happens_to_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let first = server(directory.path());
    let (one, two) = (token(directory.path()), token(directory.path()));
    assert_eq!(register(&first, 1, Bytes::new()).await, Err(Refused::Token));
    let mut forged = one.to_vec();
    forged[20] ^= 1;
    assert_eq!(register(&first, 1, forged.into()).await, Err(Refused::Token));
    assert_eq!(register(&first, 1, one.slice(..31)).await, Err(Refused::Malformed));
    assert_eq!(register(&first, 1, one.clone()).await, Ok(()));
    assert_eq!(register(&first, 2, one.clone()).await, Err(Refused::Token), "a second account");
    // Who is known needs none, and uses none up.
    assert_eq!(register(&first, 1, Bytes::new()).await, Ok(()));
    assert_eq!(register(&first, 1, two.clone()).await, Ok(()));
    first.shutdown().await.unwrap();

    let second = server(directory.path());
    assert_eq!(register(&second, 1, Bytes::new()).await, Ok(()));
    assert_eq!(register(&second, 2, one.clone()).await, Err(Refused::Token), "a restart");
    assert_eq!(register(&second, 2, two.clone()).await, Ok(()));
    assert_eq!(register(&second, 3, two).await, Err(Refused::Token));
    second.shutdown().await.unwrap();
    assert_eq!(sottod::check_log(directory.path()).unwrap().tokens, 2);
}

/// Closing is for good, also of what was said with a session from before.
#[tokio::test]
async fn who_has_closed_an_account_is_unknown_and_needs_another_token() {
    let directory = tempfile::tempdir().unwrap();
    let first = server(directory.path());
    let (one, two, three) = (token(directory.path()), token(directory.path()), token(directory.path()));
    assert_eq!(register(&first, 2, two).await, Ok(()));
    let mut client = connect(&first).await;
    let key = first.parameters().manifest_key;
    let session = session_by(&mut client, &key, 1, one.clone()).await.unwrap();
    let nobody = proto::CloseRequest { session: Bytes::from(vec![0; 32]) };
    assert_eq!(refusal(&client.close(nobody).await.unwrap_err()), Refused::UnknownSession);
    client.close(proto::CloseRequest { session: session.clone() }).await.unwrap();
    let again = client.close(proto::CloseRequest { session: session.clone() }).await.unwrap_err();
    assert_eq!(refusal(&again), Refused::UnknownSession);
    let watch = client.watch(proto::WatchRequest { session }).await.unwrap_err();
    assert_eq!(refusal(&watch), Refused::UnknownSession);
    assert_eq!(register(&first, 1, Bytes::new()).await, Err(Refused::Token));
    assert_eq!(register(&first, 1, one.clone()).await, Err(Refused::Token), "it was spent");
    first.shutdown().await.unwrap();
    assert_eq!(sottod::check_log(directory.path()).unwrap().accounts, 1);

    let second = server(directory.path());
    assert_eq!(register(&second, 1, one).await, Err(Refused::Token));
    assert_eq!(register(&second, 2, Bytes::new()).await, Ok(()));
    assert_eq!(register(&second, 1, three).await, Ok(()));
    second.shutdown().await.unwrap();
    assert_eq!(sottod::check_log(directory.path()).unwrap().accounts, 2);
}

#[tokio::test]
async fn of_many_who_use_one_token_at_once_one_is_admitted() {
    let directory = tempfile::tempdir().unwrap();
    let server = server(directory.path());
    let token = token(directory.path());
    let key = server.parameters().manifest_key;
    let mut attempts = JoinSet::new();
    for number in 1..=20 {
        let (mut client, token) = (connect(&server).await, token.clone());
        attempts.spawn(async move { session_by(&mut client, &key, number, token).await });
    }
    let mut admitted = 0;
    while let Some(attempt) = attempts.join_next().await {
        match attempt.unwrap() {
            Ok(_) => admitted += 1,
            Err(status) => assert_eq!(refusal(&status), Refused::Token),
        }
    }
    assert_eq!(admitted, 1);
    server.shutdown().await.unwrap();
}
