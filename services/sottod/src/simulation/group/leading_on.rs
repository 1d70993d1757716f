//! A node that leads on in the term of an earlier start: without an election, and without an entry of its own.

use sotto_log::{Feed as _, Role, Sequencer as _};

use super::logs::{Logs, play};

/// The term in which a node leads, and the entry after the last one that it knows then.
async fn leads(logs: &Logs, number: u64) -> (u64, u64) {
    let mut role = logs.logs[&number].role();
    let leads = role.wait_for(|role| matches!(role, Role::Leads { .. })).await.unwrap();
    let Role::Leads { term } = *leads else { unreachable!() };
    (term, logs.logs[&number].state().next_index())
}

/// What was committed last is on the disk as an entry, and not yet as one that is known to be committed.
#[test]
fn who_leads_on_knows_all_that_was_acknowledged() {
    play(async |mut logs| {
        let (leader, ..) = logs.leader();
        let Role::Leads { term } = *logs.logs[&leader].role().borrow() else { unreachable!() };
        for _ in 0..2 {
            assert!(logs.goes_on(leader).await);
        }
        let acknowledged = logs.logs[&leader].state().next_index();
        logs.end_and_start_all().await;
        assert!(logs.logs[&leader].state().next_index() < acknowledged, "nothing is left to be learnt");
        logs.net.heal();
        let (again, known) = tokio::select! {
            biased;
            led = leads(&logs, 1) => led,
            led = leads(&logs, 2) => led,
            led = leads(&logs, 3) => led,
        };
        assert_eq!(again, term, "there was an election");
        assert!(known >= acknowledged, "it leads and knows {known} of {acknowledged} entries");
    });
}
