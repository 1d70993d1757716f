//! How many clients a server holds, found by short runs.

use crate::run::Plan;

/// How long a trial lasts.
const SECONDS: u64 = 12;
/// Steps of bisection once a number is known that does not hold.
const STEPS: u32 = 3;
/// A server takes 4,096 connections, and each carries 16 clients here.
const CLIENTS_MAX: usize = 60_000;

/// The largest numbers of clients and of retrievers that hold: half as many clients as hold without retrievers, and as
/// many retrievers as hold beside them.
pub(crate) async fn find(plan: &Plan) -> anyhow::Result<(usize, usize)> {
    let trial = Plan { seconds: SECONDS, progress: false, ..plan.clone() };
    let alone = largest(500, CLIENTS_MAX, |clients| Plan { clients, retrievers: 0, ..trial.clone() }).await?;
    let clients = (alone / 2).max(1);
    let retrievers =
        largest(4, CLIENTS_MAX - clients, |retrievers| Plan { clients, retrievers, ..trial.clone() }).await?;
    println!(
        "found: {alone} clients without retrievers; {retrievers} retrievers beside {clients} clients, which is what is run"
    );
    Ok((clients, retrievers))
}

async fn largest(start: usize, most: usize, plan: impl Fn(usize) -> Plan) -> anyhow::Result<usize> {
    let (mut holds, mut fails) = (0, None);
    let mut next = start;
    for _ in 0..32 {
        let plan = plan(next);
        let summary = plan.run().await?;
        println!("trial: {summary}");
        if summary.holds() {
            holds = next;
        } else {
            fails = Some(next);
        }
        next = match fails {
            None if holds >= most => break,
            None => (holds * 2).min(most),
            Some(_) => break,
        };
    }
    let Some(mut fails) = fails else { return Ok(holds) };
    for _ in 0..STEPS {
        let middle = (holds + fails) / 2;
        if middle <= holds || middle >= fails {
            break;
        }
        let summary = plan(middle).run().await?;
        println!("trial: {summary}");
        if summary.holds() { holds = middle } else { fails = middle }
    }
    Ok(holds)
}
