/**
 * Sockets of the HTTP server, from accept to close: admission, eviction, and the end of late ones.
 */
import type { IncomingMessage, OutgoingHttpHeaders, Server, ServerResponse } from 'node:http'
import { BlockList, type Socket } from 'node:net'
import type { Limits } from '../core/limits.ts'
import { clientAddress, isTrusted, limiterKey, type TrustedProxies } from '../limiter/address.ts'
import type { OpenConcurrencyLimit } from '../limiter/shared-concurrency-limits.ts'
import { awaitProxyHeader, type ProxyRefusal } from '../proxy/proxied.ts'
import { createClosing, endBroken } from '../sockets/closing.ts'
import { createCutOffs } from '../sockets/cut-offs.ts'
import { createRefusals, type RefusalLimits, type Refusals } from '../sockets/refusals.ts'
import { refusePeers, takeConnections } from '../wire/internals.ts'
import { Incoming } from './incoming.ts'
import {
  type Activity,
  createSocketRegistry,
  type SocketEntry,
  type SocketRegistry,
} from './socket-registry.ts'

export interface Sockets {
  /** Called when the headers of a request are read. */
  start(request: IncomingMessage, response: ServerResponse): void
  /** Called for a request of the fast path: its headers or the whole request have been read. */
  startPlain(socket: Socket, is: 'arriving' | 'complete'): void
  /** Called when such a request is answered, or goes to Node. */
  endPlain(socket: Socket): void
  /**
   * Gives an incomplete request to Node, which restarts its timeout.
   * @param since start of the request
   */
  yieldSocket(socket: Socket, since: number): void
  /** Closes a connection whose request is late. */
  closeLate(socket: Socket): void
  /** Closes connections that were given to Node and are late. */
  closeYielded(now: number): void
  /**
   * Records a client whose input costs many times its bytes; the caller closes the connection. At
   * the second time within `cutOffMs` the address loses its idle and arriving connections. It gets
   * no new ones for as long. A trusted proxy is exempt, because it has many clients.
   */
  strike(socket: Socket): void
  /** Closes refused connections and those without a named client, and refuses new ones. */
  closeUnserved(): void
  /** Handles a broken or late request. */
  onBroken(error: NodeJS.ErrnoException, socket: Socket): void
  readonly stats: {
    /** Refused with 503 or closed on accept, because the address or the total is at its limit. */
    readonly refused: number
    /** Closed while idle, because another client needed the entry. */
    readonly evicted: number
    /** Closed because headers or a body were late. */
    readonly late: number
    /** Number of times that an address was cut off. */
    readonly cutOff: number
    /** Closed because a proxy did not name its client. */
    readonly unnamed: number
  }
}

type Open = {
  readonly socket: Socket
  entry: SocketEntry<Open> | undefined
  /** Number of unanswered requests. */
  openRequests: number
  /** The newest request, while incomplete. */
  arriving: IncomingMessage | 'plain' | undefined
  /** Start of an incomplete request that was given to Node. */
  since: number | undefined
  /** The connection is about to be closed, because it is late. */
  isLate: boolean
}

/**
 * Property of a socket with its state. A request reads the state three times, and a map would also
 * cost garbage collection.
 */
const OPEN = Symbol('open')
type Known = Socket & { [OPEN]?: Open }
const openOf = (socket: Socket): Open | undefined => (socket as Known)[OPEN]

export type SocketLimits = RefusalLimits &
  Pick<Limits, 'sockets' | 'cutOffMs' | 'headersMs' | 'requestMs'>

export type GuardOptions = {
  readonly limits: SocketLimits
  /** Limit of an address's sockets over several servers; left out: of this server only. */
  readonly concurrencyLimits?: OpenConcurrencyLimit | undefined
  readonly trustedProxies: TrustedProxies
  /**
   * Proxies whose connections start with the PROXY header. The header is read from no other peer.
   */
  readonly namingProxies: TrustedProxies
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  /** Response headers that do not depend on a browser's origin. */
  readonly headersWithoutOrigin: OutgoingHttpHeaders
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** Called with an admitted socket; `toNode` attaches Node's parser. */
  readonly open: (socket: Socket, toNode: (socket: Socket) => void) => void
}

/**
 * Guards a server: a socket gets Node's parser only after admission. A refused socket costs 35 µs
 * of processor time instead of 115 µs (2026-11), most of it in the system. libuv accepts one
 * connection in a turn of the loop, so requests are read between any number of new connections.
 */
