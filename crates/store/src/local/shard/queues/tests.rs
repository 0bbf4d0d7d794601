use super::*;
use crate::local::shard::slots::NewSlot;
use codeq_queue::State;

/// From ten thousand queues on, every new one looked at all others: a producer of many commands made the creates of
/// everyone slow.
#[test]
fn a_new_queue_costs_the_same_however_many_are_in_use() {
    let (mut queues, tenant): (Queues, Arc<str>) = (Queues::default(), "acme".into());
    let mut most = 0;
    for number in 0..3 * REMEMBERED {
        let before = queues.next_look;
        let id = queues.intern(&tenant, &format!("command-{number}"));
        queues.at_mut(id).delayed = 1;
        most = most.max(queues.next_look.saturating_sub(before));
    }
    assert!(most <= LOOKED_AT, "{most} were looked at for one");
    assert_eq!(queues.iter().count(), 3 * REMEMBERED, "none of them is idle");
}

#[test]
fn idle_queues_go_and_leave_nothing_behind() {
    let mut queues = Queues::default();
    for number in 0..20 * REMEMBERED {
        let tenant: Arc<str> = format!("tenant-{}", number % 100).into();
        let id = queues.intern(&tenant, &format!("command-{number}"));
        let mut list = List::default();
        list.len = 1;
        queues.set_list(id, PLAIN, 0, list);
        queues.set_list(id, PLAIN, 0, List::default());
    }
    assert!(queues.all.len() <= 2 * REMEMBERED, "{} entries", queues.all.len());
    assert!(queues.tenants.len() <= 100);
    let used: Vec<u32> =
        (0..).zip(&queues.all).filter(|(_, queue)| queue.is_used).map(|(id, _)| id).collect();
    for id in used {
        let key = queues.at(id).key.clone();
        assert_eq!(queues.find(&key.tenant, &key.command), Some(id));
    }
}

/// What an idle queue costs while it is remembered.
#[test]
fn a_queue_takes_less_than_three_hundred_bytes() {
    assert!(size_of::<Queue>() <= 300, "{} bytes", size_of::<Queue>());
}

/// Adds a ready task to a queue, or takes its only one.
fn set_ready(queues: &mut Queues, slots: &mut Slots, id: u32, no: u64, is_ready: bool) {
    let mut list = queues.list(id, PLAIN, 0);
    match is_ready {
        true => {
            let state = State::Ready { seq: no };
            let slot = slots.insert(NewSlot {
                no,
                tail: 0,
                created_at: Time::from_millis(no as i64),
                queue: id,
                lane: PLAIN,
                priority: 0,
                max_attempts: 1,
                state,
                extra: None,
                detail: None,
            });
            slots.push_back(&mut list, slot);
        }
        false => {
            let slot = list.first().expect("it has one");
            slots.unlink(&mut list, slot);
            slots.remove(slot);
        }
    }
    queues.set_list(id, PLAIN, 0, list);
    queues.head_changed(id, slots, Time::ZERO);
}

/// A fair claim of any command asked for every command with something to claim.
#[test]
fn some_of_very_many_ready_commands_are_drawn_evenly_and_without_looking_at_all() {
    let (mut queues, mut slots, tenant) = (Queues::default(), Slots::new(), Arc::<str>::from("acme"));
    const READY: u64 = 50_000;
    for no in 1..=READY {
        let id = queues.intern(&tenant, &format!("command-{no}"));
        set_ready(&mut queues, &mut slots, id, no, true);
    }
    let named = ["command-7".into(), "none".into()];
    let (mut state, mut drawn, mut of_first_half) = (9_u64, 0, 0);
    for _ in 0..100 {
        let draw = || {
            drawn += 1;
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        let ready = queues.ready_commands("acme", &named, 100, (&slots, Time::ZERO), draw);
        assert_eq!((ready.named.len(), ready.others.len(), ready.other_count), (1, 100, READY - 1));
        let number = |command: &Arc<str>| command["command-".len()..].parse::<u64>().unwrap();
        let mut numbers: Vec<u64> = ready.others.iter().map(number).collect();
        of_first_half += numbers.iter().filter(|number| **number <= READY / 2).count();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == 100 && !numbers.contains(&7));
    }
    assert!(drawn <= 100 * 102, "{drawn} queues were looked at");
    assert!((4_600..5_400).contains(&of_first_half), "{of_first_half} of 10,000");
}

/// Whatever comes and goes: what is known of heads is what a look at every queue finds.
#[test]
fn the_heads_of_many_queues_are_those_that_a_search_finds() {
    let (mut queues, mut slots, tenant) = (Queues::default(), Slots::new(), Arc::<str>::from("acme"));
    let mut state = 5_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let ids: Vec<u32> = (0..300).map(|number| queues.intern(&tenant, &format!("c{number}"))).collect();
    // Waves, so that heads begin and cease to be kept in order.
    for no in 1..20_000_u64 {
        let id = ids[random(300) as usize];
        let wants_ready = random(100) < if no / 2_000 % 2 == 0 { 70 } else { 5 };
        match queues.at(id).ready {
            0 if wants_ready => set_ready(&mut queues, &mut slots, id, no, true),
            1.. if !wants_ready => set_ready(&mut queues, &mut slots, id, no, false),
            _ => {}
        }
        if random(50) == 0 {
            let is_paused = !queues.at(id).is_paused;
            queues.at_mut(id).is_paused = is_paused;
            queues.head_changed(id, &slots, Time::ZERO);
        }
        let now = Time::ZERO;
        let found = ids.iter().filter_map(|id| queues.at(*id).head(&slots, now));
        let best = found.min_by_key(|slot_id| slots.at(*slot_id).created_at);
        assert_eq!(queues.best_head("acme", &slots, now), best);
        let all = ids.iter().filter(|id| queues.at(**id).head(&slots, now).is_some()).count() as u64;
        let ready = queues.ready_commands("acme", &[], 1_000, (&slots, now), || random(u64::MAX));
        assert_eq!((ready.other_count, ready.others.len() as u64), (all, all));
    }
}

#[test]
fn queues_are_counted_some_at_a_time() {
    let (mut queues, tenant): (Queues, Arc<str>) = (Queues::default(), "acme".into());
    for number in 0..1_000 {
        queues.intern(&tenant, &format!("command-{number}"));
    }
    let (mut seen, mut from) = (0, Some(0));
    while let Some(at) = from {
        let (some, next) = queues.page(at, 64);
        let some = some.count();
        assert!(some <= 64);
        (seen, from) = (seen + some, next);
    }
    assert_eq!((seen, queues.page(5_000, 64).0.count(), queues.page(5_000, 64).1), (1_000, 0, None));
}
