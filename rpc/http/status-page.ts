/** Interface of the status page to the server: files for GET, and viewers over a WebSocket. */
import type { Open } from './websocket.ts'

export type PageFile = {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

export interface StatusPage {
  /** Page for a browser at GET /. */
  html(): Promise<PageFile>
  /** Returns the file of GET /page/<name>. undefined: unknown name. */
  file(name: string): Promise<PageFile | undefined>
  /** Handler of the WebSocket at LIVE_PATH. */
  readonly live: Open
}

export const LIVE_PATH = '/page/live'
export const FILES_PATH = '/page/'

/** Tells whether the client is a browser. JSON-RPC clients and curl accept anything, or JSON. */
export const isBrowser = (accept: string | undefined): boolean =>
  accept?.includes('text/html') === true

/**
 * Tells whether a page comes from this node. Such a page may read the node's responses, whatever
 * other origins may do.
 */
export const isOwnOrigin = (origin: string | undefined, host: string | undefined): boolean =>
  host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)
