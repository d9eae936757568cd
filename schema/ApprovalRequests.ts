/** The part that requests for access and change requests share: members, and the routes that list and withdraw them. */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as Schema from "effect/Schema"
import { PersonCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { MayNotDecide, MayNotReadEnvironment } from "./RouteErrors.ts"
import { Timestamp } from "./Values.ts"
import { answers, DeletedAck, Slug } from "./Wire.ts"

/** In the order of answers: these stand first and last. */
export const placeFields = {
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  user: PersonRef
}
export const timeFields = {
  createdAt: Timestamp,
  expiresAt: Timestamp.annotations({ description: "Then it ends undecided." })
}

export const placeExample = {
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  project: "Shop",
  environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
  environment: "production",
  user: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "grace@example.com" }
}
export const timeExample = { createdAt: "2026-11-21T08:00:00.000Z", expiresAt: "2026-11-28T08:00:00.000Z" }

export const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })

interface Texts {
  readonly summary: string
  readonly description: string
}

const reads = (texts: Texts, response: object) => operation({ scope: "secrets:read", ...texts, response })

export const routes = <
  const Name extends "access-requests" | "change-requests",
  Id extends string,
  List,
  ListEncoded
>(kind: {
  readonly name: Name
  readonly Id: Schema.Schema<Id, string>
  readonly List: Schema.Schema<List, ListEncoded>
  readonly example: object
  readonly texts: { readonly listOfEnvironment: Texts; readonly list: Texts; readonly withdraw: Texts }
}) => ({
  listOfEnvironment: HttpApiEndpoint.get("listOfEnvironment", `/environments/:envId/${kind.name}`)
    .setPath(EnvironmentPath)
    .addSuccess(answers(200, kind.List))
    .addError(MayNotReadEnvironment)
    .middleware(PersonCredential)
    .annotateContext(reads(kind.texts.listOfEnvironment, { items: [kind.example] })),
  list: HttpApiEndpoint.get("list", `/${kind.name}`)
    .addSuccess(answers(200, kind.List))
    .addError(Errors.ScopeMissing)
    .middleware(PersonCredential)
    .annotateContext(reads(kind.texts.list, { items: [kind.example] })),
  withdraw: HttpApiEndpoint.del("withdraw", `/${kind.name}/:requestId`)
    .setPath(Schema.Struct({ requestId: kind.Id }))
    .addSuccess(answers(200, DeletedAck))
    .addError(Schema.Union(MayNotDecide, Errors.ScopeMissing))
    .middleware(PersonCredential)
    .annotateContext(reads(kind.texts.withdraw, { deleted: true }))
})
