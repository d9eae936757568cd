// @ts-check
/**
 * Quick starts of docs/recipes/frameworks.md: the files and lines of each section, and what a machine needs to run them.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/** One file of a section, at most this many lines. */
export const mostLines = 20

/**
 * @typedef {{ readonly name: string, readonly files: ReadonlyArray<{ name: string, text: string }>, readonly lines: ReadonlyArray<string> }} Section
 */

/** @param {string} page @returns {ReadonlyArray<Section>} */
export const sectionsOf = (page) =>
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const blocks = [...section.matchAll(/^```(\w+) ?(\S*)\n([\s\S]*?)^```$/gm)]
      return {
        name: section.slice(0, section.indexOf("\n")),
        files: blocks.flatMap(([, , name = "", text = ""]) => (name === "" ? [] : [{ name, text }])),
        lines: blocks.flatMap(([, language, name, text = ""]) =>
          language === "sh" && name === "" ? text.trim().split("\n") : []
        )
      }
    })
    .filter(({ files }) => files.length > 0)

/**
 * @typedef {object} Need
 * @property {ReadonlyArray<string>} [programs] that the machine has, or Debian's `packages` bring
 * @property {ReadonlyArray<string>} [packages]
 * @property {Readonly<Record<string, string>>} [pip]
 * @property {Readonly<Record<string, string>>} [npm]
 * @property {Readonly<Record<string, string>>} [files] that the framework's own generator makes
 * @property {string} [node] the Node that runs it
 * @property {"answers" | "prints" | "builds"} [shows] how the value is seen; a server answers by default
 * @property {string} [note] of what was run in the place of the usual
 * @property {(folder: string, run: (command: string, args: ReadonlyArray<string>) => Promise<string>) => Promise<void>} [prepare]
 */

const laravel = {
  artisan: `#!/usr/bin/env php
<?php
$app = require __DIR__ . '/bootstrap/app.php';
exit($app->make(Illuminate\\Contracts\\Console\\Kernel::class)->handle(new Symfony\\Component\\Console\\Input\\ArgvInput, new Symfony\\Component\\Console\\Output\\ConsoleOutput));
`,
  "server.php": "<?php require __DIR__ . '/public/index.php';\n",
  "public/index.php": `<?php
$app = require __DIR__ . '/../bootstrap/app.php';
$kernel = $app->make(Illuminate\\Contracts\\Http\\Kernel::class);
$kernel->handle(Illuminate\\Http\\Request::capture())->send();
`,
  "bootstrap/app.php": `<?php
error_reporting(E_ALL & ~E_DEPRECATED);
require_once 'Illuminate/autoload.php';
class Routes extends Illuminate\\Foundation\\Support\\Providers\\RouteServiceProvider {
  public function map() { require base_path('routes/web.php'); }
}
$app = new Illuminate\\Foundation\\Application(dirname(__DIR__));
$app->singleton(Illuminate\\Contracts\\Http\\Kernel::class, Illuminate\\Foundation\\Http\\Kernel::class);
$app->singleton(Illuminate\\Contracts\\Console\\Kernel::class, Illuminate\\Foundation\\Console\\Kernel::class);
$app->singleton(Illuminate\\Contracts\\Debug\\ExceptionHandler::class, Illuminate\\Foundation\\Exceptions\\Handler::class);
return $app;
`,
  "config/app.php": `<?php
return ['env' => 'local', 'debug' => true, 'timezone' => 'UTC', 'locale' => 'en', 'providers' => [
  Illuminate\\Cache\\CacheServiceProvider::class,
  Illuminate\\Database\\DatabaseServiceProvider::class,
  Illuminate\\Filesystem\\FilesystemServiceProvider::class,
  Illuminate\\Foundation\\Providers\\FoundationServiceProvider::class,
  Illuminate\\Foundation\\Providers\\ConsoleSupportServiceProvider::class,
  Illuminate\\Queue\\QueueServiceProvider::class,
  Illuminate\\View\\ViewServiceProvider::class,
  Routes::class,
], 'aliases' => []];
`,
  ".env": "",
  "config/cache.php": "<?php return ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]];\n",
  "config/queue.php":
    "<?php return ['default' => 'sync', 'connections' => ['sync' => ['driver' => 'sync']], 'failed' => ['driver' => 'null']];\n",
  "config/view.php": "<?php return ['paths' => [], 'compiled' => sys_get_temp_dir()];\n",
  "bootstrap/cache/.keep": "",
  "storage/framework/views/.keep": ""
}

