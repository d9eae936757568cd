/** A mail server for tests, on this machine. */
import * as Effect from "effect/Effect"
import { SMTPServer } from "smtp-server"
import { freePort } from "./FreePort.ts"

/** A mail server of this machine, which keeps the messages, or answers with an error. */
export const catcher = (refuses: { by: number | undefined }) =>
  Effect.acquireRelease(
    Effect.flatMap(freePort, (port) =>
      Effect.async<{ readonly port: number; readonly mails: Array<string>; readonly close: () => void }>((resume) => {
        const mails: Array<string> = []
        const server = new SMTPServer({
          disabledCommands: ["STARTTLS"],
          authOptional: true,
          onData: (stream, _, done) => {
            const parts: Array<Buffer> = []
            stream.on("data", (part: Buffer) => parts.push(part))
            stream.on("end", () => {
              if (refuses.by !== undefined) {
                return done(Object.assign(new Error("not now"), { responseCode: refuses.by }))
              }
              mails.push(Buffer.concat(parts).toString("utf8"))
              done()
            })
          }
        })
        server.listen(port, "127.0.0.1", () =>
          resume(Effect.succeed({ port, mails, close: () => server.close(() => {}) }))
        )
      })
    ),
    ({ close }) => Effect.sync(close)
  )
