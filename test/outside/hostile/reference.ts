/**
 * This idle server runs in its own process. The time of its responses is the delay that comes from
 * the machine alone.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Agent } from 'node:http'
import { post } from '../../kit/client.ts'

const SERVER = `
const server = require('node:http').createServer((asked, answer) => asked.resume().on('end', () => answer.end('{}')))
// A connection that the server closes while it is idle may get a request at that moment.
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.resume().on('end', () => process.exit())`

export async function startReference(): Promise<{ readonly url: string; stop(): void }> {
  const child = spawn(process.execPath, ['-e', SERVER], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  // The server ends with its standard input, and so with this process.
  return { url: `http://127.0.0.1:${String(port).trim()}`, stop: () => void child.stdin.end() }
}

/**
 * Sends a request to the server.
 * @returns milliseconds until the response
 */
export async function requestReference(url: string, agent: Agent): Promise<number> {
  const startedAt = performance.now()
  await post(url, '{}', { agent })
  return performance.now() - startedAt
}
