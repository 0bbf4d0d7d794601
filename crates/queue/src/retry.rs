//! What a failed attempt leads to: another try after a delay, or the dead letters.

use crate::refusal::Refusal;
use crate::time::Time;

/// How the wait before another attempt grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackoffPolicy {
    /// The base each time.
    Fixed,
    /// The base, times the number of attempts used.
    Linear,
    /// The base, doubled once for each attempt used.
    Exponential,
    /// Half of the exponential wait, and as much again at most, drawn at random.
    ExpEqualJitter,
    /// Between nothing and the exponential wait, drawn at random.
    ExpFullJitter,
}

impl BackoffPolicy {
    /// All of them, each with its name in the configuration.
    pub const ALL: [(&'static str, BackoffPolicy); 5] = [
        ("fixed", BackoffPolicy::Fixed),
        ("linear", BackoffPolicy::Linear),
        ("exponential", BackoffPolicy::Exponential),
        ("exp_equal_jitter", BackoffPolicy::ExpEqualJitter),
        ("exp_full_jitter", BackoffPolicy::ExpFullJitter),
    ];

    /// The policy of a name of the configuration.
    pub fn parse(name: &str) -> Option<BackoffPolicy> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }
}

/// The policy with its two numbers, in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// How the wait grows.
    pub policy: BackoffPolicy,
    /// What the wait grows from.
    pub base_seconds: u64,
    /// No wait is longer.
    pub max_seconds: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { policy: BackoffPolicy::ExpFullJitter, base_seconds: 5, max_seconds: 900 }
    }
}

impl Backoff {
    /// Seconds to wait after the `used`-th counted attempt failed. `random` is one independent, uniform draw.
    pub fn delay_seconds(&self, used: u32, random: u64) -> u64 {
        let n = used.max(1);
        match self.policy {
            BackoffPolicy::Fixed => self.base_seconds.min(self.max_seconds),
            BackoffPolicy::Linear => self.base_seconds.saturating_mul(u64::from(n)).min(self.max_seconds),
            BackoffPolicy::Exponential => self.exponential(n),
            BackoffPolicy::ExpEqualJitter => {
                let half = self.exponential(n) / 2;
                half.saturating_add(uniform(random, half))
            }
            BackoffPolicy::ExpFullJitter => uniform(random, self.exponential(n)),
        }
    }

    fn exponential(&self, n: u32) -> u64 {
        let factor = 1u64.checked_shl(n).unwrap_or(u64::MAX);
        self.base_seconds.saturating_mul(factor).min(self.max_seconds)
    }
}

/// Maps a uniform 64-bit draw onto `0..=top`.
fn uniform(random: u64, top: u64) -> u64 {
    let scaled = (u128::from(random) * (u128::from(top) + 1)) >> 64;
    u64::try_from(scaled).expect("a 64-bit draw scaled by at most 2^64 and shifted by 64 fits")
}

/// How a running attempt ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The worker said that the attempt failed.
    Nack {
        /// Above zero overrides the policy.
        delay_seconds: i64,
        /// The attempt does not count.
        refund: bool,
        /// The delay is not cut by the policy: others wait for it, too.
        is_exact: bool,
    },
    /// The worker gave the task back though nothing failed; the attempt counts.
    Abandon,
    /// Given back unharmed: the attempt does not count.
    Refund,
    /// The worker did not report in time.
    LeaseExpired,
}

impl Ending {
    /// Whether the attempt does not count against the limit.
    pub fn is_refund(self) -> bool {
        matches!(self, Ending::Refund | Ending::Nack { refund: true, .. })
    }
}

/// A nack that uses no attempt has to say when the task is tried again: without a delay it would come back at once,
/// for ever.
pub fn check_refund(refund: bool, delay_seconds: i64) -> Result<bool, Refusal> {
    match refund && delay_seconds < 1 {
        true => Err(Refusal::RefundWithoutDelay),
        false => Ok(refund),
    }
}

/// Where the task goes after an [`Ending`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It may be claimed at once.
    Ready,
    /// It waits.
    Delayed {
        /// When it may be claimed.
        until: Time,
        /// The same as a length, counted from now.
        delay_seconds: u64,
    },
    /// It is out of attempts.
    Dead,
}

