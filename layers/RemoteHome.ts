/**
 * Asks the file systems of this user's folders whether they answer. A call to a dead server of NFS or a stopped FUSE
 * program waits without end and blocks its thread, also at the exit of Node. So another process makes the call.
 */
import { spawn } from "node:child_process"

/** Milliseconds. An automounter needs a second or two. */
const longestWait = 5_000

/** True when the folder could be read, or could not for a reason that the file system itself gave. */
const answers = (folder: string): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn("ls", ["-a", folder], { stdio: "ignore", env: { PATH: process.env["PATH"] } })
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      // It may not die before the file system answers.
      child.unref()
      resolve(false)
    }, longestWait)
    const settle = () => {
      clearTimeout(timer)
      resolve(true)
    }
    child.once("exit", settle)
    // Without `ls` there is no answer to wait for.
    child.once("error", settle)
  })

/** Those of these folders that do not answer. */
export const unreachable = async (folders: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const results = await Promise.all(folders.map(async (folder) => ({ folder, isReachable: await answers(folder) })))
  return results.filter(({ isReachable }) => !isReachable).map(({ folder }) => folder)
}