export function guardSockets(http: Server, options: GuardOptions): Sockets {
  const { limits, trustedProxies, namingProxies } = options
  const { sockets: total, socketsPerClient: perKey } = limits
  const registry = createSocketRegistry<Open>({
    total,
    perKey,
    concurrencyLimits: options.concurrencyLimits,
  })
  const stats = { refused: 0, evicted: 0, late: 0, cutOff: 0, unnamed: 0 }
  const cuts = createCutOffs(limits.cutOffMs, options.now)
  const closeSoon = createClosing()
  const late = createLate(stats, limits, closeSoon)
  const keyOf = createKeys(trustedProxies)
  const refusals = createRefusals(limits, { ...options, headers: options.headersWithoutOrigin })
  const admit = createAdmission({ registry, refusals, stats, keyOf })

  /** Tells whether a connection is closed on accept, without a response. */
  function isUnwanted(remote: string): boolean {
    const key = keyOf(remote)
    if (key === undefined) return false
    if (!cuts.has(key) && (!registry.isFull(key) || refusals.hasCapacity(key))) return false
    stats.refused++
    return true
  }
  const naming = createNaming({ ...options, registry, refusals, stats, isUnwanted })
  const isNaming = (remote: string | undefined) =>
    namingProxies.rules.length > 0 &&
    isTrusted(clientAddress(remote, undefined, NONE), namingProxies)
  const isUnwantedPeer = (remote: string) => !isNaming(remote) && isUnwanted(remote)
  const open = (socket: Socket, toNode: (socket: Socket) => void) => {
    if (admit(socket)) options.open(socket, toNode)
  }
  standBefore(http, isUnwantedPeer, (socket, toNode) => {
    if (isNaming(socket.remoteAddress)) naming.name(socket, () => open(socket, toNode))
    else open(socket, toNode)
  })
  http.prependListener('upgrade', (request) => {
    const one = openOf(request.socket)
    if (one !== undefined) registry.set(one.entry!, 'busy')
  })

  return {
    stats,
    ...followRequests((one) => registry.set(one.entry!, activityOf(one))),
    closeUnserved() {
      refusals.close()
      naming.close()
    },
    yieldSocket: late.yieldSocket,
    closeLate: (socket) => late.close(lateError(), socket),
    closeYielded: late.closeYielded,
    strike(socket) {
      const key = keyOf(socket.remoteAddress)
      if (key === undefined || !cuts.strike(key)) return
      stats.cutOff++
      for (const one of registry.openRequests(key)) {
        if (one.socket === socket) continue
        one.socket.pause()
        closeSoon(() => one.socket.destroy())
      }
    },
    onBroken(error, socket) {
      if (error.code === 'ECONNRESET' || socket.destroyed) return
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') late.close(error, socket)
      else endBroken(socket, error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400, error)
    },
  }
}

/**
 * Follows the requests of a socket.
 * @param check called at each change
 */
function followRequests(
  check: (one: Open) => void,
): Pick<Sockets, 'start' | 'startPlain' | 'endPlain'> {
  function hasArrived(request: Incoming): void {
    const one = openOf(request.socket)
    if (one?.arriving !== request) return
    one.arriving = undefined
    one.since = undefined
    check(one)
  }
  function onResponseEnd(this: ServerResponse): void {
    const one = openOf(this.req.socket)!
    one.openRequests--
    check(one)
  }
  return {
    start(request, response) {
      const one = openOf(request.socket)
      if (one === undefined) return
      one.openRequests++
      one.arriving = request
      check(one)
      if (request instanceof Incoming) request.onArrived = hasArrived
      // `on` needs no wrapper that removes its listener, unlike `once`. The event is emitted once.
      response.on('close', onResponseEnd)
    },
    startPlain(socket, is) {
      const one = openOf(socket)
      if (one === undefined) return
      one.openRequests++
      one.arriving = is === 'arriving' ? 'plain' : undefined
      check(one)
    },
    endPlain(socket) {
      const one = openOf(socket)
      if (one === undefined) return
      one.openRequests--
      if (one.arriving === 'plain') one.arriving = undefined
      check(one)
    },
  }
}

/**
 * Creates the function from remote address to key. A proxy has no key, because its sockets belong
 * to many clients. None of them is refused or evicted for the others.
 */
const createKeys =
  (trustedProxies: TrustedProxies) =>
  (remote: string | undefined): string | undefined => {
    const address = clientAddress(remote, undefined, trustedProxies)
    return isTrusted(address, trustedProxies) ? undefined : limiterKey(address)
  }

const NONE = new BlockList()
/** Returns the key of a peer, even of a trusted proxy. */
const peerKeyOf = ({ remoteAddress }: Socket): string =>
  limiterKey(clientAddress(remoteAddress, undefined, NONE))

/**
 * Waits for the client's name from a proxy. Until then the connection counts in the total only, and
 * later for the client.
 */
