/**
 * Access to the enriched feed and to copies of the state. Both are for the node's operators only,
 * because replicas answer from them. They need a token, and are never sent unencrypted over a
 * public network.
 */
import { timingSafeEqual } from 'node:crypto'
import { digestOf } from '../core/api-keys.ts'
import { type FeedVisitor, TOKEN_HEADER } from '../http/upgrades.ts'
import { isPrivate } from '../limiter/address.ts'

export type FeedAccess = (
  visitor: FeedVisitor,
) => { readonly status: 401 | 403; readonly wrong: string } | undefined

/**
 * Creates the access check.
 * @param token undefined admits loopback and private addresses without a token
 * @param to name of the protected service, and the header of the token
 */
export function createFeedAccess(token: string | undefined, to = ENRICHED): FeedAccess {
  const { what, header } = to
  const wanted = token === undefined ? undefined : digestOf(token)
  return ({ address, isForwarded, isSecure, token: given }) => {
    const isPrivateClient = isPrivate(address) && !isForwarded
    if (wanted === undefined)
      return isPrivateClient
        ? undefined
        : {
            status: 403,
            wrong: `${what}: only private addresses have access, because this node has no token`,
          }
    if (given === undefined || !timingSafeEqual(digestOf(given), wanted))
      return {
        status: 401,
        wrong: `${what}: the header ${header} is missing or has a wrong token`,
      }
    return isPrivateClient || isSecure
      ? undefined
      : { status: 403, wrong: `${what}: use TLS, or connect from a private address` }
  }
}
const ENRICHED = { what: 'enrich', header: TOKEN_HEADER }
