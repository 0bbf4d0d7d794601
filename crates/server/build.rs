//! Tells the revision of the source to `codeq_build_info`.
//!
//! `CODEQ_REVISION` says it where there is no repository (images, packages). Otherwise a release build asks git;
//! a development build does not, because every commit would compile the crate again.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=CODEQ_REVISION");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("CODEQ_REVISION").ok().filter(|revision| !revision.trim().is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let revision = given.or_else(|| if is_release { revision_of_checkout() } else { None });
    if let Some(revision) = revision {
        println!("cargo::rustc-env=CODEQ_REVISION={}", revision.trim());
    }
}

/// The commit, marked if tracked files differ from it. `None` without git or outside of a repository.
fn revision_of_checkout() -> Option<String> {
    let commit = git(&["rev-parse", "HEAD"])?;
    // The log of HEAD grows with every commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    let is_modified =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
    Some(if is_modified { format!("{commit}-modified") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
