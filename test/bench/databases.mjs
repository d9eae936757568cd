// Databases of a measurement's own on a Postgres.

/** `fresh` answers the URL of an empty one; `end` drops them all, once their users have stopped. */
export const databasesOn = async (url) => {
  const { default: pg } = await import("pg")
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  const names = []
  return {
    fresh: async () => {
      const name = `bench_${process.pid}_${names.length}`
      names.push(name)
      await admin.query(`CREATE DATABASE ${name}`)
      const own = new URL(url)
      own.pathname = `/${name}`
      return own.href
    },
    end: async () => {
      for (const name of names) await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
      await admin.end()
    }
  }
}
