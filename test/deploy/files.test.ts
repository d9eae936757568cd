/** Files that no engine reads here: what can be known of them without one. */
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import * as Config from "#layers/Config.ts"
import * as Postgres from "#layers/Postgres.ts"
import * as PrivateConnection from "#layers/PrivateConnection.ts"
import * as Redis from "#layers/Redis.ts"
import * as OpenApi from "#schema/OpenApi.ts"
import { parsed, pathsOf, Texts } from "#test/support/Json.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import { type Document, manifests, yaml } from "./Documents.ts"

const settings = new Map(
  Config.table.flatMap(({ name, secret }) => [
    [name, secret] as const,
    ...(secret ? [[`${name}_FILE`, false] as const] : [])
  ])
)
/** Known settings only; a secret never as text. */
const checkNames = (where: string, names: ReadonlyArray<string>) => {
  for (const name of names.filter((one) => /^(AMPOULE|OTEL)_/.test(one))) {
    assert.isTrue(settings.has(name), `${where}: ${name}`)
    assert.isTrue(settings.get(name) === false || name === "AMPOULE_VAULT_URL", `${where}: ${name} belongs into a file`)
  }
}
/** Settings as the server, or another program, reads them, except files that are elsewhere. */
const accepted = (variables: Readonly<Record<string, string>>, program = Config.server) =>
  program.pipe(
    Effect.withConfigProvider(
      ConfigProvider.fromMap(new Map(Object.entries(variables).filter(([name]) => !name.endsWith("_FILE"))))
    )
  )
const pinned = /^(?:ampoule:[0-9]+(\.[0-9]+)+|[a-z/]+:v?[0-9]+(\.[0-9]+)+(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64})$/
const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(tmpdir(), "ampoule-deploy-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)
const routes = pathsOf(OpenApi.contractDocument)

const [compose]: ReadonlyArray<Document> = yaml("docker-compose.yml")
const services: ReadonlyArray<readonly [string, Document]> = Object.entries(compose.services)
const interpolated = (variables: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, String(value).replace(/\$\{\w+:-([^}]*)\}/, "$1")])
  )

