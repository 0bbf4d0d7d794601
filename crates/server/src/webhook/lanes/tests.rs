use super::*;

fn host(name: impl ToString) -> Arc<str> {
    name.to_string().into()
}

fn tenant() -> Arc<str> {
    "acme".into()
}

fn start_all(lanes: &mut Lanes<u32>) -> Vec<(Ticket, u32)> {
    std::iter::from_fn(|| lanes.next()).collect()
}

/// A host that has answered once.
fn trusted(lanes: &mut Lanes<u32>, name: &str) {
    assert!(lanes.push(&tenant(), &host(name), 0, usize::MAX));
    let (ticket, _) = lanes.next().unwrap();
    lanes.finished(ticket, Some(true));
}

#[test]
fn a_host_that_answers_has_eight_slots_and_others_one() {
    let mut lanes = Lanes::default();
    for job in 0..100 {
        assert!(lanes.push(&tenant(), &host("a"), job, usize::MAX));
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
            assert!(lanes.push(&tenant(), &host(dead), job, usize::MAX));
        }
    }
    let dead = start_all(&mut lanes);
    assert_eq!(dead.len(), 128, "half of the slots are for new hosts of one tenant");
    for job in 0..20 {
        assert!(lanes.push(&tenant(), &host("good"), 1000 + job, usize::MAX));
    }
    let good = start_all(&mut lanes);
    assert_eq!(good.iter().map(|(_, job)| *job).collect::<Vec<_>>(), (1000..1008).collect::<Vec<_>>());
    for (ticket, _) in dead {
        lanes.finished(ticket, Some(false));
    }
    let next = start_all(&mut lanes);
    assert_eq!(next.len(), 128 + 32, "unknown ones have their share, those that failed another");
}

#[test]
fn all_slots_are_never_exceeded_and_all_jobs_are_done_once() {
    let mut lanes = Lanes::default();
    for good in 0..100 {
        trusted(&mut lanes, &good.to_string());
    }
    for job in 0..10_000 {
        assert!(lanes.push(&tenant(), &host(job % 100), job, usize::MAX));
    }
    let mut running = start_all(&mut lanes);
    assert_eq!(running.len(), TENANT_SLOTS);
    let mut done = Vec::new();
    while let Some((ticket, job)) = running.pop() {
        done.push(job);
        lanes.finished(ticket, Some(job % 7 > 0));
        running.extend(start_all(&mut lanes));
        assert!(running.len() <= TENANT_SLOTS);
    }
    done.sort_unstable();
    assert_eq!(done, (0..10_000).collect::<Vec<_>>());
    assert_eq!((lanes.waiting, lanes.busy), (0, [0; 3]));
    assert!(lanes.tenants.is_empty() && lanes.lists.iter().all(|list| list.hosts.is_empty()));
}

#[test]
fn room_is_bounded_and_half_of_it_is_kept_for_hosts_that_answer() {
    let mut lanes = Lanes::default();
    trusted(&mut lanes, "good");
    let kept = (0..20_000).filter(|job| lanes.push(&tenant(), &host("one"), *job, usize::MAX)).count();
    assert_eq!(kept, DOUBTFUL_ROOM);
    let kept = (0..20_000).filter(|job| lanes.push(&tenant(), &host(job % 100), *job, usize::MAX)).count();
    assert_eq!(kept + DOUBTFUL_ROOM, TENANT_DOUBTFUL_ROOM);
    let others = (0..80_000).filter(|job| lanes.push(&host(job % 10), &host(job % 100), *job, usize::MAX));
    assert_eq!(others.count() + TENANT_DOUBTFUL_ROOM, ROOM / 2);
    assert!(!lanes.push(&tenant(), &host("good"), 0, 0), "the caller's own bound");
    let kept = (0..80_000).filter(|job| lanes.push(&tenant(), &host("good"), *job, usize::MAX)).count();
    assert_eq!(kept + TENANT_DOUBTFUL_ROOM, TENANT_ROOM);
    let kept = (0..80_000).filter(|job| lanes.push(&host("globex"), &host("good"), *job, usize::MAX)).count();
    assert_eq!(kept + TENANT_ROOM - TENANT_DOUBTFUL_ROOM, ROOM / 2);
    assert!(!lanes.has_room());
}

/// With 5,000 dead hosts of one tenant, a receiver that another tenant called for the first time got nothing in
/// 90 s: hosts of which nothing is known had one line for all tenants.
#[test]
fn a_new_receiver_of_another_tenant_is_called_at_once() {
    let mut lanes = Lanes::default();
    for dead in 0..5_000 {
        assert!(lanes.push(&host("hostile"), &host(dead), dead, usize::MAX));
    }
    let dead = start_all(&mut lanes);
    assert!(lanes.push(&tenant(), &host("receiver"), 9_999, usize::MAX));
    assert_eq!(start_all(&mut lanes).iter().map(|(_, job)| *job).collect::<Vec<_>>(), [9_999]);
    // When all have failed once, and are tried again, too.
    for (ticket, job) in dead {
        lanes.finished(ticket, Some(false));
        assert!(lanes.push(&host("hostile"), &host(job), job, usize::MAX));
    }
    start_all(&mut lanes);
    assert!(lanes.push(&tenant(), &host("second"), 8_888, usize::MAX));
    assert_eq!(start_all(&mut lanes).iter().map(|(_, job)| *job).collect::<Vec<_>>(), [8_888]);
}

#[test]
fn tenants_take_turns_at_a_host_that_both_call() {
    let mut lanes = Lanes::default();
    trusted(&mut lanes, "shared");
    for job in 0..1000 {
        assert!(lanes.push(&host("hostile"), &host("shared"), job, usize::MAX));
    }
    let mut running = start_all(&mut lanes);
    assert_eq!(running.len(), HOST_SLOTS);
    assert!(lanes.push(&tenant(), &host("shared"), 5_000, usize::MAX));
    for _ in 0..2 {
        let (ticket, _) = running.remove(0);
        lanes.finished(ticket, Some(true));
        running.extend(start_all(&mut lanes));
    }
    assert!(running.iter().any(|(_, job)| *job == 5_000));
}

#[test]
fn idle_hosts_are_forgotten() {
    let mut lanes = Lanes::default();
    for name in 0..3 * HOSTS {
        trusted(&mut lanes, &name.to_string());
    }
    assert!(lanes.hosts.len() <= HOSTS);
}
