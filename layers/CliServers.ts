/** Access of the command line to servers: credentials and requests. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { CredentialStores } from "#src/cli/connection/CredentialStore.ts"
import { Transport } from "#src/cli/connection/Transport.ts"
import { credentialFile } from "./CredentialFile.ts"
import { keychain } from "./CredentialKeychain.ts"
import { transport } from "./CliTransport.ts"

const context = Context.make(Transport, transport).pipe(
  Context.add(CredentialStores, { os_keychain: keychain, plaintext_local: credentialFile })
)

/** A plain function, because nothing of it has to be built or closed. */
export const atServers = <A, E, R>(
  command: Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Transport | CredentialStores>> => Effect.provide(command, context)