function createNaming(options: {
  readonly limits: SocketLimits
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  readonly registry: SocketRegistry<Open>
  readonly refusals: Refusals
  readonly stats: { refused: number; evicted: number; unnamed: number }
  readonly isUnwanted: (remote: string) => boolean
}): { name(socket: Socket, open: () => void): void; close(): void } {
  const { limits, registry, refusals, stats, isUnwanted } = options
  const onRefused = (why: ProxyRefusal, proxy: string) => {
    stats.unnamed++
    options.onUnnamed(why, proxy)
  }
  /** Waiting sockets, bounded by the registry. */
  const waiting = new Set<Socket>()
  let isClosed = false

  function name(socket: Socket, open: () => void): void {
    if (isClosed) {
      socket.destroy()
      return
    }
    const entered = registry.enter(undefined, openWith(socket))
    if (entered === undefined) {
      stats.refused++
      refusals.refuse(socket, peerKeyOf(socket), 'all')
      return
    }
    if (entered.evicted !== undefined) {
      stats.evicted++
      entered.evicted.socket.destroy()
    }
    const leave = () => {
      waiting.delete(socket)
      registry.leave(entered.entry)
    }
    waiting.add(socket)
    socket.once('close', leave)
    awaitProxyHeader(socket, { limits, onRefused }, () => {
      socket.off('close', leave)
      leave()
      if (isUnwanted(socket.remoteAddress ?? '')) socket.destroy()
      else open()
    })
  }
  return {
    name,
    close() {
      isClosed = true
      for (const socket of waiting) socket.destroy()
    },
  }
}

const openWith = (socket: Socket): Open => ({
  socket,
  entry: undefined,
  openRequests: 0,
  arriving: undefined,
  since: undefined,
  isLate: false,
})

/** Creates the admission of sockets. False: the socket is refused. */
function createAdmission({
  registry,
  refusals,
  stats,
  keyOf,
}: {
  readonly registry: SocketRegistry<Open>
  readonly refusals: Refusals
  readonly stats: { refused: number; evicted: number }
  readonly keyOf: (remote: string | undefined) => string | undefined
}): (socket: Socket) => boolean {
  return (socket) => {
    const one = openWith(socket)
    const key = keyOf(socket.remoteAddress)
    const entered = registry.enter(key, one)
    if (entered === undefined) {
      stats.refused++
      const isFull = key !== undefined && registry.isFull(key)
      refusals.refuse(socket, key ?? peerKeyOf(socket), isFull ? 'address' : 'all')
      return false
    }
    if (entered.evicted !== undefined) {
      stats.evicted++
      entered.evicted.socket.destroy()
    }
    const { entry } = entered
    one.entry = entry
    ;(socket as Known)[OPEN] = one
    socket.once('close', () => registry.leave(entry))
    return true
  }
}

function activityOf({ openRequests, arriving }: Open): Activity {
  if (openRequests === 0) return 'idle'
  return openRequests === 1 && arriving !== undefined ? 'arriving' : 'busy'
}

/** Checks a peer before Node creates its socket, and opens the socket before it gets a parser. */
function standBefore(
  http: Server,
  isUnwanted: (remote: string) => boolean,
  open: (socket: Socket, toNode: (socket: Socket) => void) => void,
): void {
  // `open` also refuses unwanted peers, if Node does not use its block list.
  refusePeers(http, isUnwanted)
  const toNode = takeConnections(http)
  http.on('connection', (socket: Socket) => open(socket, toNode))
}

/** Late sockets, each closed once, and sockets given to Node that may become late. */
function createLate(
  stats: { late: number },
  { headersMs, requestMs }: Pick<SocketLimits, 'headersMs' | 'requestMs'>,
  closeSoon: ReturnType<typeof createClosing>,
) {
  /** Bounded by the number of sockets. */
  const yielded = new Set<Open>()

  function close(error: Error, socket: Socket): void {
    const one = openOf(socket)
    if (one?.isLate === true) return
    if (one !== undefined) one.isLate = true
    stats.late++
    closeSoon(() => endBroken(socket, 408, error))
  }
  return {
    close,
    yieldSocket(socket: Socket, since: number): void {
      const one = openOf(socket)
      if (one === undefined) return
      one.since = since
      yielded.add(one)
    },
    closeYielded(now: number): void {
      for (const one of yielded) {
        const { socket, since, arriving } = one
        const isOver = since === undefined || socket.destroyed
        const limitMs = arriving === undefined ? Math.min(headersMs, requestMs) : requestMs
        if (!isOver && now - since <= limitMs) continue
        yielded.delete(one)
        if (!isOver) close(lateError(), socket)
      }
    },
  }
}

const lateError = (): Error =>
  Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
