use super::*;

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
