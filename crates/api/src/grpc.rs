//! The gRPC messages and services, generated from `proto/`.

/// Creates over the producer stream.
pub mod producer {
    #![allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
        missing_docs,
        reason = "generated"
    )]
    tonic::include_proto!("producerpb");
}

/// Claims and reports over the worker stream.
pub mod worker {
    #![allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
        missing_docs,
        reason = "generated"
    )]
    tonic::include_proto!("workerpb");
}

/// What KEDA asks an external scaler.
pub mod scaler {
    #![allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
        missing_docs,
        reason = "generated"
    )]
    tonic::include_proto!("externalscaler");
}
