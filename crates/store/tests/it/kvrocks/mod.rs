//! The Kvrocks store against real servers.

mod ground;
mod server;

mod exam_standalone {
    use super::ground;
    codeq_store::exam!(ground::standalone());
}

mod model {
    use super::ground;
    use codeq_store::testing::model::run_from_environment;

    #[tokio::test]
    async fn the_kvrocks_store_does_what_the_model_does() {
        run_from_environment(ground::standalone()).await;
    }
}
