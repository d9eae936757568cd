/** The typed groups of the contract that commands call. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import { IdentityApi } from "#schema/IdentityApi.ts"
import { ProjectsApi } from "#schema/ProjectsApi.ts"
import { SecretsApi } from "#schema/SecretsApi.ts"
import type { Connection } from "./Client.ts"

const identityApi = HttpApi.make("ampoule").add(IdentityApi)
const projectsApi = HttpApi.make("ampoule").add(ProjectsApi)
const secretsApi = HttpApi.make("ampoule").add(SecretsApi)

export const identity = ({ http }: Connection) =>
  HttpApiClient.group(identityApi, { group: "identity", httpClient: http })
export const projects = ({ http }: Connection) =>
  HttpApiClient.group(projectsApi, { group: "projects", httpClient: http })
export const secrets = ({ http }: Connection) => HttpApiClient.group(secretsApi, { group: "secrets", httpClient: http })
