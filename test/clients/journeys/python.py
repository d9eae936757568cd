"""The journey with the client of openapi-python-client."""
import os
import time

from ampoule_client import AuthenticatedClient
from ampoule_client.api.capabilities import capabilities_read
from ampoule_client.api.identity import identity_verify
from ampoule_client.api.projects import projects_list
from ampoule_client.api.secrets import secrets_create, secrets_inject, secrets_list, secrets_update
from ampoule_client.models import (
    ConflictError,
    CreateSecret,
    ForbiddenError,
    InjectedSecrets,
    ListSecretsResponse,
    SecretKind,
    TooManyRequestsError,
    UpdateSecret,
)
from uuid import UUID

project = UUID(os.environ["PROJECT"])


def client(url: str, token: str) -> AuthenticatedClient:
    return AuthenticatedClient(base_url=os.environ[url], token=os.environ[token])


reader = client("AMPOULE_URL", "READ_TOKEN")
writer = client("AMPOULE_URL", "WRITE_TOKEN")

injected = secrets_inject.sync(client=reader, project_id=project, environment="development")
assert isinstance(injected, InjectedSecrets)
assert injected.values.to_dict()["DATABASE_URL"] == "postgres://db"
print("read an environment")

capabilities = capabilities_read.sync(client=reader)
assert capabilities.limits.expected_version == 9007199254740991
print("read 64 bits")

keys = []
page, more = 1, True
while more:
    answer = secrets_list.sync(client=reader, project_id=project, environment="development", page=page, page_size=2)
    assert isinstance(answer, ListSecretsResponse)
    keys += [item.key for item in answer.items]
    page, more = page + 1, answer.has_more
assert len(keys) == answer.total == 5 and page == 4
print("paged")

body = CreateSecret(project_id=project, environment="development", key="HOST", value="x", kind=SecretKind.LITERAL)
forbidden = secrets_create.sync(client=reader, body=body)
assert isinstance(forbidden, ForbiddenError) and forbidden.code == "API_TOKEN_READ_ONLY"
print("met a typed 403")

exists = secrets_create.sync(client=writer, body=body)
assert isinstance(exists, ConflictError) and exists.code == "SECRET_ALREADY_EXISTS"
secret = answer.items[0]
conflict = secrets_update.sync(client=writer, secret_id=secret.id, body=UpdateSecret(value="y", expected_version=999))
assert isinstance(conflict, ConflictError) and conflict.current_version == 1
print("met a typed 409")

for _ in range(2000):
    limited = projects_list.sync(client=reader)
    if isinstance(limited, TooManyRequestsError):
        break
assert isinstance(limited, TooManyRequestsError) and limited.code == "RATE_LIMITED"
time.sleep(limited.retry_after_seconds)
assert projects_list.sync_detailed(client=reader).status_code == 200
print("waited out a 429")

later = client("LATER_URL", "WRITE_TOKEN")
listed = secrets_list.sync(client=later, project_id=project, environment="development")
assert isinstance(listed, ListSecretsResponse) and listed.items[0].kind == "later-kind"
refused = secrets_create.sync(client=later, body=body)
assert isinstance(refused, ConflictError) and refused.code == "LATER_CODE"
print("read a later release")
known = identity_verify.sync(client=later)
assert capabilities_read.sync(client=later).plan == "later-plan"
assert known.access_level == "later-level" and "later:scope" in known.mcp_scopes
print("read a later plan, level and scope")
