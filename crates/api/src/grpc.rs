//! The gRPC messages and services, generated from `proto/`.

pub mod producer {
    #![allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
        reason = "generated"
    )]
    tonic::include_proto!("producerpb");
}

pub mod worker {
    #![allow(
        clippy::all,
        clippy::allow_attributes_without_reason,
        unused_qualifications,
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
        reason = "generated"
    )]
    tonic::include_proto!("externalscaler");
}
