/** Which requests a replay does not ask again, because their answer is not of the view alone. */
import { CODES } from '../../rpc/seam/errors.ts'
import type { Answer } from '../../rpc/seam/exchange.ts'
import type { Apart } from './lines.ts'

/** For people. */
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

/** @param method as it was sent; undefined: its answer is of the view, or of the request alone */
export const apartOf = (method: unknown): Apart | undefined =>
  typeof method === 'string' ? BY_METHOD.get(method) : undefined

/** Of an error that says how busy a machine was. Quotes of what clients sent are escaped, so that no result looks like one. */
const isOfMachine = (text: string): boolean =>
  text.includes(LATE) || (text.includes(REFUSED) && text.includes('"data":{"reason":'))
const [LATE, REFUSED] = [`"code":${CODES.timeout}`, `"code":${CODES.limited}`]
/** Parts that are longer are results. */
const ERROR_CHARACTERS = 4_096

export const isMachines = ({ parts, text }: Pick<Answer, 'parts' | 'text'>): boolean =>
  parts === undefined
    ? text !== undefined && isOfMachine(text)
    : parts.some(
        (part) => typeof part === 'string' && part.length <= ERROR_CHARACTERS && isOfMachine(part),
      )
