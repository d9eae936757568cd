"""The Python SDK 2.x in both eras, with a token and over OAuth."""
import asyncio, os, urllib.parse, urllib.request
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

URL, TOKEN, PERSON = os.environ["MCP_URL"], os.environ["TOKEN"], os.environ["PERSON"]
AT = {"projectId": os.environ["PROJECT"], "environment": "development"}


class Store:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


async def journey(client):
    await client.list_tools()
    for _ in range(2):
        found = await client.call_tool("list_secrets", AT)
        assert '"key":"A"' in found.content[0].text, found
        plan = await client.call_tool("plan_run", {**AT, "command": ["node", "app.js"], "keys": ["A"]})
        assert "--redact" in plan.content[0].text, plan
        shown = await client.call_tool("reveal_secret_value", {**AT, "key": "A", "reason": "The driver asks"})
        assert '"value":"1"' in shown.content[0].text, shown
    wrong = await client.call_tool("list_secrets", {**AT, "environment": "prod"})
    assert wrong.is_error and "The project has development" in wrong.content[0].text, wrong


async def bearer(mode):
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http:
        async with Client(streamable_http_client(URL, http_client=http), mode=mode) as client:
            await journey(client)
    print(f"{mode}: bearer")


async def oauth(mode):
    callback = {}

    async def redirect(url):
        callback["url"] = get(f"{PERSON}/?url={urllib.parse.quote(url, safe='')}")

    async def answer():
        query = urllib.parse.parse_qs(urllib.parse.urlparse(callback["url"]).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query["iss"][0])

    before = int(get(f"{PERSON}/consents"))
    metadata = OAuthClientMetadata(
        client_name="Driver",
        redirect_uris=["http://127.0.0.1:53121/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    async with httpx2.AsyncClient(auth=OAuthClientProvider(URL, metadata, Store(), redirect, answer)) as http:
        async with Client(streamable_http_client(URL, http_client=http), mode=mode) as client:
            await journey(client)
    consents = int(get(f"{PERSON}/consents")) - before
    assert consents == 2, consents
    print(f"{mode}: OAuth, two consents, one of them for plaintext")


for mode in ["auto", "legacy"]:
    asyncio.run(bearer(mode))
    asyncio.run(oauth(mode))
