/** The status page as the server has it: files for GET, and who looks over a WebSocket. What is in it is handed in. */
import type { Open } from './websocket.ts'

export type PageFile = {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

export interface StatusPage {
  /** For a browser at GET /. */
  html(): Promise<PageFile>
  /** Of GET /page/<name>; undefined: there is none. */
  file(name: string): Promise<PageFile | undefined>
  /** WebSocket LIVE_PATH. */
  readonly live: Open
}

export const LIVE_PATH = '/page/live'
export const FILES_PATH = '/page/'

/** A client of JSON-RPC or of curl takes anything, or JSON. */
export const isBrowser = (accept: string | undefined): boolean =>
  accept?.includes('text/html') === true

/** A page that this very node has sent: it may read what the node says, whatever other origins may. */
export const isOwnOrigin = (origin: string | undefined, host: string | undefined): boolean =>
  host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)
