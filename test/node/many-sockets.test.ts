/** One program opens hundreds of connections at once, to a node that was started like by a user. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startNode } from '../kit/node.ts'

const BODY = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
const REQUEST = `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`

async function start(flags: readonly string[]) {
  const node = await startNode(['--ephemeral', '--rate-limit', 'off', ...flags])
  onTestFinished(async () => void (await node.stop()))
  const port = Number(new URL(node.url).port)
  const open = async (): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' })
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }
  return { openAll: (count: number) => Promise.all(Array.from({ length: count }, open)) }
}
/** Gives the status of the response; empty: the socket was closed without one. */
async function request(socket: Socket): Promise<string> {
  socket.write(REQUEST)
  return new Promise((resolve) => {
    socket.once('data', (response) => resolve(String(response).slice(9, 12)))
    if (socket.closed) resolve('')
    socket.once('close', () => resolve(''))
  })
}
const count = (statuses: readonly string[], status: string) =>
  statuses.filter((one) => one === status).length

// The default depends on the command and the host, not on the parser of requests.
test('dev on loopback serves 400 connections of one program', async () => {
  const { openAll } = await start(['--front-threads', '2'])
  const sockets = await openAll(400)
  const statuses = await Promise.all(sockets.map(request))
  expect(count(statuses, '200')).toBe(400)
})

test.each([
  ['llhttp', ['--http', 'llhttp']],
  ['node', ['--http', 'node']],
  ['several front threads', ['--front-threads', '2']],
])('a public dev node refuses more than 256 connections with 503: %s', async (_name, flags) => {
  const { openAll } = await start(['--host', '0.0.0.0', '--allow-insecure-unlock', ...flags])
  const served = await openAll(256)
  expect(count(await Promise.all(served.map(request)), '200')).toBe(256)
  const over = await openAll(300)
  const statuses = await Promise.all(over.map(request))
  expect(count(statuses, '503') + count(statuses, '')).toBe(300)
  // A slow machine has closed some refused sockets before it refuses the last.
  expect(count(statuses, '503')).toBeGreaterThanOrEqual(256)
  expect(count(await Promise.all(served.map(request)), '200')).toBe(256)
})
