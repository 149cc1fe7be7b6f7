/** The admin port: metrics and details, on loopback only. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHostCheck } from '../../rpc/http/hosts.ts'

// As in the server of requests: an import would load undici.
const { createServer } = process.getBuiltinModule('node:http')

export type AdminPage = { readonly type: string; readonly text: string }
export type AdminServer = { readonly port: number; close(): Promise<void> }

/** @throws the system's error (EADDRINUSE …). */
export async function startAdmin(
  port: number,
  pages: Readonly<Record<string, () => AdminPage | Promise<AdminPage>>>,
): Promise<AdminServer> {
  const isHostAllowed = createHostCheck([])
  const known = new Map(Object.entries(pages))
  const server: Server = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0]!
    const page = known.get(path)
    const status = !isHostAllowed(request.headers.host) ? 403 : page === undefined ? 404 : 200
    if (status !== 200 || page === undefined) {
      response.writeHead(status).end()
      return
    }
    void Promise.resolve()
      .then(page)
      .then(
        ({ type, text }) => response.writeHead(200, { 'content-type': type }).end(text),
        (error: Error) => response.writeHead(500).end(error.message),
      )
  })
  server.requestTimeout = 10_000
  server.maxConnections = 64
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
