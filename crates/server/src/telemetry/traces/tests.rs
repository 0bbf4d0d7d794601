//! What is decided without a collector.

use super::*;
use codeq_queue::create::CreateRequest;

fn traces(sample_ratio: f64) -> Traces {
    let config = Tracing {
        enabled: true,
        service_name: "codeq".into(),
        // Nobody listens there, and nobody has to.
        otlp_endpoint: "127.0.0.1:9".into(),
        otlp_insecure: true,
        sample_ratio,
    };
    Traces::start(&config).expect("a sound configuration")
}

fn stored(traces: &Traces, trace_parent: Option<&str>) -> Option<String> {
    let request = CreateRequest { trace_parent: trace_parent.map(Into::into), ..CreateRequest::default() };
    let mut requests = [Ok(request)];
    traces.creating(&mut requests);
    let [request] = requests;
    request.expect("it was sound").trace_parent
}

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

#[tokio::test]
async fn a_task_keeps_the_context_of_its_create_only_when_tracing_is_on() {
    assert_eq!(stored(&Traces::off(), Some(SAMPLED)), None);
    let kept = stored(&traces(1.0), Some(SAMPLED)).expect("a context");
    assert!(kept.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && kept.ends_with("-01"), "{kept}");
    assert_ne!(kept, SAMPLED, "it is the create's own");
}

#[tokio::test]
async fn the_decision_of_the_caller_is_respected_and_passed_on() {
    let dropped = stored(&traces(1.0), Some(UNSAMPLED)).expect("a context");
    assert!(dropped.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && dropped.ends_with("-00"));
    let kept = stored(&traces(0.000_000_1), Some(SAMPLED)).expect("a context");
    assert!(kept.ends_with("-01"), "{kept}");
}

#[tokio::test]
async fn without_a_caller_the_ratio_decides() {
    assert!(stored(&traces(1.0), None).expect("a context").ends_with("-01"));
    assert_eq!(stored(&traces(0.000_000_1), None), None, "a trace that nobody keeps is not carried on");
}
