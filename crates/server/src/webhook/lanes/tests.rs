use super::*;

fn host(name: impl ToString) -> Arc<str> {
    name.to_string().into()
}

fn start_all(lanes: &mut Lanes<u32>) -> Vec<(Ticket, u32)> {
    std::iter::from_fn(|| lanes.next()).collect()
}

/// A host that has answered once.
fn trusted(lanes: &mut Lanes<u32>, name: &str) {
    assert!(lanes.push(&host(name), 0, usize::MAX));
    let (ticket, _) = lanes.next().unwrap();
    lanes.finished(ticket, Some(true));
}

#[test]
fn a_host_that_answers_has_eight_slots_and_others_one() {
    let mut lanes = Lanes::default();
    for job in 0..100 {
        assert!(lanes.push(&host("a"), job, usize::MAX));
    }
    let mut running = start_all(&mut lanes);
    assert_eq!(running.len(), 1);
    lanes.finished(running.pop().unwrap().0, Some(true));
    running.extend(start_all(&mut lanes));
    assert_eq!(running.len(), 8);
    for (ticket, _) in running.drain(..) {
        lanes.finished(ticket, Some(false));
    }
    let running = start_all(&mut lanes);
    assert_eq!(running.len(), 1);
    assert_eq!(running[0].1, 9, "in order");
    for (ticket, _) in running {
        lanes.finished(ticket, Some(true));
    }
    assert_eq!(start_all(&mut lanes).len(), 8, "it is back");
}

#[test]
fn dead_hosts_leave_slots_to_the_others() {
    let mut lanes = Lanes::default();
    trusted(&mut lanes, "good");
    for dead in 0..1000 {
        for job in 0..10 {
            assert!(lanes.push(&host(dead), job, usize::MAX));
        }
    }
    let dead = start_all(&mut lanes);
    assert_eq!(dead.len(), 128);
    for job in 0..20 {
        assert!(lanes.push(&host("good"), 1000 + job, usize::MAX));
    }
    let good = start_all(&mut lanes);
    assert_eq!(good.iter().map(|(_, job)| *job).collect::<Vec<_>>(), (1000..1008).collect::<Vec<_>>());
    for (ticket, _) in dead {
        lanes.finished(ticket, Some(false));
    }
    let next = start_all(&mut lanes);
    assert_eq!(next.len(), 128 + 64, "unknown ones have their share, those that failed another");
}

#[test]
fn all_slots_are_never_exceeded_and_all_jobs_are_done_once() {
    let mut lanes = Lanes::default();
    for good in 0..100 {
        trusted(&mut lanes, &good.to_string());
    }
    for job in 0..10_000 {
        assert!(lanes.push(&host(job % 100), job, usize::MAX));
    }
    let mut running = start_all(&mut lanes);
    assert_eq!(running.len(), SLOTS);
    let mut done = Vec::new();
    while let Some((ticket, job)) = running.pop() {
        done.push(job);
        lanes.finished(ticket, Some(job % 7 > 0));
        running.extend(start_all(&mut lanes));
        assert!(running.len() <= SLOTS);
    }
    done.sort_unstable();
    assert_eq!(done, (0..10_000).collect::<Vec<_>>());
    assert_eq!((lanes.waiting, lanes.busy), (0, [0; 3]));
}

#[test]
fn room_is_bounded_and_half_of_it_is_kept_for_hosts_that_answer() {
    let mut lanes = Lanes::default();
    trusted(&mut lanes, "good");
    assert!((0..20_000).filter(|job| lanes.push(&host("one"), *job, usize::MAX)).count() == DOUBTFUL_ROOM);
    let kept = (0..80_000).filter(|job| lanes.push(&host(job % 100), *job, usize::MAX)).count();
    assert_eq!(kept + DOUBTFUL_ROOM, ROOM / 2);
    assert!(!lanes.push(&host("good"), 0, 0), "the caller's own bound");
    assert_eq!((0..80_000).filter(|job| lanes.push(&host("good"), *job, usize::MAX)).count(), ROOM / 2);
    assert!(!lanes.has_room());
}

#[test]
fn idle_hosts_are_forgotten() {
    let mut lanes = Lanes::default();
    for name in 0..3 * HOSTS {
        trusted(&mut lanes, &name.to_string());
    }
    assert!(lanes.hosts.len() <= HOSTS);
}