const springVersion = "3.5.8"
const pom = `<?xml version="1.0"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId><version>${springVersion}</version>
  </parent>
  <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
  <properties><java.version>17</java.version></properties>
  <dependencies>
    <dependency><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-web</artifactId></dependency>
  </dependencies>
  <build>
    <finalName>shop</finalName>
    <plugins><plugin><groupId>org.springframework.boot</groupId><artifactId>spring-boot-maven-plugin</artifactId></plugin></plugins>
  </build>
</project>
`

/** By the name of the section. A test demands one for each. @type {Readonly<Record<string, Need>>} */
export const needs = {
  Django: { pip: { django: "5.2.19" } },
  FastAPI: { pip: { fastapi: "0.165.0", uvicorn: "0.54.0" } },
  Go: { programs: ["go"] },
  Rust: { programs: ["rustc"] },
  "Ruby on Rails": {
    programs: ["ruby", "rackup"],
    packages: ["ruby", "ruby-railties", "ruby-webrick"],
    note: "Debian's packages of Rails, in the place of a gem"
  },
  Laravel: {
    programs: ["php"],
    packages: ["php-cli", "php-laravel-framework"],
    files: laravel,
    note: "Debian's package of the framework, with a skeleton made by the test"
  },
  "Spring Boot": { programs: ["mvn", "java"], files: { "pom.xml": pom } },
  ".NET": {
    programs: ["mcs"],
    packages: ["mono-mcs"],
    pip: { dotnetcore2: "3.1.23" },
    shows: "prints",
    note: "the runtime of .NET Core 3.1 with a compiler of Mono; no SDK and no ASP.NET Core can be installed here",
    prepare: async (folder, run) => {
      const [core = ""] = fs.globSync?.("python/lib/python3*/site-packages/dotnetcore2/bin", { cwd: folder }) ?? []
      const bin = path.join(
        folder,
        core || (await run("bash", ["-c", "echo python/lib/python3*/site-packages/dotnetcore2/bin"])).trim()
      )
      const shared = path.join(bin, "shared/Microsoft.NETCore.App")
      const framework = path.join(shared, fs.readdirSync(shared)[0] ?? "")
      const references = [
        "System.Private.CoreLib",
        "System.Runtime",
        "System.Console",
        "System.Private.Uri",
        "System.Runtime.Extensions"
      ]
      await run("mcs", [
        "-nostdlib",
        "-noconfig",
        ...references.map((name) => `-r:${path.join(framework, `${name}.dll`)}`),
        "-out:Program.dll",
        "Program.cs"
      ])
      const runtimeOptions = { framework: { name: "Microsoft.NETCore.App", version: path.basename(framework) } }
      fs.writeFileSync(path.join(folder, "Program.runtimeconfig.json"), JSON.stringify({ runtimeOptions }))
      fs.mkdirSync(path.join(folder, "bin"), { recursive: true })
      fs.writeFileSync(
        path.join(folder, "bin/dotnet"),
        `#!/bin/sh\nDOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 exec "${bin}/dotnet" "$@"\n`,
        { mode: 0o755 }
      )
      fs.chmodSync(path.join(bin, "dotnet"), 0o755)
    }
  },
  "Next.js": {
    npm: {
      "@types/node": "22.19.1",
      "@types/react": "19.3.0",
      next: "16.4.6",
      react: "19.3.1",
      "react-dom": "19.3.1",
      typescript: "5.9.3"
    },
    node: "node-22"
  },
  Vite: { npm: { vite: "8.3.8" }, node: "node-22", shows: "builds" },
  NestJS: {
    npm: {
      "@nestjs/common": "12.5.1",
      "@nestjs/core": "12.5.1",
      "@nestjs/platform-express": "12.5.1",
      "@types/node": "22.19.1",
      "reflect-metadata": "0.2.2",
      rxjs: "7.8.2",
      typescript: "5.9.3"
    },
    node: "node-22"
  },
  Astro: { npm: { astro: "7.3.5" }, node: "node-22" }
}
