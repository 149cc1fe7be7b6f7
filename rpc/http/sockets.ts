/** The sockets of the HTTP server, from accept to close: who gets one, who loses one, and how those that are late are closed. */
import type { IncomingMessage, OutgoingHttpHeaders, Server, ServerResponse } from 'node:http'
import { BlockList, type Socket } from 'node:net'
import { awaitProxyHeader, type ProxyRefusal } from '../behind/proxied.ts'
import { clientAddress, isTrusted, limiterKey, type TrustedProxies } from '../seam/address.ts'
import type { Limits } from '../seam/limits.ts'
import type { OpenCaps } from '../seam/shared-caps.ts'
import { createClosing, endBroken } from '../sockets/closing.ts'
import { createCutOffs } from '../sockets/cut-offs.ts'
import { createRefusals, type RefusalLimits, type Refusals } from '../sockets/refusals.ts'
import { Incoming } from './incoming.ts'
import { type Activity, createPlaces, type Place, type Places } from './places.ts'

export interface Sockets {
  /** The headers of a request are here. */
  begin(request: IncomingMessage, response: ServerResponse): void
  /** The same of a request that was read before Node: its headers alone are here, or it is whole. */
  beginPlain(socket: Socket, is: 'arriving' | 'whole'): void
  /** It is answered, or is Node's after all. */
  endPlain(socket: Socket): void
  /** Node reads what is not whole, and counts its time anew: it has begun at `since`. */
  handOver(socket: Socket, since: number): void
  /** Closes it: what it sends does not come in time. */
  closeLate(socket: Socket): void
  /** Closes those that were handed over and are late by now. */
  closeHandedOver(now: number): void
  /**
   * Its client has sent what costs many times its bytes to be received. The caller ends this connection; when it is the second one within
   * `cutOffMs`, its address loses those that wait for no answer, and gets no new ones for so long. Not a trusted proxy, whose clients are many.
   */
  strike(socket: Socket): void
  /** Ends those that are refused, those whose client is not named yet, and those that come. */
  closeUnserved(): void
  /** What comes over a socket is no request, or did not come in time. */
  onBroken(error: NodeJS.ErrnoException, socket: Socket): void
  readonly stats: {
    /** Answered with 503, or closed on accept: too many of the address, or all are busy. */
    readonly refused: number
    /** Closed while idle, because another client needed the place. */
    readonly evicted: number
    /** Closed because headers or a body did not come in time. */
    readonly late: number
    /** Times that an address was cut off. */
    readonly cutOff: number
    /** Closed because a proxy that has to name its client did not. */
    readonly unnamed: number
  }
}

type Open = {
  readonly socket: Socket
  place: Place<Open> | undefined
  /** Requests that are not answered yet. */
  unanswered: number
  /** The newest of them, while it comes in. */
  arriving: IncomingMessage | 'plain' | undefined
  /** When the request began that was handed over to Node before it was whole. */
  since: number | undefined
  /** It is about to be closed for its lateness. */
  isLate: boolean
}

/** Where a socket has what is known of it: three looks in a request, which in a map cost the collector as well. */
const OPEN = Symbol('open')
type Known = Socket & { [OPEN]?: Open }
const openOf = (socket: Socket): Open | undefined => (socket as Known)[OPEN]

export type SocketLimits = RefusalLimits &
  Pick<Limits, 'sockets' | 'cutOffMs' | 'headersMs' | 'requestMs'>

export type GuardOptions = {
  readonly limits: SocketLimits
  /** Sockets of an address over several servers; left out: of this one. */
  readonly caps?: OpenCaps | undefined
  readonly trustedProxies: TrustedProxies
  /** Whose connections begin with the header of the PROXY protocol; of nobody else's is it looked for. */
  readonly namingProxies: TrustedProxies
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  /** Headers of an answer that no browser's origin decides. */
  readonly headersWithoutOrigin: OutgoingHttpHeaders
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** A socket that has a place; `toNode` gives it its parser. */
  readonly open: (socket: Socket, toNode: (socket: Socket) => void) => void
}

