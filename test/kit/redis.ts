/** This module starts the Redis that an operator has (Debian: apt-get install redis-server). */
import { type ChildProcess, spawn } from 'node:child_process'
import { connect } from 'node:net'

const WAIT_MS = 120_000
const CHECK_MS = 20

/**
 * Starts a server, which responds when the promise resolves.
 * @throws {Error} where Redis is not installed, or does not respond
 */
export async function startRedis(port: number): Promise<ChildProcess> {
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn('redis-server', flags, { stdio: 'ignore' })
  process.once('exit', () => child.kill('SIGKILL'))
  const failed = new Promise<never>((_, reject) => child.once('error', reject))
  const responds = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
      socket.once('data', (data) => {
        socket.destroy()
        resolve(data.toString().startsWith('+PONG'))
      })
      socket.once('error', () => resolve(false))
    })
  for (const end = performance.now() + WAIT_MS; performance.now() < end; await pause(CHECK_MS))
    if (await Promise.race([responds(), failed])) return child
  throw new Error(`redis-server did not answer within ${WAIT_MS / 1_000} s`)
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
