/** All JSON-RPC methods; each file has one topic. */
import type { Endpoint } from '../../engine/chain/types.ts'
import type { Method, Methods } from '../method/method.ts'
import * as account from './account.ts'
import * as state from './accounts-state.ts'
import * as block from './block.ts'
import * as call from './call.ts'
import * as client from './client.ts'
import * as debug from './debug.ts'
import * as discover from './discover.ts'
import * as fee from './fee.ts'
import * as log from './log.ts'
import * as promises from './promises.ts'
import * as proof from './proof.ts'
import * as raw from './raw.ts'
import * as simulate from './simulate.ts'
import * as submit from './submit.ts'
import * as subscribe from './subscribe.ts'
import * as transaction from './transaction.ts'
import * as txpool from './txpool.ts'

const { requireTracer: _, ...traces } = debug
const chapters: readonly Readonly<Record<string, Method>>[] = [
  account,
  block,
  call,
  client,
  traces,
  discover,
  fee,
  log,
  txpool,
  promises,
  proof,
  raw,
  simulate,
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

/**
 * Returns the methods of an endpoint: all of them, or exactly the service's list.
 * @param isTraceModeOptional debug_traceBlockByNumber without a tracer uses the struct logger, as
 * in go-ethereum
 */
export function methodsOf(
  endpoint: Endpoint,
  set: 'all' | 'standard',
  isTraceModeOptional = false,
): Methods {
  const served = [...methods].filter(([, { endpoints, listed }]) =>
    (set === 'all' ? endpoints : listed).includes(endpoint),
  )
  const { name } = debug.debug_traceBlockByNumber
  return new Map(
    served.map(([key, method]) => [
      key,
      key === name && !isTraceModeOptional ? debug.requireTracer(method) : method,
    ]),
  )
}
