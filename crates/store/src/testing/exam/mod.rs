//! The exam that every store sits: each row of the contract's semantics, as tests against
//! [`codeq_queue::Store`] alone.
//!
//! A backend joins by giving an [`Open`] and writing `codeq_store::exam!(its_open());` in a test module: every
//! case becomes a test of its own. The cases move a manual clock and never sleep to hide a race; they lean on
//! one promise beyond the trait's text, namely that a store answers no command before every timer due by then
//! has acted.
//!
//! Not examined: speed, behaviour on broken disks, and what happens between calls that overlap, apart from
//! the promises that hold under any interleaving.

pub mod bench;
pub mod candidate;
pub mod request;

pub mod auditing;
pub mod backoff;
pub mod batches;
pub mod catalogue;
pub mod claiming;
pub mod clock;
pub mod counting;
pub mod creating;
pub mod dependencies;
pub mod expiry;
pub mod grouping;
pub mod guards;
pub mod idempotency;
pub mod importing;
pub mod listing;
pub mod operations;
pub mod operators;
pub mod order;
pub mod outbox;
pub mod pausing;
pub mod policies;
pub mod reopening;
pub mod results;
pub mod retention;
pub mod returning;
pub mod running_now;
pub mod schedule_notes;
pub mod schedules;
pub mod stopping;
pub mod unique;
pub mod waiting;

pub use candidate::{Candidate, Open, START};

