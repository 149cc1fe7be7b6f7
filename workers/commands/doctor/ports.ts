/** Checks if the node can listen on its addresses. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { error, type Line, ok } from './line.ts'

export async function portLine(flag: string, host: string, port: number): Promise<Line> {
  const about = `port ${port}`
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen({ port, host })
    await listening
    return ok(about, `free on ${host}`)
  } catch (fault) {
    const { code, message } = fault as Error & { readonly code?: string }
    const advice =
      code === 'EADDRINUSE'
        ? `another process listens there: stop it, or give another --${flag}`
        : `give another --${flag}, or another --host`
    return error(about, `${host}: ${message}`, advice)
  } finally {
    server.close()
  }
}
