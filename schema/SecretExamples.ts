/** Shared parts of the OpenAPI examples for secret routes. */

export const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
export const secretId = "01980a5f-02d4-7e61-8c3b-1d9e5f7a2b44"
export const secret = {
  id: secretId,
  projectId,
  environment: "development",
  key: "DATABASE_URL",
  kind: "template",
  version: 1,
  createdAt: "2026-11-21T08:00:00.000Z",
  updatedAt: "2026-11-21T08:00:00.000Z"
}
export const about = {
  owner: "platform team",
  note: "Role app of the Neon project shop",
  rotateBy: "2027-01-31",
  alias: null,
  tags: ["billing", "pci"]
}
export const user = { type: "user", id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", name: "ada@example.com" }
export const onePage = { page: 1, pageSize: 100, total: 1, hasMore: false }
