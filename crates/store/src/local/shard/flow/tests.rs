use super::*;

#[test]
fn a_lane_costs_less_than_two_hundred_bytes_besides_its_name() {
    let in_order = size_of::<(u64, u64, LaneId)>() * 3 / 2;
    let in_index = 8;
    let list = size_of::<(u8, List)>();
    let bytes = size_of::<TaskLane>() + in_order + in_index + list;
    assert!(bytes <= 200, "{bytes}");
}

#[test]
fn lists_of_a_lane_are_kept_by_priority() {
    let mut flow = QueueFlow::default();
    let lane = flow.intern("a");
    let one = |len| List::sized(len);
    for priority in [3, 9, 0] {
        flow.set_list(lane, priority, one(2));
    }
    let known: Vec<u8> = flow.lanes[0].lists.iter().map(|(priority, _)| *priority).collect();
    assert_eq!(known, [9, 3, 0]);
    flow.set_list(lane, 9, one(0));
    assert_eq!((flow.lanes[0].ready, flow.ready[9], flow.ready[3]), (4, 0, 2));
    assert_eq!(flow.find("a"), Some(lane));
    assert_eq!(flow.find("b"), None);
}
