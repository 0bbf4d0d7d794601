//! The published description has the routes of the server, with their rights.

use codeq_server::http::routes::{Endpoint, table};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Assets of the pages are not part of the API.
const ASSETS: [&str; 3] = ["/docs/docs.css", "/docs/docs.js", "/ui/{*asset}"];

#[test]
fn the_description_and_the_route_table_are_the_same_set() {
    let description: Value = serde_json::from_str(codeq_api::OPENAPI).expect("JSON");
    let mut described = BTreeMap::new();
    for (path, operations) in description["paths"].as_object().expect("paths") {
        let operations = operations.as_object().expect("operations");
        for (method, operation) in operations.iter().filter(|(name, _)| *name != "parameters") {
            described.insert((path.clone(), method.to_uppercase()), operation["security"].clone());
        }
    }
    let mut served = BTreeMap::new();
    for route in table() {
        if ASSETS.contains(&route.path) {
            continue;
        }
        let security = match &route.endpoint {
            Endpoint::Open(_) => json!([]),
            Endpoint::Any(_) => json!([{"bearerAuth": []}]),
            Endpoint::Producer(_) => json!([{"bearerAuth": ["producer"]}]),
            Endpoint::Operator(_) => json!([{"bearerAuth": ["operator"]}]),
            Endpoint::Admin(_) => json!([{"bearerAuth": ["admin"]}]),
            Endpoint::Worker(scope, _) => json!([{"bearerAuth": ["worker", scope.word()]}]),
        };
        let known = served.insert((route.path.to_owned(), route.method.to_string()), security);
        assert!(known.is_none(), "{} twice", route.path);
    }
    assert_eq!(described, served);
}
