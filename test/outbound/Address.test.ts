import { assert, describe, it } from "@effect/vitest"
import { isLoopbackAddress } from "#src/net/Loopback.ts"
import { isAllowedUrl, isPublicAddress } from "#src/outbound/Address.ts"

const inside = [
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "192.0.2.1",
  "192.31.196.1",
  "192.175.48.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "64:ff9b::a9fe:a9fe",
  "fe80::1",
  "fe80::1%eth0",
  "fc00::1",
  "fd00:ec2::254",
  "ff02::1",
  "2001:db8::1",
  "2001::1",
  "2002:7f00:1::1",
  "localhost",
  ""
]

describe("addresses", () => {
  it("that are not globally reachable are not called", () => {
    for (const address of inside) assert.isFalse(isPublicAddress(address), address)
    for (const address of ["8.8.8.8", "140.82.112.3", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::5"]) {
      assert.isTrue(isPublicAddress(address), address)
    }
    for (const address of ["127.0.0.1", "127.8.8.8", "::1"]) assert.isTrue(isLoopbackAddress(address), address)
    for (const address of ["128.0.0.1", "::2", "::ffff:127.0.0.1", "localhost"]) {
      assert.isFalse(isLoopbackAddress(address), address)
    }
  })

  it("written down are https, however loopback is spelled, unless this server is loopback itself", () => {
    const never = [
      "ftp://example.com",
      "http://example.com",
      "https://user@example.com",
      "https://user:pass@example.com/",
      "https://example.com/#f",
      "https://10.0.0.1/",
      "https://[fd00::1]/",
      "https://[::ffff:7f00:1]/",
      "https://0x0a000001/",
      "https://169.254.169.254/latest",
      "file:///etc/passwd",
      "example.com",
      ""
    ]
    for (const url of never) {
      assert.isFalse(isAllowedUrl(url, false), url)
      assert.isFalse(isAllowedUrl(url, true), url)
    }
    const loopback = [
      "http://127.0.0.1:8080/x",
      "http://localhost/x",
      "http://[::1]:1/",
      "http://2130706433/",
      "http://0177.1/",
      "https://localhost/",
      "https://127.1/"
    ]
    for (const url of loopback) {
      assert.isFalse(isAllowedUrl(url, false), url)
      assert.isTrue(isAllowedUrl(url, true), url)
    }
    for (const url of ["https://example.com/hook?x=1", "https://8.8.8.8/"]) assert.isTrue(isAllowedUrl(url, false), url)
  })
})
