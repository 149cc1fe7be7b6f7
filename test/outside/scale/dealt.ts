/** Addresses by turns: HAProxy's hash says which of its servers one is sent to, and tests want each server to have as many. */

import { bodyOf } from '../../kit/client.ts'
import type { Balancer } from './balancer.ts'
import { post } from './client.ts'

export type Asked = {
  readonly balancer: Balancer
  /** Those of its servers that are there. */
  readonly replicas: readonly { readonly name: string }[]
}

/** Hosts of 127.0.`net`.0/24 in their order, without those whose server has more than another one. @throws when there are no more */
export async function* dealt(
  { balancer, replicas }: Asked,
  net: number,
): AsyncGenerator<string, never> {
  const counts = new Map(replicas.map(({ name }) => [name, 0]))
  for (let host = 1; host <= MOST_HOSTS; host++) {
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
const MOST_HOSTS = 254

export async function dealtMany(
  asked: Asked,
  net: number,
  count: number,
): Promise<readonly string[]> {
  const addresses: string[] = []
  for await (const address of dealt(asked, net)) {
    addresses.push(address)
    if (addresses.length === count) break
  }
  return addresses
}
