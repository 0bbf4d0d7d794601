//! Compiles the protos without a system protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "../../proto";
    println!("cargo::rerun-if-changed={root}");
    let files =
        ["externalscaler.proto", "producer.proto", "worker.proto"].map(|file| format!("{root}/{file}"));
    let descriptors = protox::compile(&files, [root])?;
    tonic_prost_build::configure().bytes(".").compile_well_known_types(false).compile_fds(descriptors)?;
    Ok(())
}
