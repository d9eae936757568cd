/** The journey with the fetch client of orval. Its addresses are relative: where they lead is said here. */
import {
  capabilitiesRead,
  identityVerify,
  projectsList,
  secretsCreate,
  secretsInject,
  secretsList,
  secretsUpdate
} from "./openapi.ts"
import type { CreateSecret } from "./openapi.ts"
import { type Calls, journey, project } from "./journey.ts"

const environment = "development"
const plain = globalThis.fetch
let base = ""
globalThis.fetch = (path, init) => plain(base + String(path), init)

await journey((baseUrl, token): Calls => {
  const options = { headers: { authorization: `Bearer ${token}` } }
  const body: CreateSecret = { projectId: project, environment, key: "HOST", value: "x", kind: "literal" }
  const query = { projectId: project, environment }
  const at = <A>(call: () => Promise<A>): Promise<A> => {
    base = baseUrl
    return call()
  }
  return {
    inject: async () => {
      const answer = await at(() => secretsInject(query, options))
      if (answer.status !== 200) throw new Error(String(answer.status))
      return answer.data
    },
    expectedVersion: async () => {
      const answer = await at(() => capabilitiesRead(options))
      if (answer.status !== 200) throw new Error(answer.data.code)
      return answer.data.limits.expectedVersion
    },
    plan: async () => {
      const answer = await at(() => capabilitiesRead(options))
      return answer.status === 200 ? answer.data.plan : answer.data.code
    },
    verify: async () => {
      const answer = await at(() => identityVerify(options))
      if (answer.status !== 200) throw new Error(answer.data.code)
      return answer.data
    },
    list: async (page, pageSize) => {
      const answer = await at(() => secretsList({ ...query, page, pageSize }, options))
      if (answer.status !== 200) throw new Error(answer.data.code)
      return answer.data
    },
    create: async () => {
      const answer = await at(() => secretsCreate(body, options))
      if (answer.status === 201 || answer.status === 202) throw new Error("created")
      return { status: answer.status, error: answer.data }
    },
    update: async (id, expectedVersion) => {
      const answer = await at(() => secretsUpdate(id, { value: "y", expectedVersion }, options))
      if (answer.status === 200 || answer.status === 202) throw new Error("updated")
      return { status: answer.status, error: answer.data }
    },
    projects: async () => {
      const answer = await at(() => projectsList(options))
      return answer.status === 200 ? answer.data.items.length : { status: answer.status, error: answer.data }
    }
  }
})
