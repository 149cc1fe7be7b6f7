/** Ports for servers that have no zero that takes a free one, as the admin port. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Above the ports that browsers refuse. */
const FIRST = 10_100
/**
 * Up to what systems give to who asks for port 0 and to outgoing connections (Linux from 32768 on, of which it takes less than half for
 * port 0): a port of those may be another's before it is listened at, or while its server starts again.
 */
const LAST = 32_000

/** A process beside this one begins elsewhere. */
let next = randomInt(FIRST, LAST)

/** Free when it resolves, and given to no other by this process or the system. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = next
    next = port === LAST ? FIRST : port + 1
    if (await isFree(port)) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
  server.close()
  await once(server, 'close')
  return true
}