describe("docker-compose.yml", () => {
  it("names settings that exist, and gives secrets as files that are declared, made by the script and mounted", () => {
    const declared = Object.entries<{ file: string }>(compose.secrets)
    const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-secrets-"))
    execFileSync("deploy/make-secrets.sh", [folder], { stdio: "pipe" })
    for (const [name, { file }] of declared) {
      assert.isTrue(fs.existsSync(path.join(folder, path.basename(file))), name)
      assert.strictEqual(path.dirname(file), "./deploy/secrets")
    }
    fs.rmSync(folder, { recursive: true })
    for (const [name, service] of services) {
      checkNames(name, Object.keys(service.environment ?? {}))
      for (const [variable, value] of Object.entries<string>(service.environment ?? {})) {
        if (!variable.endsWith("_FILE")) continue
        const secret = value.replace("/run/secrets/", "")
        assert.include(service.secrets ?? [], secret, `${name}: ${variable}`)
        assert.include(Object.keys(compose.secrets), secret)
      }
      for (const secret of service.secrets ?? []) assert.include(Object.keys(compose.secrets), secret)
    }
    assert.deepStrictEqual(
      services.flatMap(([, service]) => service.secrets ?? []).filter((name, i, all) => all.indexOf(name) === i).length,
      declared.length
    )
  })

  it.effect("gives the server and the vault settings that they take", () =>
    Effect.gen(function* () {
      for (const name of ["api-1", "api-2", "vault"]) {
        const program = name === "vault" ? Config.load : Config.server
        const read = yield* accepted(interpolated(compose.services[name].environment), program)
        assert.strictEqual(read.dataDir, "/data")
        if (name !== "vault") assert.deepStrictEqual(read.trustedProxies, [compose.networks.edge.ipam.config[0].subnet])
      }
    })
  )

  it.effect("leads to Postgres and Redis by names that it declares to be on a private network", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      execFileSync("deploy/make-secrets.sh", [folder], { stdio: "pipe" })
      const url = (name: string) => Redacted.make(fs.readFileSync(path.join(folder, name), "utf8").trim())
      const { plaintextHosts } = yield* accepted(interpolated(compose.services["api-1"].environment))
      assert.deepStrictEqual(plaintextHosts, ["postgres", "redis"])
      for (const name of plaintextHosts) assert.deepStrictEqual(compose.services[name].networks, ["backend"])
      yield* Postgres.privateConnection({ url: url("database_url"), plaintextHosts })
      yield* PrivateConnection.required("redis", () => Redis.endpointOf(url("redis_url")), plaintextHosts)
    }).pipe(Effect.scoped)
  )

  it("pins every image, hardens every service, and exposes the balancer alone", () => {
    for (const [name, service] of services) {
      assert.match(service.image, pinned, name)
      assert.include(service.security_opt, "no-new-privileges:true", name)
      assert.strictEqual(service.ulimits.core, 0, name)
      assert.isDefined(service.mem_limit, name)
      assert.strictEqual(service.ports !== undefined, name === "balancer", name)
      assert.isUndefined(service.privileged, name)
      // Postgres prepares its folder as root, then leaves root behind.
      if (name === "postgres") continue
      assert.isTrue(service.read_only, name)
      assert.deepStrictEqual(service.cap_drop, ["ALL"], name)
      assert.notMatch(String(service.user), /^(0|root)\b/, name)
      assert.isDefined(service.user, name)
    }
    assert.match(compose.services.balancer.ports[0], /:-127\.0\.0\.1:/)
  })

  it("keeps the vault without a network, and the database without a way out", () => {
    const { vault } = compose.services
    assert.strictEqual(vault.network_mode, "none")
    assert.isUndefined(vault.networks)
    assert.deepStrictEqual(compose.networks.backend, { internal: true })
    for (const name of ["postgres", "redis"]) assert.deepStrictEqual(compose.services[name].networks, ["backend"])
    const folder = path.dirname(vault.environment.AMPOULE_VAULT_URL.replace("unix://", ""))
    for (const name of ["vault", "api-1", "api-2"]) {
      const service = compose.services[name]
      assert.strictEqual(service.environment.AMPOULE_VAULT_URL, vault.environment.AMPOULE_VAULT_URL)
      assert.include(service.volumes, `vault-socket:${folder}`)
      assert.strictEqual(service.user, vault.user, "the socket is for one user")
    }
    for (const name of ["api-1", "api-2"]) {
      assert.isFalse(compose.services[name].volumes.some((volume: string) => volume.startsWith("vault-data:")))
    }
  })

  it("runs Postgres as the server wants it, and mounts files and volumes that exist", () => {
    const command = compose.services.postgres.command.join(" ")
    for (const setting of ["fsync", "full_page_writes", "synchronous_commit"]) assert.include(command, `${setting}=on`)
    for (const [name, service] of services) {
      for (const volume of service.volumes ?? []) {
        const [from] = volume.split(":")
        if (from.startsWith("./")) assert.isTrue(fs.existsSync(from), `${name}: ${from}`)
        else assert.include(Object.keys(compose.volumes), from, name)
      }
      for (const other of Object.keys(service.depends_on ?? {})) assert.include(Object.keys(compose.services), other)
    }
  })

  it("says the same port to the processes, the balancer and the image", () => {
    const port = compose.services["api-1"].environment.AMPOULE_PORT
    const caddyfile = fs.readFileSync("deploy/Caddyfile", "utf8")
    assert.include(caddyfile, `reverse_proxy api-1:${port} api-2:${port} {`)
    const dockerfile = fs.readFileSync("deploy/Dockerfile", "utf8")
    assert.include(dockerfile, `EXPOSE ${port}`)
    assert.include(dockerfile, `AMPOULE_PORT=${port}`)
    assert.match(compose.services.balancer.ports[0], /:8080$/)
    assert.include(caddyfile, "{$SITE_ADDRESS::8080}")
    assert.strictEqual(compose.services.balancer.environment.SITE_ADDRESS, "${SITE_ADDRESS:-:8080}")
    const health = /health_uri (\S+)/.exec(caddyfile)?.[1] ?? ""
    assert.include(routes, health)
  })

  it("has an addition for TLS that changes services which are there", () => {
    const [tls] = yaml("deploy/compose.tls.yml")
    for (const name of Object.keys(tls.services)) assert.include(Object.keys(compose.services), name)
  })
})