/// One test per case against the candidate that `$open`, an expression of type [`Open`], gives.
#[macro_export]
macro_rules! exam {
    ($open:expr) => {
        $crate::exam! { @topics $open;
            creating {
                a_created_task_is_ready,
                a_task_with_a_delay_is_delayed,
                a_delayed_task_becomes_ready_at_its_instant_and_not_a_millisecond_early,
                run_at_names_the_instant,
                an_instant_that_has_passed_means_now,
                everything_the_producer_gave_comes_back_unchanged,
                a_payload_of_a_megabyte_is_kept_exactly,
                every_task_has_its_own_id,
                an_unknown_id_names_nothing,
            }
            claiming {
                a_claim_lends_the_task_to_its_caller,
                a_running_task_is_not_lent_again,
                a_claim_that_finds_nothing_is_empty,
                commands_are_compared_without_case_and_kept_as_spelled,
                commands_that_look_alike_are_different_queues,
                a_claim_of_several_takes_what_is_there_and_spans_commands,
                a_claim_of_any_command_of_several_spans_queues,
                attempts_count_deliveries_and_the_error_is_kept_by_a_claim,
                a_thousand_tasks_are_claimed_once_each_by_many_threads,
            }
            returning {
                a_nacked_task_waits_and_comes_back,
                a_nack_with_no_delay_is_ready_at_once,
                a_nack_with_a_refund_uses_no_attempt_and_never_kills,
                a_blank_reason_keeps_the_error,
                a_long_reason_is_cut,
                an_explicit_delay_bypasses_the_policy_and_is_clamped,
                an_abandoned_task_is_ready_at_once_with_its_error_kept,
                a_refund_does_not_count_and_never_kills,
                a_task_with_one_attempt_dies_of_its_first_nack,
                a_task_with_one_attempt_dies_of_its_first_abandon,
                a_nack_without_a_reason_dies_of_max_attempts,
                a_task_with_three_attempts_dies_of_the_third,
                refunds_do_not_bring_the_end_nearer_or_further,
            }
            backoff {
                a_fixed_backoff_is_always_the_base,
                a_fixed_backoff_is_at_most_the_maximum,
                a_linear_backoff_grows_by_the_base,
                an_exponential_backoff_doubles,
                an_equal_jitter_is_between_half_and_whole,
                a_full_jitter_is_between_nothing_and_whole,
                a_backoff_counts_used_attempts_only,
                an_expired_lease_waits_by_the_policy,
            }
            expiry {
                a_lease_ends_at_its_deadline_and_not_a_millisecond_early,
                an_expired_task_without_backoff_is_ready_at_once,
                an_expiry_of_the_last_attempt_kills,
                three_expiries_kill_a_task_with_three_attempts,
                a_heartbeat_moves_the_deadline_forward,
                a_heartbeat_may_shorten_the_lease,
                a_report_at_the_deadline_is_too_late,
                the_first_worker_cannot_end_the_second_delivery,
                leases_end_in_the_order_of_their_deadlines,
                the_longest_lease_lasts_its_twelve_hours,
                a_finished_task_is_left_alone_by_its_old_deadline,
            }
            guards {
                an_unknown_id_is_not_found,
                the_id_of_another_tenant_is_not_found,
                cancelled_is_said_before_everything_else,
                a_wrong_attempt_is_a_lost_lease_in_any_state,
                a_task_that_is_not_running_is_not_in_progress,
                subject_and_worker_id_must_both_be_the_owners,
                the_guards_come_before_the_content_of_a_result,
            }
            results {
                a_completed_task_keeps_its_result_exactly,
                a_completed_task_keeps_the_error_of_its_last_failed_attempt,
                a_failed_task_is_final_and_not_a_dead_letter,
                the_content_of_a_result_is_checked_in_order,
                a_result_is_written_once,
                a_result_of_another_tenant_is_not_found,
                a_waiting_producer_is_told_of_a_result,
                a_waiting_producer_is_told_of_a_dead_letter,
                a_waiting_producer_is_told_of_a_cancellation,
                a_wait_for_a_result_ends_pending_at_its_instant,
                waiting_for_an_unknown_task_ends_at_once,
            }
            order {
                tasks_leave_in_the_order_they_came,
                tasks_of_a_batch_leave_in_the_order_of_the_batch,
                a_higher_priority_always_comes_first,
                a_late_high_priority_overtakes,
                what_comes_back_joins_the_tail,
                what_comes_back_keeps_its_priority,
                promoted_tasks_join_the_tail_in_the_order_of_their_instants,
                a_task_created_after_a_promotion_stands_behind_it,
                the_first_named_command_with_work_wins,
                any_command_means_the_highest_priority_first,
                any_command_at_equal_priority_means_the_earliest_created_head,
                any_command_prefers_the_older_task_even_if_it_came_back_later,
            }
            idempotency {
                a_replay_shows_the_task_as_it_is_now,
                a_key_is_scoped_by_tenant_and_command,
                keys_are_compared_byte_by_byte,
                tasks_without_a_key_are_never_replays,
                of_many_racing_creates_exactly_one_makes_a_task,
                the_second_of_two_in_one_batch_is_a_replay,
                a_key_is_freed_when_the_retention_of_its_task_ends,
                a_dead_letter_keeps_its_key_until_it_is_removed,
                a_cancelled_task_keeps_its_key_and_cleanup_frees_it,
            }
            listing {
                a_listing_shows_every_task_of_the_tenant_as_it_is,
                a_listing_runs_from_the_oldest_or_from_the_newest,
                a_listing_of_all_tenants_names_them,
                a_filter_finds_what_it_says,
                pages_have_every_task_exactly_once_while_tasks_move,
                a_cursor_of_another_kind_is_refused,
                a_large_payload_is_listed_exactly,
                what_is_over_is_not_listed,
                a_ready_task_knows_who_is_ahead,
            }
            importing {
                an_imported_task_keeps_its_id_and_can_be_worked,
                imported_tasks_wait_die_and_end_as_they_did,
                an_imported_task_is_found_after_a_reopening,
                an_imported_task_keeps_its_checkpoint,
                an_import_does_not_take_the_key_of_another,
            }
            operations {
                an_operation_is_kept_and_changed_version_by_version,
                an_operation_survives_a_reopening,
                what_operators_did_is_listed_by_page_and_filter,
                what_operators_did_survives_a_reopening,
            }
            batches {
                an_empty_batch_is_answered_by_nothing,
                a_batch_of_creates_may_span_tenants_and_commands,
                a_refused_report_does_not_touch_its_neighbours,
                a_refused_result_does_not_touch_its_neighbours,
                the_second_of_two_results_for_one_task_is_not_in_progress,
                operators_work_in_batches_too,
            }
            waiting {
                a_held_claim_is_answered_by_a_create,
                a_held_claim_is_answered_by_a_promotion,
                a_held_claim_is_answered_by_what_comes_back,
                a_held_claim_is_answered_by_a_requeued_dead_letter,
                a_held_claim_is_answered_by_a_resume,
                a_held_claim_of_several_is_answered_by_the_first,
                waiters_are_served_in_the_order_they_came,
                one_batch_serves_every_waiter_once,
                a_dropped_waiter_takes_nothing,
                a_waiter_takes_nothing_of_other_queues_and_tenants,
                a_bounded_wait_ends_empty_at_its_instant,
                a_bounded_wait_is_answered_by_work,
                a_wait_until_an_instant_that_has_passed_is_no_wait,
            }
            pausing {
                claims_pass_a_paused_queue_over,
                everything_else_goes_on_in_a_paused_queue,
                a_held_claim_passes_a_paused_queue_over,
                a_pause_is_for_one_tenant_and_one_command,
                pausing_twice_is_pausing_once,
                a_queue_without_tasks_can_be_paused,
                the_order_is_kept_through_a_pause,
            }
            retention {
                ended_tasks_stay_readable_to_the_last_millisecond,
                retention_counts_from_the_end_and_not_from_the_creation,
                live_tasks_are_kept_however_old,
                dead_letters_stay_for_ever_unless_told_otherwise,
                dead_letters_go_when_their_own_retention_ends,
                a_requeued_dead_letter_is_not_removed_by_its_old_retention,
                cleanup_removes_what_ends_by_the_given_instant,
                cleanup_removes_no_more_than_its_limit,
                cleanup_spares_live_tasks_dead_letters_and_other_tenants,
            }
            operators {
                a_ready_task_can_be_cancelled,
                a_delayed_task_can_be_cancelled,
                a_running_task_can_be_cancelled_and_its_owner_is_told,
                what_has_ended_cannot_be_cancelled,
                a_requeued_dead_letter_has_a_full_set_of_attempts,
                a_requeue_may_change_the_number_of_attempts,
                a_requeued_dead_letter_can_be_completed,
                a_requeued_dead_letter_joins_the_tail,
                a_removed_dead_letter_is_gone,
                what_has_failed_or_was_cancelled_can_be_requeued,
                a_requeued_failure_outlives_its_old_retention,
                only_dead_letters_are_removed_and_only_failures_requeued,
                operators_do_not_reach_other_tenants,
                the_history_tells_how_every_attempt_ended,
                the_history_tells_of_running_completed_and_cancelled_attempts,
                the_history_remembers_the_last_twenty,
                the_history_outlives_a_requeue,
            }
            running_now {
                a_delayed_task_is_ready_at_once_and_joins_the_tail,
                a_task_that_waits_for_its_retry_is_ready_at_once,
                a_ready_task_stays_as_it_is,
                what_does_not_wait_for_its_time_is_not_made_ready,
                a_waiting_claim_gets_what_is_run_now,
            }
            counting {
                the_counts_follow_every_transition,
                the_counts_of_the_dead_and_the_failed,
                an_unknown_queue_counts_nothing,
                a_queue_tells_its_oldest_task_its_last_claim_and_its_newest_spelling,
                tenants_do_not_see_each_other,
                queues_are_listed_for_one_tenant_or_for_all,
            }
            catalogue {
                a_topic_is_put_read_and_deleted,
                a_put_that_changes_nothing_counts_no_version,
                topics_belong_to_one_tenant,
                a_subscription_is_kept_as_asked,
                a_malformed_subscription_is_refused,
                a_tenant_has_a_bounded_number_of_subscriptions,
                subscriptions_of_all_tenants_are_listed_in_creation_order,
                an_expired_subscription_is_gone_and_cannot_be_renewed,
                a_renewal_counts_from_now,
                a_subscription_of_another_tenant_cannot_be_renewed,
            }
            outbox {
                a_large_body_is_asked_for_alone,
                a_result_is_called_back_with_its_exact_text,
                every_end_is_called_back,
                retries_refusals_and_retention_are_not_called_back,
                a_task_without_a_webhook_calls_no_one,
                nothing_is_stored_when_callbacks_are_off,
                a_requeued_dead_letter_calls_back_again,
                a_taken_callback_is_held,
                a_delivered_callback_is_gone,
                a_callback_to_retry_is_due_when_said,
                a_failed_callback_is_kept_for_a_week,
                a_failed_callback_can_be_redelivered,
                callbacks_outlive_their_task,
                callbacks_are_listed_by_tenant_in_pages,
            }
            clock {
                a_step_back_loses_no_task,
                a_step_back_does_not_bring_a_delay_forward,
                a_lease_given_before_a_step_back_ends_at_its_deadline,
                the_times_of_a_record_never_go_back,
                order_survives_a_step_back,
                a_jump_over_many_instants_acts_on_all_of_them,
            }
            reopening {
                every_task_is_found_as_it_was,
                the_order_is_kept,
                a_claimed_task_is_submitted_after_reopening,
                deadlines_and_delays_keep_running,
                what_came_due_while_it_was_closed_acts_at_once,
                keys_and_pauses_are_kept,
                counts_are_kept,
                topics_and_subscriptions_are_kept,
                callbacks_are_kept_with_their_counters,
                removed_tasks_stay_removed,
                reopening_again_and_again_changes_nothing,
                closing_answers_who_waits_and_refuses_who_comes_later,
            }
        }
    };
    (@flow $open:expr) => {
        $crate::exam! { @topics $open;
            stopping {
                a_task_that_nobody_claims_in_time_fails,
                a_task_whose_time_has_passed_expires_at_once,
                a_task_that_was_claimed_does_not_expire,
                a_task_run_now_still_expires,
                a_lease_never_outlives_the_longest_run,
                a_cancel_with_grace_lets_the_owner_finish,
                a_cancelled_task_ends_at_its_deadline,
                giving_a_cancelled_task_back_ends_it,
                a_cancel_with_grace_ends_what_does_not_run,
                checkpoints_reach_the_next_attempt_and_progress_who_asks,
                cancels_checkpoints_and_expiries_are_kept,
            }
            auditing {
                a_deed_takes_its_record_along,
                what_was_refused_leaves_no_record,
            }
            unique {
                a_second_create_finds_the_holder_until_it_ends,
                a_deduplicated_create_stores_no_idempotency_key,
                a_key_until_the_start_is_free_after_the_first_claim,
                a_key_for_some_time_outlives_its_task,
                a_later_create_replaces_what_nobody_has_claimed,
                a_later_create_cancels_the_holder,
                a_create_that_is_refused_leaves_the_holder_alone,
                unique_keys_and_replaced_payloads_are_kept,
                a_requeue_takes_the_key_again_or_is_refused,
                a_requeue_leaves_a_key_that_was_for_the_first_claim_alone,
                a_requeue_leaves_a_key_whose_time_is_over_alone,
            }
        }
    };
    (@topics $open:expr; $($topic:ident { $($case:ident,)* })*) => {
        $(mod $topic {
            #[allow(unused_imports, reason = "what the expression names is in scope where the macro is used")]
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::testing::exam::$topic::$case($open).await;
                }
            )*
        })*
    };
}

