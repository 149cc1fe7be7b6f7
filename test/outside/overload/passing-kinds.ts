/** These are the ways in which a client may come and go. */
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { increment, post, type Reply } from './beside.ts'
import { POWERS } from './contracts.ts'

export type Passing = {
  readonly url: string
  /** The client's source address. */
  readonly from: string
  readonly random: () => number
}
export type Kind = {
  readonly name: string
  /**
   * Runs the client.
   * @throws for a wrong response, and for none
   */
  run(passing: Passing): Promise<'answered' | 'left'>
}

/** The client leaves within this many milliseconds of its request. */
const SOON_MS = 15
/** The timeout of a response. */
const RESPONSE_MS = 120_000

export const KINDS: readonly Kind[] = [
  {
    name: 'sends one call',
    async run(passing) {
      const agent = new Agent()
      await request(passing, agent)
      return 'answered'
    },
  },
  {
    name: 'sends some calls over one connection',
    async run(passing) {
      const agent = new Agent({ keepAlive: true })
      for (let count = 0; count < 3; count++) await request(passing, agent)
      agent.destroy()
      return 'answered'
    },
  },
  {
    name: 'sends a call over WebSocket',
    async run(passing) {
      const socket = await webSocket(passing)
      const number = numberOf(passing)
      socket.send(body(increment(number)))
      const [data] = await once(socket, 'message', { signal: AbortSignal.timeout(RESPONSE_MS) })
      expectResponse(JSON.parse(String(data)), number)
      socket.close()
      await once(socket, 'close')
      return 'answered'
    },
  },
  {
    name: 'subscribes and disconnects',
    async run(passing) {
      const socket = await webSocket(passing)
      for (const kind of ['newHeads', 'newPendingTransactions'])
        socket.send(body({ method: 'eth_subscribe', params: [kind] }))
      await once(socket, 'message', { signal: AbortSignal.timeout(RESPONSE_MS) })
      return vanish(socket)
    },
  },
  {
    name: 'disconnects while a call over WebSocket runs',
    async run(passing) {
      const socket = await webSocket(passing)
      for (let count = 0; count < 2; count++) socket.send(body(endless(passing)))
      await sleep(passing.random() * SOON_MS)
      return vanish(socket)
    },
  },
  {
    name: 'disconnects in the WebSocket handshake',
    run: (passing) =>
      leaveAfter(
        passing,
        'GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      ),
  },
  {
    name: 'disconnects in the headers',
    run: (passing) => leaveAfter(passing, 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-ty'),
  },
  {
    name: 'disconnects in the body',
    run(passing) {
      const request = requestOf(body(increment(numberOf(passing))))
      return leaveAfter(passing, request.slice(0, -Math.ceil(passing.random() * 60)))
    },
  },
  {
    name: 'disconnects before the response',
    run: (passing) => leaveAfter(passing, requestOf(body(endless(passing)))),
  },
  {
    name: 'disconnects after two requests in one packet',
    run: (passing) =>
      leaveAfter(passing, requestOf(body(endless(passing))) + requestOf(body(endless(passing)))),
  },
]

const numberOf = ({ random }: Passing) => Math.floor(random() * 2 ** 32)
const body = (call: { readonly method: string; readonly params: readonly unknown[] }) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, ...call })
const requestOf = (text: string) =>
  `POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`

/**
 * Makes a call that takes a second and a half; each is different, so that none comes from a cache.
 */
const endless = ({ random }: Passing) => {
  const gas = 15_000_000 + Math.floor(random() * 1e6)
  return {
    method: 'eth_call',
    params: [{ to: POWERS.address, gas: `0x${gas.toString(16)}` }, 'latest'],
  }
}

async function request(passing: Passing, agent: Agent): Promise<void> {
  const number = numberOf(passing)
  const path = passing.random() < 0.5 ? '/' : '/flashblocks'
  const options = { agent, localAddress: passing.from }
  expectResponse(await post(`${passing.url}${path}`, increment(number), options), number)
}

function expectResponse({ result, error }: Reply, number: number): void {
  const wanted = `0x${(number + 1).toString(16).padStart(64, '0')}`
  if (result !== wanted) throw new Error(error ? JSON.stringify(error) : String(result))
}

async function webSocket({ url, from }: Passing): Promise<WebSocket> {
  const socket = new WebSocket(url.replace('http', 'ws'), { localAddress: from })
  await once(socket, 'open')
  return socket
}

async function vanish(socket: WebSocket): Promise<'left'> {
  socket.on('error', () => {})
  socket.terminate()
  await once(socket, 'close')
  return 'left'
}

/** Sends a request and leaves, either by a normal close or by a reset. */
async function leaveAfter({ url, from, random }: Passing, text: string): Promise<'left'> {
  const socket: Socket = connect({
    port: Number(new URL(url).port),
    host: '127.0.0.1',
    localAddress: from,
  })
  await once(socket, 'connect')
  socket.on('error', () => {})
  socket.write(text)
  await sleep(random() * SOON_MS)
  const closed = once(socket, 'close')
  if (random() < 0.5) socket.resetAndDestroy()
  else socket.destroy()
  await closed
  return 'left'
}
