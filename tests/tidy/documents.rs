//! Documents: links lead somewhere, pictures are shown, versions agree.

use crate::{ROOT, SourceFile, assert_none, files, read};
use std::path::Path;

/// The targets of the links of a page, outside of code.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let prose: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("");
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The name under which a heading can be linked: lower case, hyphens for spaces, nothing but letters and digits.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &str, name: &str) -> bool {
    page.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == name)
}

#[test]
fn links_of_every_document_lead_somewhere() {
    let mut faults = Vec::new();
    for SourceFile { path, text } in files(".", &[".md"]) {
        let folder = Path::new(ROOT).join(&path);
        let folder = folder.parent().unwrap();
        for link in
            links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, name) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { Path::new(ROOT).join(&path) } else { folder.join(file) };
            if !target.exists() {
                faults.push(format!("{path}: {link}"));
            } else if !name.is_empty() && target.is_file() {
                let page = std::fs::read_to_string(&target).unwrap();
                if !has_anchor(&page, name) {
                    faults.push(format!("{path}: {link} names no heading"));
                }
            }
        }
    }
    assert_none("links that lead nowhere", &faults);
}

/// Where the files of this repository are shown to readers of the book, which holds nothing but `docs`.
const REPOSITORY: &str = "https://github.com/codeq/codeq/";

/// A link that leaves `docs` works in a checkout and is dead in the book.
#[test]
fn links_of_the_book_stay_in_it_or_name_a_file_of_the_repository() {
    let mut faults = Vec::new();
    let docs = Path::new(ROOT).join("docs").canonicalize().unwrap();
    for SourceFile { path, text } in files("docs", &[".md"]) {
        let folder = Path::new(ROOT).join(&path);
        let folder = folder.parent().unwrap();
        for link in links(&text) {
            let file = link.split('#').next().unwrap_or_default();
            if let Some(named) = file.strip_prefix(REPOSITORY) {
                let found = ["blob/main/", "tree/main/"].iter().find_map(|kind| named.strip_prefix(kind));
                // Releases and the like are no files.
                if found.is_some_and(|name| !Path::new(ROOT).join(name).exists()) {
                    faults.push(format!("{path}: {link} names no file"));
                }
            } else if !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:") {
                let target = folder.join(file).canonicalize();
                if target.is_ok_and(|target| !target.starts_with(&docs)) {
                    faults.push(format!("{path}: {link} leaves docs: write {REPOSITORY}blob/main/..."));
                }
            }
        }
    }
    assert_none("links that are dead in the book", &faults);
}

/// Turns of phrase that are not English, or that nobody understands at the first reading.
const ODD: [&str; 12] = [
    "so many at most",
    "so many per",
    "that is none",
    "whom the ",
    "is had by",
    "unless told",
    "drawn anew",
    "is its business",
    "step back behind",
    "who listens says",
    "does not mend",
    "what they are to",
];

#[test]
fn documents_and_messages_are_plain_english() {
    let mut faults = Vec::new();
    let places = [("docs", ".md"), ("crates/api", ".json"), ("dashboard", ".js"), ("sdks", "README.md")];
    let pages = places.iter().flat_map(|(folder, ending)| files(folder, &[ending]));
    let readme = SourceFile { path: "README.md".into(), text: read("README.md") };
    for page in pages.chain([readme]) {
        let text = page.text.to_lowercase();
        faults
            .extend(ODD.iter().filter(|odd| text.contains(*odd)).map(|odd| format!("{}: {odd}", page.path)));
    }
    assert_none("odd turns of phrase", &faults);
}

#[test]
fn every_picture_is_shown_somewhere() {
    let pages: String = files(".", &[".md"]).into_iter().map(|page| page.text).collect();
    let pictures = std::fs::read_dir(Path::new(ROOT).join("docs/images")).unwrap();
    let names = pictures.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unused: Vec<String> = names.filter(|name| !pages.contains(&**name)).collect();
    assert_none("pictures in docs/images that no page shows", &unused);
}

/// The value of `key` in a file of `key = "value"` or `key: value` lines.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text
        .lines()
        .find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', ':', '='])));
    let line = line.unwrap_or_else(|| panic!("there is a {key}"));
    line[key.len()..].trim_matches([' ', ':', '=', '"'])
}

#[test]
fn versions_agree() {
    let manifest = read("Cargo.toml");
    let version = value(&manifest, "version");
    let chart = read("deploy/helm/codeq/Chart.yaml");
    assert_eq!(value(&chart, "appVersion"), version, "the chart installs this version");
    assert!(read("CHANGELOG.md").contains(&format!("\n## {version} (")), "the changelog has {version}");
    assert!(
        read("CHANGELOG.md").contains("\n## Unreleased\n"),
        "the changelog has a place for what comes next"
    );
}

#[test]
fn every_crate_names_the_licence() {
    let text = read("LICENSE");
    assert!(text.contains("Apache License") && text.contains("Version 2.0, January 2004"));
    for manifest in files("crates", &["Cargo.toml"]) {
        assert!(manifest.text.contains("\nlicense.workspace = true\n"), "{} has no licence", manifest.path);
    }
    assert_eq!(value(&read("Cargo.toml"), "license"), "Apache-2.0");
}
