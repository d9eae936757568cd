/** The journey with the client of hey-api. */
import { createClient } from "./openapi/client/index.ts"
import {
  capabilitiesRead,
  identityVerify,
  projectsList,
  secretsCreate,
  secretsInject,
  secretsList,
  secretsUpdate
} from "./openapi/index.ts"
import type { CreateSecret } from "./openapi/index.ts"
import { type Calls, journey, project } from "./journey.ts"

const environment = "development"

await journey((baseUrl, auth): Calls => {
  const client = createClient({ baseUrl, auth })
  const body: CreateSecret = { projectId: project, environment, key: "HOST", value: "x", kind: "literal" }
  const query = { projectId: project, environment }
  const there = <A>(answer: { readonly data?: A }): A => {
    if (answer.data === undefined) throw new Error("refused")
    return answer.data
  }
  return {
    inject: async () => there(await secretsInject({ client, query })),
    expectedVersion: async () => Number(there(await capabilitiesRead({ client })).limits.expectedVersion),
    plan: async () => there(await capabilitiesRead({ client })).plan,
    verify: async () => there(await identityVerify({ client })),
    list: async (page, pageSize) => there(await secretsList({ client, query: { ...query, page, pageSize } })),
    create: async () => {
      const { error, response } = await secretsCreate({ client, body })
      if (error === undefined) throw new Error("created")
      return { status: response?.status ?? 0, error }
    },
    update: async (secretId, expectedVersion) => {
      const { error, response } = await secretsUpdate({
        client,
        path: { secretId },
        body: { value: "y", expectedVersion }
      })
      if (error === undefined) throw new Error("updated")
      return { status: response?.status ?? 0, error }
    },
    projects: async () => {
      const { data, error, response } = await projectsList({ client })
      return data === undefined ? { status: response?.status ?? 0, error } : data.items.length
    }
  }
})
