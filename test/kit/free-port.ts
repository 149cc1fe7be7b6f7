/** This module finds free ports for servers that cannot take port 0, such as the admin port. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** The first port is above the ports that browsers refuse. */
const FIRST = 10_100
/**
 * The last port is below the range that systems use for port 0 and for outgoing connections. Linux
 * starts that range at 32768 and takes less than half of it for port 0. Another process may take
 * such a port before a server listens on it, or while the server restarts.
 */
const LAST = 32_000

/** Processes start at random ports, so that two of them rarely try the same ports. */
let next = randomInt(FIRST, LAST)

/**
 * Finds a port that is free when the promise resolves, and that this process gives out only once.
 */
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
