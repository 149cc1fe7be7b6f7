/**
 * The admin port, on loopback only: metrics, details, and the status page with the node's
 * internals.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { createHostCheck, hostFault } from '../../rpc/http/hosts.ts'
import {
  FILES_PATH,
  isBrowser,
  isOwnOrigin,
  LIVE_PATH,
  type PageFile,
  type StatusPage,
} from '../../rpc/http/status-page.ts'
import type { Adopt } from '../../rpc/http/upgrades.ts'
import { type Open, refuseUpgrade } from '../../rpc/http/websocket.ts'

// An import of node:http would load undici, so the module comes from `process`.
const { createServer } = process.getBuiltinModule('node:http')

export type AdminPage = { readonly type: string; readonly text: string }
export type AdminServer = { readonly port: number; close(): Promise<void> }
/** The status page, and the service of its WebSockets. */
export type AdminStatus = {
  readonly status: Pick<StatusPage, 'html' | 'file'> & {
    /** Serves a viewer of the status page, with the node's internals. */
    readonly openInside: Open
  }
  /** Passes an upgraded socket to the request server, which then owns the socket. */
  readonly adopt: Adopt
}
/** Pages by their exact path, without a query. */
type Pages = Readonly<Record<string, () => AdminPage | Promise<AdminPage>>>

/**
 * Starts the admin server on 127.0.0.1 and resolves when it listens. The node calls this once at
 * its start. `close` waits until the adopted WebSockets are closed too.
 * @param port 0 chooses a free port
 * @param statusPage the status page; undefined disables it
 * @throws the system's error (EADDRINUSE …)
 */
export async function startAdmin(
  port: number,
  pages: Pages,
  statusPage?: AdminStatus | undefined,
): Promise<AdminServer> {
  // An empty list adds no names to the loopback names and literal addresses.
  const isHostAllowed = createHostCheck([])
  const pagesByPath = new Map(Object.entries(pages))
  const server: Server = createServer((request, response) => {
    if (!isHostAllowed(request.headers.host)) response.writeHead(403).end()
    else void respond(request, response, { pagesByPath, statusPage })
  })
  server.requestTimeout = 10_000
  server.maxConnections = 64
  if (statusPage !== undefined)
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const { host, origin } = request.headers
      // Node refuses plain requests without a Host header, but not upgrades.
      const fault = hostFault(request)
      if (fault !== undefined) return refuseUpgrade(socket, 400, fault)
      // Any page in a browser may connect to loopback, so only this page's origin is accepted.
      if (!isHostAllowed(host) || (origin !== undefined && !isOwnOrigin(origin, host)))
        return refuseUpgrade(socket, 403, 'origin or host not allowed')
      const address = request.socket.remoteAddress ?? '127.0.0.1'
      const upgraded = { request, socket, head, address }
      const path = pathOf(request)
      if (path === LIVE_PATH) return statusPage.adopt(upgraded, statusPage.status.openInside)
      if (path === CALLS_PATH) return statusPage.adopt(upgraded, 'flashblocks')
      return refuseUpgrade(socket, 404, 'not found')
    })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/**
 * Path of JSON-RPC over WebSocket with flashblocks semantics. The status page uses the same path on
 * the RPC port.
 */
const CALLS_PATH = '/flashblocks'

const pathOf = ({ url }: IncomingMessage): string => (url ?? '').split('?', 1)[0]!

async function fileFor(
  { headers, method }: IncomingMessage,
  path: string,
  { status }: AdminStatus,
): Promise<PageFile | undefined> {
  if (method !== 'GET') return undefined
  if (path === '/') return isBrowser(headers.accept) ? status.html() : undefined
  return path.startsWith(FILES_PATH) ? status.file(path.slice(FILES_PATH.length)) : undefined
}

type Routes = {
  readonly pagesByPath: ReadonlyMap<string, Pages[string]>
  readonly statusPage: AdminStatus | undefined
}
async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { pagesByPath, statusPage }: Routes,
): Promise<void> {
  const path = pathOf(request)
  try {
    const file = statusPage && (await fileFor(request, path, statusPage))
    const page = pagesByPath.get(path)
    if (file !== undefined) response.writeHead(200, file.headers).end(file.body)
    else if (page === undefined) response.writeHead(404).end()
    else {
      const { type, text } = await page()
      response.writeHead(200, { 'content-type': type }).end(text)
    }
  } catch (error) {
    response.writeHead(500).end((error as Error).message)
  }
}
