//! The hostile clients of `tests/it/hostile`, against a whole server in simulated time: it listens in memory, computes on
//! the runtime's own thread, and is otherwise that of production, HTTP/2 included. Limits are exact.
//!
//! Not played here, and over sockets instead: what takes processor time and not time, as time stands still meanwhile, and
//! what needs a disk.

#[path = "../tests/it/hostile/mod.rs"]
#[expect(dead_code, reason = "some are played over sockets alone")]
mod attacks;
mod stage;
#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use attacks::{
    calls, ciphertexts, floods, frames, labels, order, queries, readers, replay, transport, units,
};
use stage::play;

macro_rules! tests {
    ($($module:ident::$name:ident;)*) => { $(#[test] fn $name() { play($module::$name()); })* };
}

tests! {
    calls::uploads_and_queries_that_stop_or_drip_are_given_up;
    calls::requests_that_do_not_end_are_answered_or_end_in_time;
    ciphertexts::keys_that_are_none_are_refused_and_those_that_could_be_some_hurt_nobody;
    ciphertexts::ciphertexts_that_no_client_makes_get_a_refusal_or_a_harmless_answer;
    ciphertexts::queries_beyond_the_database_are_refused_by_the_engine_of_the_tests_too;
    floods::a_flood_of_connections_pushes_out_its_own_and_neither_members_nor_newcomers;
    floods::calls_beyond_the_limit_of_a_connection_are_reset;
    frames::messages_that_are_too_large_or_make_no_sense_get_a_status_each;
    frames::frames_beyond_the_limits_end_the_connection;
    labels::a_squatter_under_a_known_label_suppresses_nothing;
    labels::many_accounts_with_one_label_leave_four_boxes;
    labels::labels_chosen_for_one_bucket_are_spread_by_the_next_seed;
    order::nobody_registers_with_what_belongs_to_another;
    order::calls_in_the_wrong_order_say_what_is_wrong;
    order::an_upload_belongs_to_the_session_that_began_it;
    queries::queries_that_wait_keep_no_retired_round;
    readers::answers_that_are_not_read_hold_a_place_no_longer_than_a_peer_may_stand_still;
    readers::a_reader_that_drips_loses_its_place_when_it_falls_behind_the_rate;
    readers::whoever_reads_nothing_loses_the_connection_and_what_waits_for_it;
    replay::a_registration_serves_once_and_a_session_until_the_next;
    transport::connections_that_do_not_begin_or_do_not_say_who_they_are_are_closed;
    transport::connections_with_a_session_that_are_half_open_are_closed;
    units::checks_that_wait_for_memory_keep_no_retired_round;
    units::checks_that_are_read_slowly_hold_up_no_retrieval;
}
