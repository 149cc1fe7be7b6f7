/** A chain and three replicas behind HAProxy, one of them late, for `bench/consistency.ts`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type WebSocket, WebSocketServer, WebSocket as WsClient } from 'ws'
import { decodePacket } from '../../engine/flashblocks/codec.ts'
import { freePort } from '../../test/kit/free-port.ts'
import { type Leader, temporary, until } from '../../test/outside/follow/nodes.ts'
import { type Balancer, HAPROXY_FILE, startBalancer } from '../../test/outside/scale/balancer.ts'
import { type Replica, startReplica } from '../../test/outside/scale/proxy.ts'

export type FlashblockPosition = { readonly number: number; readonly index: number }
export const isBefore = (a: FlashblockPosition, b: FlashblockPosition): boolean =>
  a.number < b.number || (a.number === b.number && a.index < b.index)

export const feedOf = (url: string): string => `${url.replace('http', 'ws')}/feed`

/** Tracks the flashblocks that the chain sends. */
export interface Newest {
  /** Milliseconds since the chain sent a newer flashblock; 0 if there is none. */
  ageOf(position: FlashblockPosition): number
  close(): void
}

export function followNewest(url: string): Newest {
  const seen: { readonly position: FlashblockPosition; readonly atMs: number }[] = []
  const socket = new WsClient(url)
  let number = 0
  socket.on('message', (data: Buffer) => {
    const decoded = decodePacket(new Uint8Array(data))
    if (!('message' in decoded) || decoded.message.type === 'end') return
    const { base, index } = decoded.message
    if (base !== undefined) number = Number(base.blockNumber)
    seen.push({ position: { number, index: Number(index) }, atMs: performance.now() })
  })
  return {
    ageOf(position) {
      let after: number | undefined
      for (let at = seen.length - 1; at >= 0 && isBefore(position, seen[at]!.position); at--)
        after = seen[at]!.atMs
      return after === undefined ? 0 : performance.now() - after
    },
    close: () => socket.terminate(),
  }
}

/** Relays a feed in order with a random delay of each message. */
export async function lateFeed(url: string, [min, max]: readonly [number, number]) {
  const port = await freePort()
  const server = new WebSocketServer({ port, host: '127.0.0.1', perMessageDeflate: false })
  server.on('connection', (reader: WebSocket, request) => {
    const source = new WsClient(`${url}${new URL(request.url ?? '/', 'ws://x').search}`)
    let last = 0
    source.on('message', (data: Buffer, isBinary: boolean) => {
      last = Math.max(last, performance.now() + min + Math.random() * (max - min))
      setTimeout(() => reader.send(data, { binary: isBinary }), last - performance.now())
    })
    reader.on('close', () => source.terminate())
    source.on('close', () => reader.terminate())
  })
  return { url: `ws://127.0.0.1:${port}/feed`, close: () => server.close() }
}

export async function startReplicas(
  leader: Leader,
  late: string,
  flags: readonly string[],
): Promise<readonly Replica[]> {
  const feed = feedOf(leader.node.url)
  return Promise.all(
    [feed, feed, late].map((each) =>
      startReplica(leader.node, leader.genesis, { feed: each, flags }),
    ),
  )
}

/** How the load balancer binds a client to its node. */
export type Sticking = 'nothing' | 'cookie' | 'table'

/** @param sticking how the operators' file is changed for binding clients */
export async function balance(replicas: readonly Replica[], sticking: Sticking): Promise<Balancer> {
  const folder = temporary('consistency')
  const file = join(folder, 'haproxy.cfg')
  writeFileSync(file, configOf(readFileSync(HAPROXY_FILE, 'utf8'), sticking))
  const env = Object.fromEntries(
    replicas.flatMap(({ address, agentPort }, at) => [
      [`NODE${at + 1}`, address],
      [`NODE${at + 1}_AGENT`, String(agentPort)],
    ]),
  )
  const balancer = await startBalancer(folder, env, file)
  const areUp = async () =>
    Object.values(await balancer.stats()).filter(({ status }) => status.startsWith('UP')).length ===
    replicas.length
  if (!(await until(areUp, 15_000))) throw new Error('HAProxy does not ask all replicas')
  return balancer
}

function configOf(text: string, sticking: Sticking): string {
  if (sticking === 'table') return text
  const turns = text.replace(/^ {4}balance source\n.*$/m, '    balance roundrobin')
  const bare = turns.replace('    stick on src\n', '')
  if (turns === text || bare === turns) throw new Error('haproxy.cfg has no lines that stick')
  if (sticking === 'nothing') return bare
  return bare
    .replace(/^ {4}stick-table .*$/m, '    cookie FLASHNODE insert indirect nocache httponly')
    .replaceAll(/^( {4}server (node\d) .* agent-port .*)$/gm, '$1 cookie $2')
}
