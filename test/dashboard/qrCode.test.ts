import { assert, describe, it } from "@effect/vitest"
import { modulesOf } from "#src/dashboard/account/QrModules.ts"
import { createHash } from "node:crypto"

const picture = (text: string) => modulesOf(text)?.map((row) => row.map((dark) => (dark ? "#" : ".")).join(""))

describe("a QR code", () => {
  // Both were read back by another implementation's reader, as were texts that fill each version to its last byte.
  it("is the one that a reader reads", () => {
    assert.deepStrictEqual(picture("AMPOULE"), [
      "#######..#.##.#######",
      "#.....#..###..#.....#",
      "#.###.#.##.##.#.###.#",
      "#.###.#..#.#..#.###.#",
      "#.###.#...#.#.#.###.#",
      "#.....#.....#.#.....#",
      "#######.#.#.#.#######",
      "........##.##........",
      "###.########.##...#..",
      "######.##.#...##..##.",
      "#....##.#.#.#...#####",
      "##..#..#.##...#......",
      ".#.##.#..##.#.#####.#",
      "........####.#.#.#.#.",
      "#######.##.#.####.###",
      "#.....#.######.#....#",
      "#.###.#.##.#.###..###",
      "#.###.#..#....##..##.",
      "#.###.#.###.#..###..#",
      "#.....#.#.....#....#.",
      "#######.##..#.#######"
    ])
    const uri =
      "otpauth://totp/Ampoule%20ampoule.example.com:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Ampoule+ampoule.example.com&algorithm=SHA1&digits=6&period=30"
    const bits = modulesOf(uri)?.map((row) => row.map(Number).join("")) ?? []
    assert.strictEqual(
      createHash("sha256").update(bits.join("\n")).digest("hex"),
      "82a40e7772f4e15b89559f6927faf2808f107e7bff13748ec49a460cbed0259a"
    )
  })

  it("holds up to 858 bytes, and is not there for a longer text", () => {
    assert.strictEqual(modulesOf("x".repeat(858))?.length, 97)
    assert.isUndefined(modulesOf("x".repeat(859)))
    assert.strictEqual(modulesOf("é")?.length, 21)
  })
})