describe("make-secrets.sh", () => {
  it("draws long passwords that differ, for the owner of the folder, once", () => {
    const root = fs.mkdtempSync(path.join(tmpdir(), "ampoule-secrets-"))
    const folder = path.join(root, "secrets")
    const run = () => execFileSync("deploy/make-secrets.sh", [folder], { encoding: "utf8" })
    const read = () =>
      Object.fromEntries(fs.readdirSync(folder).map((name) => [name, fs.readFileSync(path.join(folder, name), "utf8")]))
    const said = run()
    const first = read()
    assert.strictEqual(fs.statSync(folder).mode & 0o777, 0o700)
    const drawn = ["postgres_password", "database_password", "redis_password"].map((name) => first[name])
    assert.strictEqual(new Set(drawn).size, 3)
    for (const password of drawn) {
      assert.match(password, /^[0-9a-f]{64}$/)
      assert.notInclude(said, password)
    }
    assert.strictEqual(new URL(first["database_url"]).password, first["database_password"])
    assert.strictEqual(new URL(first["redis_url"]).password, first["redis_password"])
    run()
    assert.deepStrictEqual(read(), first)
    fs.rmSync(root, { recursive: true })
  })
})

describe("the Dockerfile", () => {
  const text = fs.readFileSync("deploy/Dockerfile", "utf8").replaceAll("\\\n", "")
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  /** The stage that is left, and those that it copies from. */
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")))
  const of = (instruction: string, lines: ReadonlyArray<string> = last) =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1))

  it("copies existing files that .dockerignore lets in", () => {
    const let_in = fs
      .readFileSync(".dockerignore", "utf8")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1))
    const copied = of("COPY", lines).filter((line) => !line.startsWith("--from"))
    assert.isAbove(copied.length, 4)
    for (const line of copied) {
      for (const source of line.split(" ").slice(0, -1)) {
        assert.isTrue(fs.existsSync(source), source)
        assert.include(let_in, source.replace(/^\.\//, ""))
      }
    }
  })

  it.effect("starts no server without a public address, and says which setting is missing", () =>
    Effect.gen(function* () {
      const variables = Object.fromEntries(of("ENV").flatMap((line) => line.split(" ").map((pair) => pair.split("="))))
      const { message } = yield* Effect.flip(accepted(variables))
      assert.include(message, "AMPOULE_BASE_URL must be set")
      yield* accepted({ ...variables, AMPOULE_BASE_URL: "https://ampoule.example.com" })
    })
  )

  it("begins its last stage with nothing, and copies into it what the image of a release has", async () => {
    assert.deepStrictEqual(of("FROM"), ["scratch"])
    assert.deepStrictEqual(of("RUN"), [])
    assert.deepStrictEqual(of("COPY"), [
      "--from=build --chown=0:0 /image/system /",
      "--from=build --chown=0:0 /image/program /",
      "--from=build --chown=10001:10001 /image/own /"
    ])
    assert.include(lines, "RUN node deploy/rootfs.mjs /image /usr/local")
    // Built on the Node that the image of a release has, by its digest (test/deploy/pin.test.ts).
    const program = pathToFileURL("deploy/executable.mjs").href
    const { node } = (await import(program)) as { readonly node: { readonly version: string } }
    assert.deepStrictEqual(
      of("FROM", lines).map((from) => from.replace(/@sha256:[0-9a-f]{64}/, "")),
      [`node:${node.version}-bookworm-slim AS build`, "scratch"]
    )
  })

  it("ends as another user than root, stops with SIGTERM, knows no secret and no unknown setting", () => {
    assert.deepStrictEqual(of("USER"), ["10001:10001"])
    assert.deepStrictEqual(of("STOPSIGNAL"), ["SIGTERM"])
    assert.deepStrictEqual(of("ARG", lines), ["AMPOULE_COMMIT=", "AMPOULE_COMMIT="])
    const names = of("ENV").flatMap((line) => line.split(" ").map((pair) => pair.split("=")[0]))
    checkNames("Dockerfile", names)
    const health = of("HEALTHCHECK").join()
    assert.include(routes, /\/health\/\w+/.exec(health)?.[0])
  })

  it.scopedLive(
    "puts together a system without a shell and all that the program needs: it runs from there, and its health check says so",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const release = yield* Release.build
        // The Node of this run, where the base image has its own.
        const prefix = path.join(folder, "prefix")
        fs.mkdirSync(path.join(prefix, "bin"), { recursive: true })
        fs.symlinkSync(process.execPath, path.join(prefix, "bin/node"))
        fs.writeFileSync(path.join(prefix, "LICENSE"), "The licence of Node")
        const image = path.join(folder, "image")
        execFileSync(process.execPath, ["deploy/rootfs.mjs", image, prefix, path.join(release, "dist")], {
          stdio: "pipe"
        })
        const system = path.join(image, "system")
        const files = fs
          .readdirSync(system, { recursive: true, encoding: "utf8" })
          .filter((file) => !fs.lstatSync(path.join(system, file)).isDirectory())
        const programs = files.filter((file) => (fs.lstatSync(path.join(system, file)).mode & 0o111) !== 0)
        // Node, and what starts programs, by both of its names.
        assert.deepStrictEqual(programs.map((file) => path.basename(file).replace(/-[-\w.]+\.so\.\d$/, "")).sort(), [
          "ld",
          "ld",
          "node"
        ])
        for (const name of ["libc6", "libgcc-s1", "libstdc++6"])
          assert.include(files, `usr/share/doc/${name}/copyright`)
        for (const name of ["LGPL-2.1", "GPL-3"]) assert.include(files, `usr/share/common-licenses/${name}`)
        for (const [name, mode] of [
          ["data", 0o700],
          ["run/ampoule", 0o700],
          ["tmp", 0o1777]
        ] as const) {
          assert.strictEqual(fs.statSync(path.join(image, "own", name)).mode & 0o7777, mode)
        }
        const app = path.join(image, "program/app")
        const said = (file: string) => execFileSync(process.execPath, [file, "licences"], { encoding: "utf8" })
        const licences = said(path.join(app, "dist/ampoule.cjs"))
        // By its former name too.
        assert.strictEqual(said(path.join(app, "dist/ampoule.mjs")), licences)
        assert.match(
          licences,
          /^ampoule .*Apache License.*Node\.js, and what is in it\n\nThe licence of Node\n.*effect /s
        )
        assert.match(licences, /\nlucide 1\.62\.0\n\nISC License/)
        const server = yield* Release.server(app, { AMPOULE_DATA_DIR: path.join(folder, "data") })
        const [check] = of("HEALTHCHECK")
        const [, ...args] = parsed(Texts)(/CMD (\[.*\])$/.exec(check)?.[1] ?? "[]")
        const run = (port: number) =>
          Effect.sync(() => {
            const env = { ...process.env, AMPOULE_PORT: String(port) }
            return spawnSync(process.execPath, args, { env, timeout: 10_000 }).status
          })
        assert.strictEqual(yield* run(server.port), 0)
        assert.strictEqual(yield* run(1), 1)
      }),
    120_000
  )
})

