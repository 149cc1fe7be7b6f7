/** Collects logs of simulated calls, and on request transfers of value as logs (ERC-7528). */
import type { TraceSink } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import type { Log } from '../../primitives/receipt.ts'
import { bigintToBytes, concatBytes, ZERO_20 } from '../../primitives/words.ts'

/** `index` counts earlier logs of the block, failed ones included, as in go-ethereum. */
export type SimulatedLog = Log & { readonly index: number }

export class LogCollector {
  readonly sink: TraceSink
  /** Logs of the open frames; the first list has those of the call itself. */
  #open: SimulatedLog[][] = [[]]
  #count = 0

  constructor(withTransfers: boolean) {
    this.sink = {
      enter: (kind, from, to, value) => {
        this.#open.push([])
        if (withTransfers && value > 0n && TRANSFERS.has(kind)) this.#transfer(from, to, value)
      },
      exit: (error) => {
        const ended = this.#open.pop()!
        if (error === undefined) this.#open.at(-1)!.push(...ended)
      },
      log: (log) => this.#add(log),
    }
  }

  /** Returns the logs of the ended call, and starts the next call without logs. */
  take(): readonly SimulatedLog[] {
    const logs = this.#open[0]!
    this.#open = [[]]
    return logs
  }

  #transfer(from: Bytes, to: Bytes | undefined, value: bigint): void {
    const topics = [TRANSFER, padded(from), padded(to ?? ZERO_20)]
    this.#add({ address: ETHER, topics, data: bigintToBytes(value, 32) })
  }

  #add(log: Log): void {
    this.#open.at(-1)!.push({ ...log, index: this.#count++ })
  }
}

/** A delegate call transfers no value, and CALLCODE transfers to the caller itself. */
const TRANSFERS = new Set(['CALL', 'CREATE', 'CREATE2', 'SELFDESTRUCT'])
/** Transfer(address,address,uint256). */
const TRANSFER = hexToBytes('0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef')
const ETHER = hexToBytes(`0x${'ee'.repeat(20)}`)
const padded = (address: Bytes): Bytes => concatBytes(new Uint8Array(12), address)
