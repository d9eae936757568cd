/**
 * What is different on Windows. Written against documented behaviour and untried (docs/command-line.md, "What is
 * untried"): this project is tested on Linux.
 */
export const isWindows = process.platform === "win32"

/** A line for the shell of the system, as `system` of its C library and `npm run` have it: cmd.exe /d /s /c. */
export const shell = (line: string) => ["cmd.exe", "/d", "/s", "/c", line] as const

/** The line for the editor; its program, where neither VISUAL nor EDITOR names one. */
export const editor = (given: string | undefined, file: string) => shell(`${given ?? "notepad"} "${file}"`)

/** What opens a page in the browser of the user: never through a shell, which would read the address. */
export const opener = (): readonly [program: string, ...before: Array<string>] => [
  `${process.env["SystemRoot"] ?? "C:\\Windows"}\\System32\\rundll32.exe`,
  "url.dll,FileProtocolHandler"
]

/** Characters of one variable (SetEnvironmentVariable: 32,767), and of all together with room to spare. */
export const variableLimits = { oneString: 32_767, total: 32_767 * 64 } as const

/** Variables that name the folders of the user, where those of XDG are not set. */
export const folderVariables = { config: "APPDATA", cache: "LOCALAPPDATA" } as const
