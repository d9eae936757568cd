/** The forms of RFC 7239 sections 4 and 6, and those that gateways write into `X-Forwarded-For`. */
import { assert, describe, it } from "@effect/vitest"
import { forwardedNodes, nodeAddress } from "#src/net/ForwardedFor.ts"

describe("the address of a node", () => {
  for (const [node, address] of [
    ["192.0.2.60", "192.0.2.60"],
    [" 192.0.2.60 ", "192.0.2.60"],
    ["192.0.2.60:47011", "192.0.2.60"],
    ['"192.0.2.60:47011"', "192.0.2.60"],
    ["192.0.2.60:_port", "192.0.2.60"],
    ["2001:db8::7", "2001:db8::7"],
    ["[2001:db8::7]", "2001:db8::7"],
    ["[2001:db8::7]:4711", "2001:db8::7"],
    ['"[2001:db8:cafe::17]:4711"', "2001:db8:cafe::17"]
  ] as const) {
    it(`is read from ${node}`, () => assert.strictEqual(nodeAddress(node), address))
  }

  for (const node of [
    "",
    '""',
    "unknown",
    "_hidden",
    "192.0.2",
    "[192.0.2.60]",
    "[2001:db8::7",
    "host:80",
    "1.2.3.4:5:6"
  ]) {
    it(`is not read from ${JSON.stringify(node)}`, () => assert.isUndefined(nodeAddress(node)))
  }
})

describe("the header Forwarded", () => {
  it("has a node for each proxy, whatever else it says", () => {
    assert.deepStrictEqual(forwardedNodes('For="[2001:db8::7]:4711";proto=https, for=192.0.2.43;by=203.0.113.43'), [
      '"[2001:db8::7]:4711"',
      "192.0.2.43"
    ])
  })

  it("keeps commas and semicolons in quotes together, and says where a proxy named no node", () => {
    assert.deepStrictEqual(forwardedNodes('proto=http;for="a,b;c", by=203.0.113.43'), ['"a,b;c"', ""])
  })
})
