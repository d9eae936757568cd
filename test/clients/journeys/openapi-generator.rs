//! The journey with the Rust client of openapi-generator.
use openapi::apis::configuration::Configuration;
use openapi::apis::secrets_api::{self as secrets, SecretsCreateError, SecretsUpdateError};
use openapi::apis::{capabilities_api, identity_api, projects_api, Error};
use openapi::models;
use std::{env, time::Duration};

fn check(holds: bool, step: &str) {
    assert!(holds, "{step}");
    println!("{step}");
}

fn client(url: &str, token: &str) -> Configuration {
    Configuration {
        base_path: env::var(url).unwrap(),
        bearer_access_token: env::var(token).ok(),
        ..Configuration::default()
    }
}

/// The typed body of a refusal.
fn refusal<A: std::fmt::Debug, T: std::fmt::Debug>(answer: Result<A, Error<T>>) -> T {
    match answer {
        Err(Error::ResponseError(refused)) => refused.entity.expect("a typed body"),
        other => panic!("no refusal: {other:?}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let project = env::var("PROJECT").unwrap();
    let development = "development";
    let (reader, writer) = (client("AMPOULE_URL", "READ_TOKEN"), client("AMPOULE_URL", "WRITE_TOKEN"));

    let injected = secrets::secrets_inject(&reader, &project, development, None, None, None, None, None).await.unwrap();
    check(injected.values["DATABASE_URL"] == "postgres://db", "read an environment");

    let capabilities = capabilities_api::capabilities_read(&reader).await.unwrap();
    check(capabilities.limits.expected_version == 9007199254740991, "read 64 bits");

    let mut items = vec![];
    let (mut page, mut more) = (1, true);
    while more {
        let answer = secrets::secrets_list(&reader, &project, development, Some(page), Some(2), None, None).await.unwrap();
        items.extend(answer.items);
        (more, page) = (answer.has_more, page + 1);
    }
    check(items.len() == 5 && page == 4, "paged");

    let body = models::CreateSecret {
        value: Some("x".into()),
        kind: Some(models::SecretKind::Literal),
        ..models::CreateSecret::new(project.parse().unwrap(), development.into(), "HOST".into())
    };
    let forbidden = refusal(secrets::secrets_create(&reader, body.clone(), None).await);
    check(
        matches!(forbidden, SecretsCreateError::Status403(error) if error.code == "API_TOKEN_READ_ONLY"),
        "met a typed 403",
    );

    let exists = refusal(secrets::secrets_create(&writer, body.clone(), None).await);
    assert!(matches!(exists, SecretsCreateError::Status409(error) if error.code == "SECRET_ALREADY_EXISTS"));
    let update = models::UpdateSecret { value: Some("y".into()), expected_version: Some(999), ..Default::default() };
    let conflict = refusal(secrets::secrets_update(&writer, &items[0].id.to_string(), update).await);
    check(
        matches!(conflict, SecretsUpdateError::Status409(error) if error.current_version == Some(1)),
        "met a typed 409",
    );

    let mut limited = None;
    for _ in 0..2000 {
        if let Err(Error::ResponseError(refused)) = projects_api::projects_list(&reader).await {
            limited = refused.entity;
            break;
        }
    }
    let Some(projects_api::ProjectsListError::Status429(limited)) = limited else { panic!("no typed 429") };
    let wait = limited.retry_after_seconds.expect("seconds to wait");
    tokio::time::sleep(Duration::from_secs(wait.try_into().unwrap())).await;
    check(projects_api::projects_list(&reader).await.is_ok(), "waited out a 429");

    let later = client("LATER_URL", "WRITE_TOKEN");
    let listed = secrets::secrets_list(&later, &project, development, None, None, None, None).await.unwrap();
    let refused = refusal(secrets::secrets_create(&later, body, None).await);
    check(
        listed.items[0].kind == "later-kind"
            && matches!(refused, SecretsCreateError::Status409(error) if error.code == "LATER_CODE"),
        "read a later release",
    );
    let known = identity_api::identity_verify(&later).await.unwrap();
    let capable = capabilities_api::capabilities_read(&later).await.unwrap();
    check(
        format!("{:?}", capable.plan).contains("later-plan")
            && known.access_level.as_deref() == Some("later-level")
            && known.mcp_scopes.unwrap().iter().any(|scope| scope == "later:scope"),
        "read a later plan, level and scope",
    );
}
