/** Logs of a simulated call, and its transfers of value as logs where they are wanted (ERC-7528). */
import type { TraceSink } from '../../evm/engine.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import type { Log } from '../../primitives/receipt.ts'
import { bigintToBytes, concatBytes, ZERO_20 } from '../../primitives/words.ts'

/** `index`: how many were made before it in the block, failed ones included, as go-ethereum counts. */
export type SimulatedLog = Log & { readonly index: number }

export class LogCollector {
  readonly sink: TraceSink
  /** Of the open frames, and below them those of the call. */
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

  /** Of the call that has ended; the next one begins with none. */
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

/** A delegate call moves nothing, and what CALLCODE moves stays where it is. */
const TRANSFERS = new Set(['CALL', 'CREATE', 'CREATE2', 'SELFDESTRUCT'])
/** Transfer(address,address,uint256). */
const TRANSFER = hexToBytes('0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef')
const ETHER = hexToBytes(`0x${'ee'.repeat(20)}`)
const padded = (address: Bytes): Bytes => concatBytes(new Uint8Array(12), address)