describe("the Kubernetes manifests", () => {
  const documents = manifests()
  const kind = (name: string) => documents.filter((document) => document.kind === name)
  const deployments = kind("Deployment")

  it.skipIf(Programs.missing("kubectl"))("are put together by kubectl, with the image pinned", () => {
    const built = execFileSync("kubectl", ["kustomize", "deploy/kubernetes"], { encoding: "utf8" })
    assert.strictEqual(built.match(/^kind: /gm)?.length, documents.length)
    const images = [...built.matchAll(/image: (\S+)/g)].map(([, image]) => image)
    assert.strictEqual(images.length, 2)
    for (const image of images) assert.match(image, pinned)
  })

  it.effect("give both programs settings that exist and that they take, secrets as files of Secrets", () =>
    Effect.gen(function* () {
      const [configMap] = kind("ConfigMap")
      for (const { metadata, spec } of deployments) {
        const { volumes } = spec.template.spec
        for (const container of spec.template.spec.containers) {
          const env = Object.fromEntries(
            container.env.map(({ name, value }: { name: string; value: string }) => [name, value])
          )
          const filledIn = { ...configMap.data, AMPOULE_TRUSTED_PROXIES: "10.0.3.7" }
          const all = { ...env, ...(container.envFrom === undefined ? {} : filledIn) }
          checkNames(metadata.name, Object.keys(all))
          const vaultUrl = new URL(env["AMPOULE_VAULT_URL"])
          assert.strictEqual(vaultUrl.protocol, "tls:")
          yield* accepted(all, metadata.name === "ampoule-vault" ? Config.load : Config.server)
          const mounts: ReadonlyArray<{ mountPath: string; name: string }> = container.volumeMounts
          assert.sameMembers(
            mounts.map(({ name }) => name),
            volumes.map(({ name }: { name: string }) => name)
          )
          for (const [name, value] of Object.entries<string>(env)) {
            if (!name.endsWith("_FILE")) continue
            const mount = mounts.find(({ mountPath }) => path.dirname(value) === mountPath)
            assert.isDefined(mount, `${metadata.name}: ${name}`)
            const volume = volumes.find((one: { name: string }) => one.name === mount?.name)
            assert.isDefined(volume.secret, name)
          }
        }
      }
    })
  )

  it("let nothing be root, gain a privilege, write the root file system or hold a capability", () => {
    assert.strictEqual(deployments.length, 2)
    for (const { spec } of deployments) {
      const pod = spec.template.spec
      assert.isTrue(pod.securityContext.runAsNonRoot)
      assert.isAbove(pod.securityContext.runAsUser, 0)
      assert.strictEqual(pod.securityContext.seccompProfile.type, "RuntimeDefault")
      assert.isFalse(pod.automountServiceAccountToken)
      for (const container of pod.containers) {
        assert.deepStrictEqual(container.securityContext, {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] }
        })
        assert.isDefined(container.resources.limits.memory)
      }
    }
  })

  it("probe routes that exist on ports that exist; services, policies and the budget find their pods", () => {
    const labels = deployments.map(({ spec }) => spec.template.metadata.labels)
    const selects = (selector: Readonly<Record<string, string>>) =>
      labels.some((one) => Object.entries(selector).every(([name, value]) => one[name] === value))
    for (const { spec } of deployments) {
      assert.isTrue(selects(spec.selector.matchLabels))
      for (const container of spec.template.spec.containers) {
        const ports = container.ports.map(({ name }: { name: string }) => name)
        for (const probe of [container.startupProbe, container.readinessProbe, container.livenessProbe]) {
          if (probe?.httpGet !== undefined) assert.include(routes, probe.httpGet.path)
          if (probe !== undefined) assert.include(ports, (probe.httpGet ?? probe.tcpSocket).port)
        }
      }
    }
    for (const service of kind("Service")) {
      assert.isTrue(selects(service.spec.selector), service.metadata.name)
      const target = deployments.find(({ spec }) =>
        Object.entries(service.spec.selector).every(([name, value]) => spec.template.metadata.labels[name] === value)
      )
      const ports = target.spec.template.spec.containers[0].ports.map(({ name }: { name: string }) => name)
      for (const { targetPort } of service.spec.ports) assert.include(ports, targetPort)
    }
    for (const { spec } of kind("PodDisruptionBudget")) assert.isTrue(selects(spec.selector.matchLabels))
    for (const { spec } of kind("NetworkPolicy")) assert.isTrue(selects(spec.podSelector.matchLabels))
    const api = deployments.find(({ metadata }) => metadata.name === "ampoule-api")
    const vault = deployments.find(({ metadata }) => metadata.name === "ampoule-vault")
    assert.strictEqual(api.spec.replicas, 2)
    assert.strictEqual(vault.spec.replicas, 1)
    assert.strictEqual(vault.spec.strategy.type, "Recreate")
  })

  it.effect("start no server until somebody says which ingress it may believe", () =>
    Effect.gen(function* () {
      const [{ data }] = kind("ConfigMap")
      const { message } = yield* Effect.flip(accepted({ AMPOULE_DATA_DIR: "/data", ...data }))
      assert.include(message, "AMPOULE_TRUSTED_PROXIES")
      assert.include(message, "IP addresses or blocks")
    })
  )

  it("let only named namespaces reach the API, and let it reach nothing but the ports that it needs", () => {
    const { spec } = kind("NetworkPolicy").find(({ metadata }) => metadata.name === "ampoule-api")
    assert.deepStrictEqual(spec.policyTypes, ["Ingress", "Egress"])
    const name = (namespace: string) => ({
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } }
    })
    assert.deepStrictEqual(spec.ingress, [
      { from: [name("ingress-nginx")], ports: [{ port: 4400, protocol: "TCP" }] },
      { from: [name("monitoring")], ports: [{ port: 9464, protocol: "TCP" }] }
    ])
    const ports: ReadonlyArray<number> = spec.egress.flatMap((rule: Document) =>
      rule.ports.map(({ port }: { port: number }) => port)
    )
    assert.deepStrictEqual([...new Set(ports)], [53, 4410, 5432, 6379, 443])
    for (const { ports: own, to } of spec.egress) {
      const [{ port }] = own
      if (port === 53) assert.deepStrictEqual(to, [name("kube-system")])
      if (port === 4410)
        assert.deepStrictEqual(to[0].podSelector.matchLabels["app.kubernetes.io/name"], "ampoule-vault")
    }
  })

  it("reach the vault by the name of its Service, on its port", () => {
    const variable = (deployment: string, name: string) =>
      documents
        .find((one) => one.kind === "Deployment" && one.metadata.name === deployment)
        .spec.template.spec.containers[0].env.find((one: { name: string }) => one.name === name).value
    const { hostname, port } = new URL(variable("ampoule-api", "AMPOULE_VAULT_URL").replace("tls:", "https:"))
    const service = kind("Service").find(({ metadata }) => metadata.name === hostname)
    assert.strictEqual(String(service.spec.ports[0].port), port)
    assert.match(variable("ampoule-vault", "AMPOULE_VAULT_URL"), new RegExp(`:${port}$`))
  })
})

