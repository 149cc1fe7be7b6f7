/** Requests that a replay does not repeat, because their response depends on more than the view. */
import { CODES } from '../../rpc/core/errors.ts'
import type { RpcResponse } from '../../rpc/core/exchange.ts'
import type { Apart } from './lines.ts'

/** Reasons as texts for people. */
export const WHY_APART: Readonly<Record<Apart, string>> = {
  send: 'sends: a record has what the writer took of them, not their bytes',
  subscription: 'subscriptions: their names are chosen by chance',
  filter: 'filters: their names are chosen by chance, and each answer depends on the one before',
  ledger: 'of the ledger and the clock',
  node: 'of the node and not of the chain',
  views: 'read from several views',
  txpool: 'answered with what waited in the txpool',
  elsewhere: 'answered by another node',
  machine: 'ended by time, a limit of the client or a full queue',
}

const BY_METHOD: ReadonlyMap<string, Apart> = new Map(
  Object.entries({
    send: 'eth_sendRawTransaction eth_sendRawTransactionSync eth_sendTransaction',
    subscription: 'eth_subscribe eth_unsubscribe',
    filter: `eth_newFilter eth_newBlockFilter eth_newPendingTransactionFilter eth_getFilterChanges eth_getFilterLogs
      eth_uninstallFilter`,
    ledger: 'flashblocks_transactionStatus flashblocks_stats base_transactionStatus',
    node: 'web3_clientVersion rpc.discover rpc_limits eth_syncing',
    views: 'eth_fillTransaction eth_signTransaction',
  } satisfies Partial<Record<Apart, string>>).flatMap(([why, names]) =>
    names.split(/\s+/).map((name) => [name, why as Apart] as const),
  ),
)

/**
 * @param method method as it was sent
 * @returns undefined if the response depends on the view or the request alone
 */
export const apartOf = (method: unknown): Apart | undefined =>
  typeof method === 'string' ? BY_METHOD.get(method) : undefined

/**
 * Detects errors that depend on the load of the machine. Quotes of clients' texts are escaped, so
 * no result matches.
 */
const isOfMachine = (text: string): boolean =>
  text.includes(LATE) || (text.includes(REFUSED) && text.includes('"data":{"reason":'))
const [LATE, REFUSED] = [`"code":${CODES.timeout}`, `"code":${CODES.limited}`]
/** Longer parts are results. */
const ERROR_CHARACTERS = 4_096

export const isMachines = ({ parts, text }: Pick<RpcResponse, 'parts' | 'text'>): boolean =>
  parts === undefined
    ? text !== undefined && isOfMachine(text)
    : parts.some(
        (part) => typeof part === 'string' && part.length <= ERROR_CHARACTERS && isOfMachine(part),
      )
