/**
 * This module deals addresses evenly: HAProxy's hash assigns a server to each, and tests want equal
 * numbers.
 */

import { bodyOf } from '../../kit/client.ts'
import type { Balancer } from './balancer.ts'
import { post } from './client.ts'

export type BalancedReplicas = {
  readonly balancer: Balancer
  /** The servers of the balancer that are up. */
  readonly replicas: readonly { readonly name: string }[]
}

/**
 * Yields the hosts of 127.0.`net`.0/24 in order, and skips those whose server has more than
 * another.
 * @throws when no address is left
 */
export async function* dealt(
  { balancer, replicas }: BalancedReplicas,
  net: number,
): AsyncGenerator<string, never> {
  const counts = new Map(replicas.map(({ name }) => [name, 0]))
  for (let host = 1; host <= MAX_HOSTS; host++) {
    const address = `127.0.${net}.${host}`
    await post(`${balancer.url}/`, bodyOf('eth_chainId'), address)
    const server = (await balancer.stuck()).get(address) ?? 'none'
    const count = counts.get(server)
    if (count === undefined || count > Math.min(...counts.values())) continue
    counts.set(server, count + 1)
    yield address
  }
  throw new Error(`127.0.${net}.0/24 has no more addresses`)
}
const MAX_HOSTS = 254

export async function dealtMany(
  request: BalancedReplicas,
  net: number,
  count: number,
): Promise<readonly string[]> {
  const addresses: string[] = []
  for await (const address of dealt(request, net)) {
    addresses.push(address)
    if (addresses.length === count) break
  }
  return addresses
}