/// Decides between another try and the dead letters. `used` counts this attempt too.
pub fn after(
    ending: Ending,
    used: u32,
    max_attempts: u32,
    backoff: &Backoff,
    now: Time,
    random: u64,
) -> Next {
    let spent = used >= max_attempts;
    let delay_seconds = match ending {
        Ending::Refund => return Next::Ready,
        _ if spent && !ending.is_refund() => return Next::Dead,
        Ending::Abandon => return Next::Ready,
        Ending::Nack { delay_seconds, is_exact: true, .. } => delay_seconds.unsigned_abs(),
        Ending::Nack { delay_seconds, .. } if delay_seconds > 0 => {
            delay_seconds.unsigned_abs().min(backoff.max_seconds)
        }
        Ending::Nack { .. } | Ending::LeaseExpired => backoff.delay_seconds(used, random),
    };
    match delay_seconds {
        0 => Next::Ready,
        _ => Next::Delayed { until: now.plus_seconds(delay_seconds), delay_seconds },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(policy: BackoffPolicy, base_seconds: u64, max_seconds: u64) -> Backoff {
        Backoff { policy, base_seconds, max_seconds }
    }

    #[test]
    fn delays_of_every_policy() {
        use BackoffPolicy::*;
        for (policy, n, lowest, highest) in [
            (Fixed, 1, 5, 5),
            (Fixed, 9, 5, 5),
            (Linear, 0, 5, 5),
            (Linear, 3, 15, 15),
            (Linear, 1000, 900, 900),
            (Exponential, 1, 10, 10),
            (Exponential, 3, 40, 40),
            (Exponential, 30, 900, 900),
            (ExpEqualJitter, 1, 5, 10),
            (ExpEqualJitter, 40, 450, 900),
            (ExpFullJitter, 1, 0, 10),
            (ExpFullJitter, 200, 0, 900),
        ] {
            let backoff = backoff(policy, 5, 900);
            assert_eq!(backoff.delay_seconds(n, 0), lowest, "{policy:?} {n} lowest");
            assert_eq!(backoff.delay_seconds(n, u64::MAX), highest, "{policy:?} {n} highest");
        }
    }

    #[test]
    fn odd_maximum_halves_downwards() {
        let backoff = backoff(BackoffPolicy::ExpEqualJitter, 5, 7);
        assert_eq!((backoff.delay_seconds(1, 0), backoff.delay_seconds(1, u64::MAX)), (3, 6));
    }

    #[test]
    fn huge_numbers_saturate_and_never_panic() {
        for (_, policy) in BackoffPolicy::ALL {
            for base in [0, 1, u64::MAX] {
                for max in [0, 1, u64::MAX] {
                    for n in [0, 1, 63, 64, 65, u32::MAX] {
                        for random in [0, 1 << 63, u64::MAX] {
                            let delay = backoff(policy, base, max).delay_seconds(n, random);
                            assert!(delay <= max, "{policy:?} {base} {max} {n}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_ending_leads_where_the_state_machine_says() {
        let fixed = backoff(BackoffPolicy::Fixed, 5, 900);
        let zero = backoff(BackoffPolicy::Fixed, 0, 900);
        let now = Time::from_millis(1_000);
        let in_seconds = |s| Next::Delayed { until: now.plus_seconds(s), delay_seconds: s };
        let nack = |delay_seconds| Ending::Nack { delay_seconds, refund: false, is_exact: false };
        let refunded = |delay_seconds| Ending::Nack { delay_seconds, refund: true, is_exact: false };
        for (ending, used, max, backoff, next) in [
            (nack(0), 1, 2, fixed, in_seconds(5)),
            (nack(-3), 1, 2, fixed, in_seconds(5)),
            (nack(7), 1, 2, fixed, in_seconds(7)),
            (nack(i64::MAX), 1, 2, fixed, in_seconds(900)),
            (nack(0), 1, 2, zero, Next::Ready),
            (nack(7), 2, 2, fixed, Next::Dead),
            (nack(0), 1, 1, fixed, Next::Dead),
            (refunded(7), 2, 2, fixed, in_seconds(7)),
            (refunded(i64::MAX), 1, 2, fixed, in_seconds(900)),
            (Ending::Abandon, 1, 2, fixed, Next::Ready),
            (Ending::Abandon, 2, 2, fixed, Next::Dead),
            (Ending::Refund, 2, 2, fixed, Next::Ready),
            (Ending::LeaseExpired, 1, 2, fixed, in_seconds(5)),
            (Ending::LeaseExpired, 1, 2, zero, Next::Ready),
            (Ending::LeaseExpired, 3, 2, fixed, Next::Dead),
        ] {
            assert_eq!(after(ending, used, max, &backoff, now, 0), next, "{ending:?} {used}/{max}");
        }
    }

    #[test]
    fn policies_are_known_by_name() {
        assert_eq!(BackoffPolicy::parse("linear"), Some(BackoffPolicy::Linear));
        assert_eq!(BackoffPolicy::parse("Linear"), None);
    }
}
