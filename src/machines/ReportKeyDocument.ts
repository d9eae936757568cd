/** Public keys as GitHub's secret scanning publishes them: `{"public_keys":[{"key_identifier":…,"key":"<PEM>",…}]}`. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { createPublicKey, type KeyObject } from "node:crypto"

const Document = Schema.parseJson(
  Schema.Struct({ public_keys: Schema.Array(Schema.Struct({ key_identifier: Schema.String, key: Schema.String })) })
)
const decode = Schema.decodeUnknownOption(Document)

export type Keys = ReadonlyMap<string, KeyObject>
const parseKey = Option.liftThrowable((pem: string) => createPublicKey(pem))
const isP256 = (key: KeyObject) =>
  key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1"

/** None without such a document, or without a key on P-256. */
export const keysIn = (text: string): Option.Option<Keys> =>
  Option.flatMap(decode(text), ({ public_keys }) => {
    const keys = public_keys.flatMap(({ key, key_identifier }) =>
      Option.match(Option.filter(parseKey(key), isP256), {
        onNone: () => [],
        onSome: (parsed) => [[key_identifier, parsed] as const]
      })
    )
    return keys.length === 0 ? Option.none() : Option.some(new Map(keys))
  })