/// The part of the exam for stores that keep schedules.
#[macro_export]
macro_rules! exam_schedules {
    ($open:expr) => {
        $crate::exam! { @topics $open;
            schedules {
                every_tick_makes_a_task,
                a_tick_is_skipped_while_the_task_before_lives,
                a_tick_cancels_the_task_before_if_asked_to,
                missed_ticks_are_caught_up_with,
                a_paused_schedule_makes_and_misses_nothing,
                a_trigger_makes_a_task_besides_the_plan,
                a_trigger_and_a_tick_pass_a_full_queue,
                tasks_of_schedules_have_the_attempts_of_the_policy,
                a_put_creates_changes_or_leaves_alone,
                a_deleted_schedule_does_not_tick,
                schedules_are_listed_by_name_within_their_tenant,
                a_backfill_makes_each_task_once,
                many_that_fall_due_together_tick_once_each,
                schedules_are_found_again_after_reopening,
            }
            schedule_notes {
                a_change_of_a_schedule_takes_its_record_along,
            }
        }
    };
}

/// The part of the exam for stores that keep queue policies.
#[macro_export]
macro_rules! exam_policies {
    ($open:expr) => {
        $crate::exam! { @topics $open;
            policies {
                a_flood_in_one_lane_delays_others_by_one_task,
                tasks_that_waited_before_there_were_lanes_take_part,
                tasks_of_lanes_that_are_held_or_delayed_take_their_turn,
                a_policy_counts_at_once_in_very_many_lanes,
                lanes_are_served_by_weight_and_within_them_by_priority,
                no_more_run_than_the_queue_allows,
                no_more_of_a_lane_run_than_it_may,
                starts_keep_to_the_rate,
                lanes_have_rates_of_their_own,
                a_lane_that_was_emptied_keeps_to_its_rate,
                an_ordered_lane_serves_its_oldest_task_alone,
                the_order_changes_only_in_an_empty_queue,
                a_nack_holds_back_its_lane_or_its_queue,
                tasks_without_a_lane_are_listed_as_one,
                a_full_queue_takes_no_creates,
                a_queue_has_defaults_of_its_own,
                policies_are_put_read_and_deleted,
                limits_hold_over_a_restart,
            }
        }
    };
}

