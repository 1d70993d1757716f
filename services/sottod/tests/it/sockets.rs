//! What hostile clients try, over real sockets and on the real clock, which simulated time in `src/hostile.rs` does without:
//! in the gate one of each kind, and with `--include-ignored` all of it.

use super::hostile::{
    calls, ciphertexts, floods, frames, labels, order, queries, readers, replay, transport, units,
};
use super::stage::{attack, flood};

macro_rules! tests {
    ($($(#[$attribute:meta])* $play:ident $module:ident::$name:ident;)*) => {
        $(#[test] $(#[$attribute])* fn $name() { $play($module::$name()); })*
    };
}

tests! {
    #[ignore = "simulated in the gate"]
    attack calls::uploads_and_queries_that_stop_or_drip_are_given_up;
    attack calls::requests_that_do_not_end_are_answered_or_end_in_time;
    #[ignore = "simulated in the gate"]
    attack ciphertexts::keys_that_are_none_are_refused_and_those_that_could_be_some_hurt_nobody;
    #[ignore = "simulated in the gate"]
    attack ciphertexts::ciphertexts_that_no_client_makes_get_a_refusal_or_a_harmless_answer;
    #[ignore = "simulated in the gate"]
    attack ciphertexts::queries_beyond_the_database_are_refused_by_the_engine_of_the_tests_too;
    flood floods::a_flood_of_connections_pushes_out_its_own_and_neither_members_nor_newcomers;
    #[ignore = "simulated in the gate"]
    flood floods::calls_beyond_the_limit_of_a_connection_are_reset;
    #[ignore = "takes the machine for itself"]
    flood floods::a_flood_of_uploads_holds_up_no_retrieval;
    #[ignore = "takes the machine for itself"]
    flood floods::floods_of_challenges_registrations_and_repeated_calls_leave_the_others_alone;
    #[ignore = "simulated in the gate"]
    attack frames::messages_that_are_too_large_or_make_no_sense_get_a_status_each;
    attack frames::frames_beyond_the_limits_end_the_connection;
    #[ignore = "simulated in the gate"]
    attack labels::a_squatter_under_a_known_label_suppresses_nothing;
    #[ignore = "simulated in the gate"]
    attack labels::many_accounts_with_one_label_leave_four_boxes;
    #[ignore = "simulated in the gate"]
    attack labels::labels_chosen_for_one_bucket_are_spread_by_the_next_seed;
    #[ignore = "simulated in the gate"]
    attack order::nobody_registers_with_what_belongs_to_another;
    #[ignore = "simulated in the gate"]
    attack order::calls_in_the_wrong_order_say_what_is_wrong;
    #[ignore = "simulated in the gate"]
    attack order::an_upload_belongs_to_the_session_that_began_it;
    attack readers::answers_that_are_not_read_hold_a_place_no_longer_than_a_peer_may_stand_still;
    #[ignore = "simulated in the gate"]
    attack queries::queries_that_wait_keep_no_retired_round;
    #[ignore = "simulated in the gate"]
    attack readers::a_reader_that_drips_loses_its_place_when_it_falls_behind_the_rate;
    #[ignore = "simulated in the gate"]
    attack readers::whoever_reads_nothing_loses_the_connection_and_what_waits_for_it;
    #[ignore = "simulated in the gate"]
    attack replay::a_registration_serves_once_and_a_session_until_the_next;
    attack replay::nothing_recorded_before_a_restart_is_worth_anything_after_it;
    #[ignore = "simulated in the gate"]
    attack transport::connections_that_do_not_begin_or_do_not_say_who_they_are_are_closed;
    #[ignore = "simulated in the gate"]
    attack transport::connections_with_a_session_that_are_half_open_are_closed;
    #[ignore = "simulated in the gate"]
    attack units::checks_that_wait_for_memory_keep_no_retired_round;
    #[ignore = "simulated in the gate"]
    attack units::checks_that_are_read_slowly_hold_up_no_retrieval;
    #[ignore = "takes the machine for itself"]
    flood transport::floods_of_frames_end_with_the_connection_or_cost_only_its_sender;
}
