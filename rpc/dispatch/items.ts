/** Parsed requests of a body. */
import type { BadRequest, Request } from '../json/envelope.ts'
import type { Method } from '../method/method.ts'

/** A request whose method is served. */
export type Ready = Request & { readonly found: Method }
export type Item = Ready | BadRequest
export const isReady = (item: Item): item is Ready => 'found' in item
