/** The keypair that seals files of an environment: pages and forms. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SealingKeyId } from "#schema/Values.ts"
import { type AtEnvironment, environment } from "./EnvironmentFrame.tsx"
import * as Paths from "./Paths.ts"
import { button, page, screen, to, withIds } from "./Routes.ts"
import { SealingPage } from "./SealingViews.tsx"
import * as UseCases from "./UseCases.ts"

const key = withIds(environment, Schema.Struct({ keyId: SealingKeyId }))

const keys = screen(
  ({ location: { environment } }: AtEnvironment) =>
    Effect.gen(function* () {
      // The first visit creates the keypair, which the list then has.
      const active = yield* UseCases.sealingKeys.keypair(environment.id)
      return { active, keys: yield* UseCases.sealingKeys.list(environment.id) }
    }),
  SealingPage
)

const here = ({ location }: AtEnvironment) => `${Paths.environment(location.path)}/sealing`

const rotate = button(environment, {
  run: ({ location: { environment } }) => UseCases.sealingKeys.rotate(environment.id),
  done: (_, at) => to(here(at), "key-rotated")
})

const retire = button(key, {
  run: ({ keyId, location: { environment } }) => UseCases.sealingKeys.retire(environment.id, keyId),
  done: (_, at) => to(here(at), "key-retired")
})

export const routes = HttpRouter.empty.pipe(
  HttpRouter.get("/app/projects/:projectId/env/:slug/sealing", page(environment, keys)),
  HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/rotate", rotate),
  HttpRouter.post("/app/projects/:projectId/env/:slug/sealing/:keyId/retire", retire)
)
