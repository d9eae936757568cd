/**
 * Differences on Windows, written from documentation and not tested (docs/command-line/start.md, "Untested platforms"). The
 * project is tested on Linux.
 */
export const isWindows = process.platform === "win32"

/** Command line for the system's shell, as `system` of its C library and `npm run` build it: cmd.exe /d /s /c. */
export const shell = (line: string) => ["cmd.exe", "/d", "/s", "/c", line] as const

/** Command line of the editor, with a default for VISUAL and EDITOR. */
export const editor = (configured: string | undefined, file: string) => shell(`${configured ?? "notepad"} "${file}"`)

/** Opens a page in the user's browser: never through a shell, which would interpret the address. */
export const opener = (): readonly [program: string, ...before: Array<string>] => [
  `${process.env["SystemRoot"] ?? "C:\\Windows"}\\System32\\rundll32.exe`,
  "url.dll,FileProtocolHandler"
]

/** Characters of one variable (SetEnvironmentVariable: 32,767), and of all together, with room to spare. */
export const variableLimits = { oneString: 32_767, total: 32_767 * 64 } as const

/** Variables that name the user's folders, when those of XDG are not set. */
export const folderVariables = { config: "APPDATA", cache: "LOCALAPPDATA" } as const
