"""The Python SDK 1.x, with a token and over OAuth: it asks for the scopes of a challenge, and for nothing else."""
import asyncio, os, re, urllib.parse, urllib.request
import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata

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


async def journey(session, reveals):
    await session.list_tools()
    for _ in range(2):
        found = await session.call_tool("list_secrets", AT)
        assert '"key":"A"' in found.content[0].text, found
        plan = await session.call_tool("plan_run", {**AT, "command": ["node", "app.js"], "keys": ["A"]})
        assert "--redact" in plan.content[0].text, plan
        if reveals:
            shown = await session.call_tool("reveal_secret_value", {**AT, "key": "A", "reason": "The driver asks"})
            assert '"value":"1"' in shown.content[0].text, shown
    wrong = await session.call_tool("list_secrets", {**AT, "environment": "prod"})
    assert wrong.isError and "The project has development" in wrong.content[0].text, wrong


async def bearer():
    async with streamablehttp_client(URL, headers={"authorization": f"Bearer {TOKEN}"}) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await journey(session, True)
    print("bearer: tools, errors as text")


async def oauth():
    callback = {}

    async def redirect(url):
        callback["url"] = get(f"{PERSON}/?url={urllib.parse.quote(url, safe='')}")

    async def answer():
        query = urllib.parse.parse_qs(urllib.parse.urlparse(callback["url"]).query)
        return query["code"][0], query["state"][0]

    before = int(get(f"{PERSON}/consents"))
    metadata = OAuthClientMetadata(
        client_name="Driver",
        redirect_uris=["http://127.0.0.1:53121/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    provider = OAuthClientProvider(URL, metadata, Store(), redirect, answer)
    async with streamablehttp_client(URL, auth=provider) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await journey(session, True)
    consents = int(get(f"{PERSON}/consents")) - before
    assert consents == 2, consents
    print("OAuth: two consents, one of them for plaintext, however tools alternate")


asyncio.run(bearer())
asyncio.run(oauth())