/**
 * Node's own listener, which gives a socket its parser, is called after the socket has got a place. A refused one costs 35 µs of processor
 * time instead of 115 (2026-11), and most of it is the system's.
 * libuv accepts one connection in a turn of the loop, so that however many come, requests are read in between.
 */
export function guardSockets(http: Server, options: GuardOptions): Sockets {
  const { limits, trustedProxies, namingProxies } = options
  const { sockets: total, socketsPerClient: perKey } = limits
  const places = createPlaces<Open>({ total, perKey, caps: options.caps })
  const stats = { refused: 0, evicted: 0, late: 0, cutOff: 0, unnamed: 0 }
  const cuts = createCutOffs(limits.cutOffMs, options.now)
  const closeSoon = createClosing()
  const late = createLate(stats, limits, closeSoon)
  const keyOf = createKeys(trustedProxies)
  const refusals = createRefusals(limits, { ...options, headers: options.headersWithoutOrigin })
  const admit = createAdmission({ places, refusals, stats, keyOf })

  /** It is closed unheard, and not even told. */
  function isUnwanted(remote: string): boolean {
    const key = keyOf(remote)
    if (key === undefined) return false
    if (!cuts.has(key) && (!places.isFull(key) || refusals.hasRoom(key))) return false
    stats.refused++
    return true
  }
  const naming = createNaming({ ...options, places, refusals, stats, isUnwanted })
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
    if (one !== undefined) places.set(one.place!, 'busy')
  })

  return {
    stats,
    ...followRequests((one) => places.set(one.place!, activityOf(one))),
    closeUnserved() {
      refusals.close()
      naming.close()
    },
    handOver: late.handOver,
    closeLate: (socket) => late.close(lateError(), socket),
    closeHandedOver: late.closeHandedOver,
    strike(socket) {
      const key = keyOf(socket.remoteAddress)
      if (key === undefined || !cuts.strike(key)) return
      stats.cutOff++
      for (const one of places.unanswered(key)) {
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

/** What a socket does with its requests. @param look is told of each change */
function followRequests(
  look: (one: Open) => void,
): Pick<Sockets, 'begin' | 'beginPlain' | 'endPlain'> {
  function hasArrived(request: Incoming): void {
    const one = openOf(request.socket)
    if (one?.arriving !== request) return
    one.arriving = undefined
    one.since = undefined
    look(one)
  }
  function isAnswered(this: ServerResponse): void {
    const one = openOf(this.req.socket)!
    one.unanswered--
    look(one)
  }
  return {
    begin(request, response) {
      const one = openOf(request.socket)
      if (one === undefined) return
      one.unanswered++
      one.arriving = request
      look(one)
      if (request instanceof Incoming) request.onArrived = hasArrived
      // Not `once`, here and in the other parts of a request: an event that comes once needs no wrapper that takes its listener away.
      response.on('close', isAnswered)
    },
    beginPlain(socket, is) {
      const one = openOf(socket)
      if (one === undefined) return
      one.unanswered++
      one.arriving = is === 'arriving' ? 'plain' : undefined
      look(one)
    },
    endPlain(socket) {
      const one = openOf(socket)
      if (one === undefined) return
      one.unanswered--
      if (one.arriving === 'plain') one.arriving = undefined
      look(one)
    },
  }
}

/** A proxy's sockets are many clients': none of them is refused for the others, and none is closed under a request on its way. */
const createKeys =
  (trustedProxies: TrustedProxies) =>
  (remote: string | undefined): string | undefined => {
    const address = clientAddress(remote, undefined, trustedProxies)
    return isTrusted(address, trustedProxies) ? undefined : limiterKey(address)
  }

const NONE = new BlockList()
/** Whoever it is, a trusted proxy as well. */
const peerKeyOf = ({ remoteAddress }: Socket): string =>
  limiterKey(clientAddress(remoteAddress, undefined, NONE))

/** A connection whose client will be named counts among all, and from then on for that client. @param open it is known */
function createNaming(options: {
  readonly limits: SocketLimits
  readonly onUnnamed: (why: ProxyRefusal, proxy: string) => void
  readonly places: Places<Open>
  readonly refusals: Refusals
  readonly stats: { refused: number; evicted: number; unnamed: number }
  readonly isUnwanted: (remote: string) => boolean
}): { name(socket: Socket, open: () => void): void; close(): void } {
  const { limits, places, refusals, stats, isUnwanted } = options
  const onRefused = (why: ProxyRefusal, proxy: string) => {
    stats.unnamed++
    options.onUnnamed(why, proxy)
  }
  /** Bounded by the places. */
  const waiting = new Set<Socket>()
  let isClosed = false

  function name(socket: Socket, open: () => void): void {
    if (isClosed) {
      socket.destroy()
      return
    }
    const entered = places.enter(undefined, openWith(socket))
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
      places.leave(entered.place)
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
  ...{ socket, place: undefined, unanswered: 0 },
  ...{ arriving: undefined, since: undefined, isLate: false },
})

/** Gives a socket its place, or refuses it; false: refused. */
function createAdmission({
  places,
  refusals,
  stats,
  keyOf,
}: {
  readonly places: Places<Open>
  readonly refusals: Refusals
  readonly stats: { refused: number; evicted: number }
  readonly keyOf: (remote: string | undefined) => string | undefined
}): (socket: Socket) => boolean {
  return (socket) => {
    const one = openWith(socket)
    const key = keyOf(socket.remoteAddress)
    const entered = places.enter(key, one)
    if (entered === undefined) {
      stats.refused++
      const isFull = key !== undefined && places.isFull(key)
      refusals.refuse(socket, key ?? peerKeyOf(socket), isFull ? 'address' : 'all')
      return false
    }
    if (entered.evicted !== undefined) {
      stats.evicted++
      entered.evicted.socket.destroy()
    }
    const { place } = entered
    one.place = place
    ;(socket as Known)[OPEN] = one
    socket.once('close', () => places.leave(place))
    return true
  }
}

function activityOf({ unanswered, arriving }: Open): Activity {
  if (unanswered === 0) return 'idle'
  return unanswered === 1 && arriving !== undefined ? 'arriving' : 'busy'
}

/** Asks before a connection gets its socket, where Node can ask, and before a socket gets its parser. */
function standBefore(
  http: Server,
  isUnwanted: (remote: string) => boolean,
  open: (socket: Socket, toNode: (socket: Socket) => void) => void,
): void {
  // Where Node does not ask it, such a connection is refused by `open`.
  Object.assign(http, { blockList: { check: isUnwanted } })
  const [attach, ...others] = http.listeners('connection')
  if (attach === undefined || others.length > 0) throw new Error('not the listeners of node:http')
  http.removeAllListeners('connection')
  const toNode = (socket: Socket) => void attach.call(http, socket)
  http.on('connection', (socket: Socket) => open(socket, toNode))
}

/** Sockets that are late, each of which is closed once, and those that may become so after they were handed over. */
function createLate(
  stats: { late: number },
  { headersMs, requestMs }: Pick<SocketLimits, 'headersMs' | 'requestMs'>,
  closeSoon: ReturnType<typeof createClosing>,
) {
  /** Bounded by the sockets. */
  const handed = new Set<Open>()

  function close(error: Error, socket: Socket): void {
    const one = openOf(socket)
    if (one?.isLate === true) return
    if (one !== undefined) one.isLate = true
    stats.late++
    closeSoon(() => endBroken(socket, 408, error))
  }
  return {
    close,
    handOver(socket: Socket, since: number): void {
      const one = openOf(socket)
      if (one === undefined) return
      one.since = since
      handed.add(one)
    },
    closeHandedOver(now: number): void {
      for (const one of handed) {
        const { socket, since, arriving } = one
        const isOver = since === undefined || socket.destroyed
        const limitMs = arriving === undefined ? Math.min(headersMs, requestMs) : requestMs
        if (!isOver && now - since <= limitMs) continue
        handed.delete(one)
        if (!isOver) close(lateError(), socket)
      }
    },
  }
}

const lateError = (): Error =>
  Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
