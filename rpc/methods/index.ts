/** Every JSON-RPC method, one file per chapter. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Method, Methods } from '../method.ts'
import * as account from './account.ts'
import * as block from './block.ts'
import * as call from './call.ts'
import * as client from './client.ts'
import * as discover from './discover.ts'
import * as fee from './fee.ts'
import * as log from './log.ts'
import * as pool from './pool.ts'
import * as state from './state.ts'
import * as submit from './submit.ts'
import * as subscribe from './subscribe.ts'
import * as transaction from './transaction.ts'

const chapters: readonly Readonly<Record<string, Method>>[] = [
  account,
  block,
  call,
  client,
  discover,
  fee,
  log,
  pool,
  state,
  submit,
  subscribe,
  transaction,
]

export const methods: Methods = new Map(
  chapters
    .flatMap((chapter) => Object.values(chapter))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((method) => [method.name, method]),
)

/** What an endpoint serves: all it can, or exactly the service's list. */
export function methodsOf(endpoint: Endpoint, set: 'all' | 'standard'): Methods {
  const served = [...methods].filter(([, { endpoints, listed }]) =>
    (set === 'all' ? endpoints : listed).includes(endpoint),
  )
  return new Map(served)
}