/// The part of the exam for stores that keep batches.
#[macro_export]
macro_rules! exam_batches {
    ($open:expr) => {
        $crate::exam! { @topics $open;
            dependencies {
                a_task_waits_for_another,
                a_delay_counts_from_the_release,
                the_last_of_a_diamond_waits_for_both_sides,
                a_long_chain_runs_in_order,
                a_failure_fails_all_that_follows,
                a_failure_lets_those_run_that_asked_for_it,
                every_end_but_success_counts_as_failure,
                what_has_ended_before_counts_at_once,
                what_nobody_knows_is_refused,
                held_tasks_can_be_cancelled_and_expire,
                a_requeued_task_waits_for_nothing,
                very_many_are_released_by_one,
                held_tasks_are_kept,
            }
            grouping {
                a_batch_without_members_completes_when_it_closes,
                a_task_after_a_batch_runs_once,
                a_batch_with_a_failure_fails,
                a_batch_that_nobody_joins_closes_by_itself,
                a_closed_batch_takes_no_more_members,
                a_cancelled_batch_cancels_its_members,
                a_requeued_member_counts_again_or_leaves,
                batches_belong_to_one_tenant_and_go_when_their_time_is_over,
                a_batch_survives_reopening_in_the_middle,
                members_are_found_by_their_batch,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that is written but not listed above would never run.
    #[test]
    fn every_case_is_in_the_list() {
        let list = include_str!("mod.rs");
        let sources = [
            include_str!("creating.rs"),
            include_str!("claiming.rs"),
            include_str!("returning.rs"),
            include_str!("backoff.rs"),
            include_str!("expiry.rs"),
            include_str!("guards.rs"),
            include_str!("results.rs"),
            include_str!("order.rs"),
            include_str!("idempotency.rs"),
            include_str!("batches.rs"),
            include_str!("waiting.rs"),
            include_str!("pausing.rs"),
            include_str!("retention.rs"),
            include_str!("operators.rs"),
            include_str!("counting.rs"),
            include_str!("catalogue.rs"),
            include_str!("outbox.rs"),
            include_str!("clock.rs"),
            include_str!("reopening.rs"),
            include_str!("auditing.rs"),
            include_str!("policies.rs"),
            include_str!("schedules.rs"),
            include_str!("schedule_notes.rs"),
            include_str!("stopping.rs"),
            include_str!("unique.rs"),
            include_str!("dependencies.rs"),
            include_str!("grouping.rs"),
        ];
        let mut cases = 0;
        for line in sources.iter().flat_map(|source| source.lines()) {
            let name =
                line.strip_prefix("pub async fn ").and_then(|rest| rest.strip_suffix("(open: Open) {"));
            let Some(name) = name else { continue };
            assert!(list.contains(&format!("                {name},\n")), "{name} is not listed");
            cases += 1;
        }
        assert!(cases > 100, "the cases were found");
    }
}