describe("the systemd units", () => {
  const folder = "deploy/systemd"
  const units = fs.readdirSync(folder)

  it("name settings that exist, secrets as credentials of systemd", () => {
    assert.strictEqual(units.length, 2)
    for (const unit of units) {
      const text = fs.readFileSync(path.join(folder, unit), "utf8")
      const variables = [...text.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name, value]) => ({ name, value }))
      checkNames(
        unit,
        variables.map(({ name }) => name)
      )
      for (const { name, value } of variables) {
        if (!name.endsWith("_FILE")) continue
        const credential = value.replace("%d/", "")
        assert.include(text, `LoadCredential=${credential}:`)
      }
      assert.include(text, "LimitCORE=0")
    }
  })

  it.skipIf(Programs.missing("systemd-analyze"))("are understood by systemd as they stand", () => {
    for (const unit of units) {
      const { stderr, status } = spawnSync("systemd-analyze", ["verify", "--man=no", path.join(folder, unit)], {
        encoding: "utf8"
      })
      // Programs and accounts of the machine that it will run on are not here.
      const complaints = stderr.split("\n").filter((line) => line.includes(unit) && !/not executable/.test(line))
      assert.deepStrictEqual(complaints, [])
      if (!stderr.includes("not executable")) assert.strictEqual(status, 0)
    }
  })
})
