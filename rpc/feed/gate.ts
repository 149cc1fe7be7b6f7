/**
 * Who may read the enriched feed, or copy the state. It is what replicas answer from, so it is for those who run this node: with a token where
 * there is one, and never in the clear over a network that is everybody's.
 */
import { timingSafeEqual } from 'node:crypto'
import { type FeedVisitor, TOKEN_HEADER } from '../http/upgrades.ts'
import { isPrivate } from '../seam/address.ts'
import { digestOf } from '../seam/api-keys.ts'

export type FeedGate = (
  visitor: FeedVisitor,
) => { readonly status: 401 | 403; readonly wrong: string } | undefined

/**
 * @param token undefined: none is needed, and only loopback and private addresses are let in
 * @param to what it is the gate to, and the header that the token stands in
 */
export function createFeedGate(token: string | undefined, to = ENRICHED): FeedGate {
  const { what, header } = to
  const wanted = token === undefined ? undefined : digestOf(token)
  return ({ address, isForwarded, isSecure, token: given }) => {
    const isNear = isPrivate(address) && !isForwarded
    if (wanted === undefined)
      return isNear
        ? undefined
        : { status: 403, wrong: `${what}: from private addresses only, there is no token` }
    if (given === undefined || !timingSafeEqual(digestOf(given), wanted))
      return {
        status: 401,
        wrong: `${what}: the header ${header} has no token or another one`,
      }
    return isNear || isSecure
      ? undefined
      : { status: 403, wrong: `${what}: over TLS, or from a private address` }
  }
}
const ENRICHED = { what: 'enrich', header: TOKEN_HEADER }
