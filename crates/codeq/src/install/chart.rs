//! The Helm chart, as it is in `deploy/helm/codeq`.

use super::Written;

macro_rules! chart {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../deploy/helm/codeq/", $name)))),*]
    };
}

const FILES: [(&str, &str); 17] = chart![
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    ".helmignore",
    "templates/_helpers.tpl",
    "templates/_pod.tpl",
    "templates/configmap.yaml",
    "templates/deployment.yaml",
    "templates/ingress.yaml",
    "templates/NOTES.txt",
    "templates/poddisruptionbudget.yaml",
    "templates/scaledobject.yaml",
    "templates/secret.yaml",
    "templates/service.yaml",
    "templates/serviceaccount.yaml",
    "templates/servicemonitor.yaml",
    "templates/statefulset.yaml",
];

/// The files of the chart under this directory.
pub fn files(directory: &str) -> impl Iterator<Item = Written> {
    FILES
        .into_iter()
        .map(move |(name, text)| Written { name: format!("{directory}/{name}"), text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn names(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => names(&entry.path(), &format!("{name}/"), found),
                false => drop(found.insert(name)),
            }
        }
    }

    #[test]
    fn the_binary_holds_the_whole_chart() {
        let mut found = BTreeSet::new();
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/codeq"), "", &mut found);
        assert_eq!(found, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
}
