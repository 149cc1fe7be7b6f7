/** How controls come to the sequencer, and what they need of the chain and of other threads. */

import { randomBytes } from 'node:crypto'
import type { MessagePort } from 'node:worker_threads'
import { readNewest } from '../../engine/chain/newest.ts'
import type { Block, ChainReader } from '../../engine/chain/types.ts'
import { isSigned } from '../../engine/primitives/transaction.ts'
import type {
  ControlledBlock,
  ControlPort,
  ControlRequest,
} from '../../engine/sources/sequencer/controls.ts'
import type { StoreReader } from '../../engine/storage/types.ts'
import type { FromSequencer, SequencerToWriter } from '../thread/messages.ts'

export function controlPort(options: {
  readonly reader: ChainReader
  readonly store: StoreReader
  readonly writer: MessagePort
  readonly tell: (message: FromSequencer) => void
}): { readonly port: ControlPort; push(request: ControlRequest): void } {
  const { reader, store, writer, tell } = options
  const waiting: ControlRequest[] = []
  const port: ControlPort = {
    next: () => waiting.shift(),
    done: (answer) => tell({ type: 'controlled', answer }),
    rewind: (to) => writer.postMessage({ type: 'rewind', to } satisfies SequencerToWriter),
    isFlat: () =>
      readNewest(reader, 'flashblocks', ({ pending, latest }) => pending.number === latest.number),
    pin: (number) => writer.postMessage({ type: 'pin', number } satisfies SequencerToWriter),
    blocksFrom: (number) => blocksFrom(reader, number),
    finalized: () =>
      readNewest(reader, 'standard', (view) =>
        Number(view.block({ tag: 'finalized' })?.number ?? view.canonical.number),
      ),
    isKept: (number) => store.isUnfoldable(number),
    salt: () => randomBytes(8),
  }
  return { port, push: (request) => void waiting.push(request) }
}

/** Nothing where one of them is not there. */
const blocksFrom = (reader: ChainReader, number: number): readonly ControlledBlock[] =>
  readNewest(reader, 'standard', (view) => {
    const blocks: ControlledBlock[] = []
    for (let at = BigInt(number); at <= view.canonical.number; at++) {
      const block = view.block({ number: at })
      if (block === undefined) return []
      blocks.push(controlled(block))
    }
    return blocks
  })

const controlled = (block: Block): ControlledBlock => ({
  number: Number(block.number),
  hash: block.hash.slice(),
  transactions: block
    .transactions()
    .filter(isSigned)
    .map(({ hash }) => hash.slice()),
})
